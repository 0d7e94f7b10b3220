#if canImport(Glibc)
import Glibc

/// The resources in use by this process. For tests that run in their own process.
package struct ProcessUsage: Sendable, CustomStringConvertible {
    package let descriptors, threads, residentKiB: Int

    package static func now() -> ProcessUsage {
        ProcessUsage(descriptors: self.entries("/proc/self/fd"), threads: self.entries("/proc/self/task"), residentKiB: self.residentKiB())
    }

    /// Whether a sanitizer is active. It retains freed memory, which makes the memory usage meaningless.
    package static let hasSanitizer = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil

    package var description: String { "\(self.descriptors) descriptors, \(self.threads) threads, \(self.residentKiB) KiB" }

    private static func entries(_ path: String) -> Int {
        guard let folder = opendir(path) else { return 0 }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return count
    }

    /// The resident memory as reported by the kernel. The C library's statistics aren't visible from Swift.
    private static func residentKiB() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, 256, file) != nil else { return 0 }
        let pages = line.split(separator: 0x20)[1].reduce(0) { $0 * 10 + Int($1) - 0x30 }
        return pages * sysconf(Int32(_SC_PAGESIZE)) >> 10
    }
}
#endif

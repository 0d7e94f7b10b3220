#if canImport(Glibc)
import Glibc

/// The resources in use by this process. For tests that run in their own process.
package struct ProcessUsage: Sendable, CustomStringConvertible {
    /// The number of descriptors, except timers: Dispatch opens another one when a task sleeps for the first time. An event loop has others too.
    package let descriptors: Int
    package let threads, residentKiB: Int

    package static func now() -> ProcessUsage {
        let descriptors = self.entries("/proc/self/fd").filter { self.target("/proc/self/fd/\($0)") != "anon_inode:[timerfd]" }
        return ProcessUsage(
            descriptors: descriptors.count, threads: self.entries("/proc/self/task").count, residentKiB: self.residentKiB())
    }

    /// Whether a sanitizer is active. It retains freed memory, which makes the memory usage meaningless.
    package static let hasSanitizer = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil

    package var description: String { "\(self.descriptors) descriptors, \(self.threads) threads, \(self.residentKiB) KiB" }

    private static func entries(_ path: String) -> [String] {
        guard let folder = opendir(path) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) { name in
                    name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                })
        }
        return names
    }

    /// Returns the target of a symbolic link.
    private static func target(_ path: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = bytes.withUnsafeMutableBytes { bytes in bytes.baseAddress.map { readlink(path, $0, bytes.count) } ?? -1 }
        return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
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

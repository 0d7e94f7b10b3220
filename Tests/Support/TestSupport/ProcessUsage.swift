#if canImport(Glibc)
import Glibc

/// The resources in use by this process. For tests that run in their own process.
package struct ProcessUsage: Error, CustomStringConvertible {
    /// The number of descriptors, except timers: Dispatch opens another one when a task sleeps for the first time. An event loop has others too.
    package let descriptors: Int
    /// The number of threads that the package has started, which have its name, except that of the shared event loop. The system starts and ends
    /// threads for tasks at any time.
    package let threads: Int
    package let residentKiB: Int

    package static func now() -> ProcessUsage {
        let descriptors = self.entries("/proc/self/fd").filter { self.target("/proc/self/fd/\($0)") != "anon_inode:[timerfd]" }
        let threads = self.entries("/proc/self/task").filter { self.firstLine(of: "/proc/self/task/\($0)/comm").hasPrefix("realtime-") }
        return ProcessUsage(descriptors: descriptors.count, threads: threads.count, residentKiB: self.residentKiB())
    }

    /// Expects that the process uses no more descriptors and threads than before, and little more memory.
    ///
    /// - Parameters:
    ///   - before: The earlier usage.
    ///   - growthKiB: How much more memory the allocator may keep; `nil` for any amount. Memory isn't compared under a sanitizer.
    /// - Throws: The usage if descriptors or threads remain.
    package static func expectRelease(since before: ProcessUsage, growthKiB: Int?) async throws {
        var after = Self.now()
        // A loop closes its last sockets on its thread, and threads end a little later.
        try? await eventually {
            after = Self.now()
            return after.descriptors <= before.descriptors && after.threads <= before.threads
        }
        guard after.descriptors <= before.descriptors, after.threads <= before.threads else { throw after }
        guard let growthKiB, !self.hasSanitizer else { return }
        precondition(after.residentKiB <= before.residentKiB + growthKiB, "memory: \(before) \(after)")
    }

    /// Whether a sanitizer is active. It retains freed memory, which makes the memory usage meaningless.
    package static let hasSanitizer = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil

    /// The number of cycles before the usage is compared. Under a sanitizer, which makes each of them take ten times as long, memory isn't compared.
    package static func warmUp(_ count: Int) -> Int { self.hasSanitizer ? count / 10 : count }

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
        let pages = self.firstLine(of: "/proc/self/statm").split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * sysconf(Int32(_SC_PAGESIZE)) >> 10
    }

    /// Returns the first line of a file, or an empty string if it doesn't exist, such as that of a thread which has ended.
    private static func firstLine(of path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, 256, file) != nil else { return "" }
        return String(decoding: line.prefix { $0 != 0 && $0 != 0x0A }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
#endif

import CRealtimeSystem
import Processes
import RealtimeSystem

/// The processor time that all threads of this process have used, in nanoseconds.
func processTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// A process and its descendants.
struct ProcessTree {
    /// The processes that were running when the tree was created, in no particular order.
    let ids: [Int32]

    /// Finds the descendants of a process, or returns `nil` if the system doesn't report them.
    init?(_ id: Int32) {
        var ids = [id]
        var index = 0
        while index < ids.count {
            guard let children = fileText("/proc/\(ids[index])/task/\(ids[index])/children") else { return nil }
            ids += children.split(separator: " ").compactMap { Int32($0) }
            index += 1
        }
        self.ids = ids
    }

    /// The processor time that the processes have used, in nanoseconds, or `nil` if the system doesn't report it.
    var time: Double? {
        #if canImport(Darwin)
        return nil
        #else
        var sum = 0.0
        for id in self.ids {
            var clock = clockid_t()
            var time = timespec()
            guard clock_getcpuclockid(id, &clock) == 0, clock_gettime(clock, &time) == 0 else { return nil }
            sum += Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
        }
        return sum
        #endif
    }

    /// Returns whether one of the processes runs a program with this name.
    func runs(_ name: String) -> Bool { self.ids.contains { fileText("/proc/\($0)/comm") == name + "\n" } }
}

/// Returns the beginning of a file as text, or `nil` if it cannot be read.
private func fileText(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &buffer, buffer.count)
    return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
}

/// The time of a monotonic clock, in nanoseconds.
func wallTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// The number of bytes this process has allocated with `malloc`, or `nil` if the system does not report it.
var allocatedBytes: Int? {
    let bytes = realtime_allocated_bytes()
    return bytes == 0 ? nil : bytes
}

/// The size of the current executable in bytes, or `nil` if it cannot be determined.
var executableSize: Int? {
    var status = stat()
    return stat(ChildProcess.ownPath, &status) == 0 ? Int(status.st_size) : nil
}

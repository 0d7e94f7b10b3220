import CRealtimeSystem
import Processes
import RealtimeSystem

/// The processor time that all threads of this process have used, in nanoseconds.
func processTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
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

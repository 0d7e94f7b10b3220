internal import CommandLineSupport
internal import RealtimeSystem
internal import Processes

/// The processor time of this process, all its threads, in nanoseconds.
func processTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// A clock for what took how long, in nanoseconds.
func wallTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// The file of the tool.
enum ToolSize {
    static var bytes: Int? {
        var status = stat()
        return stat(ChildProcess.ownPath, &status) == 0 ? Int(status.st_size) : nil
    }
}

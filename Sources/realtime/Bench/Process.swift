internal import ChildProcesses

#if canImport(Darwin)
internal import Darwin
#elseif canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

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

/// How many descriptors this process may have.
enum FileLimit {
    /// As many as the system allows.
    @discardableResult
    static func raise() -> Int {
        var limit = rlimit()
        #if canImport(Glibc)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let files = RLIMIT_NOFILE
        #endif
        guard getrlimit(files, &limit) == 0 else { return 0 }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(files, &limit)
        guard getrlimit(files, &limit) == 0 else { return 0 }
        return Int(clamping: limit.rlim_cur)
    }
}

/// The file of the tool.
enum ToolSize {
    static var bytes: Int? {
        var status = stat()
        return stat(ChildProcess.ownPath, &status) == 0 ? Int(status.st_size) : nil
    }
}

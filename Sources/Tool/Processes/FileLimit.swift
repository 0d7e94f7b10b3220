import RealtimeSystem

/// How many descriptors this process may have.
package enum FileLimit {
    /// As many as the system allows. Most shells allow fewer at first.
    /// - Returns: what is allowed now.
    @discardableResult
    package static func raise() -> Int {
        var limit = rlimit()
        #if canImport(Glibc)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let files = RLIMIT_NOFILE
        #endif
        guard getrlimit(files, &limit) == 0 else { return 0 }
        #if canImport(Darwin)
        // The hard limit says "infinite" there, and the system refuses more than this.
        limit.rlim_cur = min(limit.rlim_max, rlim_t(OPEN_MAX))
        #else
        limit.rlim_cur = limit.rlim_max
        #endif
        _ = setrlimit(files, &limit)
        guard getrlimit(files, &limit) == 0 else { return 0 }
        return Int(clamping: limit.rlim_cur)
    }
}

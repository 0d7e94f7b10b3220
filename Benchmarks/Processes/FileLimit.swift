import RealtimeSystem

/// The number of descriptors this process may have open.
package enum FileLimit {
    /// Raises the limit to the most the system allows. Most shells start with a lower one.
    ///
    /// - Returns: The limit, or 0 if it cannot be determined.
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
        // The hard limit is infinite on Darwin, but the system rejects more than this.
        limit.rlim_cur = min(limit.rlim_max, rlim_t(OPEN_MAX))
        #else
        limit.rlim_cur = limit.rlim_max
        #endif
        _ = setrlimit(files, &limit)
        guard getrlimit(files, &limit) == 0 else { return 0 }
        return Int(clamping: limit.rlim_cur)
    }
}

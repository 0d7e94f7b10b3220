#if canImport(Glibc)
import Glibc

/// A process that can open no descriptors, however many others it closes meanwhile.
package enum DescriptorShortage {
    /// Runs a body on a thread of its own: when tasks wait for a thread of the system's pool, the pool opens a file, and ends the process if
    /// that fails.
    package static func during<Value: Sendable, Failure>(_ body: () async throws(Failure) -> Value) async throws(Failure) -> Value {
        let executor = ThreadExecutor()
        defer { executor.stop() }
        return try await withTaskExecutorPreference(executor) { () async throws(Failure) -> Value in
            let before = Self.setLimit(0)
            defer { _ = Self.setLimit(before) }
            return try await body()
        }
    }

    package static func during<Value, Failure>(_ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        let before = Self.setLimit(0)
        defer { _ = Self.setLimit(before) }
        return try body()
    }

    /// - Returns: The previous limit.
    private static func setLimit(_ value: rlim_t) -> rlim_t {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        defer {
            limit.rlim_cur = value
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
        return limit.rlim_cur
    }
}
#endif

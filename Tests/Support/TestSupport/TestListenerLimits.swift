package import RealtimeSockets

extension ListenerLimits {
    /// Timeouts that no test reaches by accident.
    package static var forTests: ListenerLimits {
        var limits = ListenerLimits()
        limits.headTimeout = .seconds(600)
        limits.bodyTimeout = .seconds(600)
        limits.upgradeTimeout = .seconds(600)
        limits.keepAliveTimeout = .seconds(600)
        limits.stallTimeout = .seconds(600)
        return limits
    }
}

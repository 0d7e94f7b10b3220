#if canImport(Network)
internal import RealtimeSystem
internal import Dispatch
internal import Network
package import RealtimeCore

extension NetworkPathMonitor {
    /// The monitor of the device's network path, which all clients of the process share.
    package static let system: NetworkPathMonitor = {
        let monitor = NetworkPathMonitor()
        SystemPathSource.shared.start(monitor)
        return monitor
    }()
}

/// Reports changes of the device's network path to a monitor. It runs until the process ends.
///
/// `@unchecked Sendable`: the system's monitor is only used by `start(_:)`, which is called once.
private final class SystemPathSource: @unchecked Sendable {
    static let shared = SystemPathSource()

    private let source = NWPathMonitor()
    private let lastPath = Lock<NWPath?>(nil)

    func start(_ monitor: NetworkPathMonitor) {
        // The handler retains this object, which exists as long as the process.
        self.source.pathUpdateHandler = { path in
            if self.isChange(to: path) { monitor.pathChanged() }
        }
        self.source.start(queue: DispatchQueue(label: "realtime.network-path", qos: .userInitiated))
    }

    /// Records the path.
    ///
    /// - Returns: Whether it is usable and differs from the one before. The first path is the one on which clients are connecting already.
    private func isChange(to path: NWPath) -> Bool {
        self.lastPath.withLock { last in
            defer { last = path }
            guard let last else { return false }
            return last != path && path.status == .satisfied
        }
    }
}
#endif

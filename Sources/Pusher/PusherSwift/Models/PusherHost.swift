/// The server to connect to.
public enum PusherHost: Sendable {
    /// A server of your own, by its name or address.
    case host(String)
    /// A cluster of the Pusher service, such as `eu`.
    case cluster(String)

    /// The server of the default cluster of the Pusher service.
    public static var defaultHost: Self { .host("ws.pusherapp.com") }

    /// The name of the host.
    public var stringValue: String {
        switch self {
        case .host(let host): host
        case .cluster(let cluster): "ws-\(cluster).pusher.com"
        }
    }

    /// Returns the host as an object for Objective-C.
    public func toObjc() -> OCPusherHost {
        switch self {
        case .host(let host): OCPusherHost(host: host)
        case .cluster(let cluster): OCPusherHost(cluster: cluster)
        }
    }

    /// Returns the host of an object from Objective-C.
    ///
    /// - Parameter source: The object.
    public static func fromObjc(source: OCPusherHost) -> PusherHost {
        if let host = source.host { return .host(host) }
        return source.cluster.map { .cluster($0) } ?? .defaultHost
    }
}

public import Foundation

/// The server to connect to, for Objective-C.
///
/// `@unchecked Sendable`: the object doesn't change.
#if canImport(ObjectiveC)
@objcMembers
#endif
public class OCPusherHost: NSObject, @unchecked Sendable {
    let host: String?
    let cluster: String?

    /// Creates an object for the default cluster of the Pusher service.
    public override init() { (self.host, self.cluster) = (nil, nil) }

    /// Creates an object for a server of your own.
    ///
    /// - Parameter host: The name or address of the server.
    public init(host: String) { (self.host, self.cluster) = (host, nil) }

    /// Creates an object for a cluster of the Pusher service.
    ///
    /// - Parameter cluster: The name of the cluster, such as `eu`.
    public init(cluster: String) { (self.host, self.cluster) = (nil, cluster) }
}

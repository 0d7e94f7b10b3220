#if canImport(ObjectiveC)
import Foundation

/// The state of version 5 that ``ConnectionState`` doesn't have, for Objective-C code that compares with it.
///
/// A connection is never in this state: it waits for the network in ``ConnectionState/reconnecting``. The number is none of the others, so that
/// a `switch` over all states of version 5 compiles.
@available(swift, obsoleted: 1.0)
@objc public enum FormerConnectionState: Int, Sendable {
    /// The state in which version 5 waited for the network.
    @objc(ConnectionStateReconnectingWhenNetworkBecomesReachable)
    case reconnectingWhenNetworkBecomesReachable = 5
}
#endif

/// Whether and when a client reconnects, after a loss or a failed attempt from which the protocol allows it to recover.
///
/// The client waits for the delay first, and then tries. The policy isn't asked if the server rejects the client (close codes from 4001 to
/// 4099), which ends the attempts, or requires TLS (4000), which the client then uses immediately. After the close codes from 4100 to 4199,
/// which report a server over capacity, the delay is at least one second, whatever the policy; this is a rule of the protocol's section on
/// connection closure.
///
/// When the policy ends the attempts, the state of the client changes to ``PusherConnectionState/disconnected(_:)`` with an error whose code
/// is ``PusherError/Code/connectionLost``. ``PusherClient/connect()`` then starts over.
public enum PusherRetryPolicy: Sendable {
    /// Never. The client connects once for each call of ``PusherClient/connect()``.
    case none
    /// Unlimited reconnects, after the delays of ``PusherConfiguration/backoff``, or immediately after the close codes from 4200 to 4299.
    case backoff
    /// The delays before the attempts. After the last one has failed, the client stops.
    ///
    /// The list starts over when a connection has lasted for 30 seconds.
    case delays([Duration])
    /// Asks the application, in a task, after a loss and after each attempt that failed.
    ///
    /// The closure returns the delay before the next attempt, or `nil` to stop. It may wait, for example for a network or for the user's
    /// consent: the client waits for the answer without a time limit, as ``PusherConnectionState/connecting`` or
    /// ``PusherConnectionState/unavailable``. ``PusherClient/connect()``, ``PusherClient/checkConnection()`` and a change of the network path
    /// end this wait with an immediate attempt. ``PusherClient/disconnect()`` and the release of the client end it as well. Each of them
    /// cancels the task of the closure, doesn't wait for it, and ignores its answer.
    case custom(@Sendable (PusherRetryContext) async -> Duration?)
}

/// Decides about the delay before the next attempt, now or later: the answer is the delay, or `nil` to stop. Called on the thread that
/// observed the loss, without a lock.
package typealias PusherRetryDecision = @Sendable (PusherRetryContext, _ answer: @escaping @Sendable (Duration?) -> Void) -> Void

/// The input of a retry policy.
public struct PusherRetryContext: Hashable, Sendable {
    /// The number of attempts since the loss: zero when the connection was just lost, or when the first attempt of a client failed.
    ///
    /// It starts over when a connection has lasted for 30 seconds.
    public var retryCount: Int
    /// The time since the loss, or since the first attempt of the client failed.
    public var elapsed: Duration
    /// Why the connection was lost, or why the last attempt failed. Its ``PusherError/cause`` is a `TransportError` if the network caused it.
    public var reason: PusherError

    /// Creates a context, for a test of a policy.
    ///
    /// - Parameters:
    ///   - retryCount: The number of attempts since the loss.
    ///   - elapsed: The time since the loss.
    ///   - reason: Why the connection was lost, or why the last attempt failed.
    public init(retryCount: Int, elapsed: Duration, reason: PusherError) {
        self.retryCount = retryCount
        self.elapsed = elapsed
        self.reason = reason
    }
}

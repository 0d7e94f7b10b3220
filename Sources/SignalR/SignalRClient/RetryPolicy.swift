public import Foundation
import SignalRHubs

/// Decides whether and when a connection is established again after a loss.
public protocol RetryPolicy: Sendable {
    /// Returns the delay before the next attempt, in seconds, or `nil` to give up.
    ///
    /// Called in a task of the connection.
    ///
    /// - Parameter retryContext: What the policy may consider.
    func nextRetryInterval(retryContext: RetryContext) -> TimeInterval?
}

/// The input of a ``RetryPolicy``.
public struct RetryContext: Sendable {
    /// The number of attempts since the loss.
    public let retryCount: Int
    /// The time since the loss, in seconds.
    public let elapsed: TimeInterval
    /// Why the connection was lost, or why the last attempt failed.
    public let retryReason: (any Error)?

    /// Creates a context, for a test of a policy.
    public init(retryCount: Int, elapsed: TimeInterval, retryReason: (any Error)?) {
        self.retryCount = retryCount
        self.elapsed = elapsed
        self.retryReason = retryReason
    }

    init(_ context: HubRetryContext, serverTimeout: Duration) {
        self.init(
            retryCount: context.retryCount, elapsed: context.elapsed / .seconds(1),
            retryReason: SignalRError.converted(context.reason, serverTimeout: serverTimeout))
    }
}

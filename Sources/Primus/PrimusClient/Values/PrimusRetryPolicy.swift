import RealtimeCore

/// Whether and when to reconnect.
public enum PrimusRetryPolicy: Sendable {
    /// Never: after a loss or a failed attempt, the client closes.
    case none
    /// After delays that grow, with a random part.
    case backoff(PrimusBackoff)
    /// The delays before the attempts. After the last one, the client closes.
    case delays([Duration])
    /// Asks the application, in a task, after a loss and after each attempt that failed.
    ///
    /// The closure returns the delay before the next attempt. The client closes if it returns `nil` or throws. It may wait, for example for a
    /// network: the client waits for the decision without a time limit. Ending or releasing the client cancels the closure's task.
    case custom(@Sendable (PrimusRetryContext) async throws -> Duration?)

    /// Unlimited attempts, with delays from 0.5 to 30 seconds.
    public static let standard = PrimusRetryPolicy.backoff(PrimusBackoff())

    /// Ten attempts with delays that aren't limited, as in the client for JavaScript. The delays take 8.6 minutes on average and 17 minutes at
    /// most, in addition to the time of the attempts.
    public static let primus = PrimusRetryPolicy.backoff(PrimusBackoff(maximum: .seconds(86_400), retries: 10))
}

/// Delays between attempts to connect that grow exponentially and have a random part, so that the clients of a restarted server don't all
/// reconnect at the same time.
///
/// The delay before the n-th attempt is a random duration between `minimum` and `2 * minimum * factor^(n-1)`, limited to `maximum`. Unlike in
/// the client for JavaScript, the first delay is random, too.
public struct PrimusBackoff: Hashable, Sendable {
    /// The lower bound of all delays. The default is 0.5 seconds.
    public var minimum: Duration
    /// The upper bound of all delays. The default is 30 seconds.
    public var maximum: Duration
    /// By how much the upper bound grows with each attempt. The default is 2.
    public var factor: Double
    /// The maximum number of attempts after a loss; `nil`, the default, for no limit.
    public var retries: Int?

    /// Creates delays.
    public init(minimum: Duration = .milliseconds(500), maximum: Duration = .seconds(30), factor: Double = 2, retries: Int? = nil) {
        (self.minimum, self.maximum, self.factor, self.retries) = (minimum, maximum, factor, retries)
    }

    /// Returns a random delay.
    ///
    /// - Parameters:
    ///   - attempt: The number of the attempt, from 1.
    ///   - generator: The source of randomness.
    package func delay(attempt: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        let floor = max(0, Double(self.minimum.nanoseconds))
        var growth = 1.0
        for _ in 1..<max(2, min(attempt, 1024)) where attempt > 1 && growth < 0x1p60 { growth *= self.factor }
        let ceiling = min(max(floor, 2 * floor * growth), max(floor, Double(self.maximum.nanoseconds)), 0x1p62)
        let delay = floor + (min(floor, 0x1p62) < ceiling ? Double.random(in: 0..<(ceiling - floor), using: &generator) : 0)
        return min(.nanoseconds(Int64(min(delay, 0x1p62))), max(self.minimum, self.maximum))
    }
}

/// The input of a custom policy for reconnects.
public struct PrimusRetryContext: Hashable, Sendable {
    /// The number of attempts since the loss.
    public var retryCount: Int
    /// The time since the loss.
    public var elapsed: Duration
    /// Why the connection was lost, or why the last attempt failed.
    public var reason: PrimusError

    /// Creates a context, for a test of a policy.
    public init(retryCount: Int, elapsed: Duration, reason: PrimusError) {
        (self.retryCount, self.elapsed, self.reason) = (retryCount, elapsed, reason)
    }
}

/// The events after which a client reconnects.
public struct PrimusStrategies: OptionSet, Hashable, Sendable, CustomStringConvertible {
    /// The bits of the strategies.
    public let rawValue: UInt8

    /// Creates a set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A connection was lost without the intention of the server.
    public static let disconnect = PrimusStrategies(rawValue: 1 << 0)
    /// The network has changed or is back. The client then connects immediately, or checks its connection. Without ``disconnect``, it is closed after
    /// a loss until then.
    public static let online = PrimusStrategies(rawValue: 1 << 1)
    /// The first attempt to connect failed, for any reason but a refusal with the status 401 or 403.
    public static let timeout = PrimusStrategies(rawValue: 1 << 2)
    /// All of them.
    public static let all: PrimusStrategies = [.disconnect, .online, .timeout]

    /// The names, as the client for JavaScript has them.
    public var description: String {
        [(Self.disconnect, "disconnect"), (.online, "online"), (.timeout, "timeout")].filter { self.contains($0.0) }.map(\.1)
            .joined(separator: ", ")
    }
}

/// The treatment of messages that are written while there is no connection, or while the server reads too slowly.
///
/// While a session moves from polling to a WebSocket, messages wait as well. The limit doesn't count the first ones, as many as the connection
/// would have taken without pausing.
public enum PrimusQueuePolicy: Hashable, Sendable {
    /// Keeps up to this number of messages, and refuses further ones with ``PrimusError/Code/queueFull``.
    case refuse(Int)
    /// Keeps up to this number of messages, and drops the oldest one for another, as the client for JavaScript does.
    case dropOldest(Int)
    /// Keeps up to this number of messages, and drops further ones.
    case dropNewest(Int)

    /// Keeps up to 1,024 messages, and refuses further ones.
    public static let standard = PrimusQueuePolicy.refuse(1024)

    /// The maximum number of messages.
    public var limit: Int {
        switch self {
        case .refuse(let limit), .dropOldest(let limit), .dropNewest(let limit): limit
        }
    }
}

/// The treatment of a message if there is no connection.
public enum PrimusWriteMode: Hashable, Sendable {
    /// It waits in the queue.
    case queue
    /// It fails with ``PrimusError/Code/notOpen``.
    case failIfNotOpen
}

/// The size of a buffer at which the client stops reading until the application has caught up.
public struct PrimusBufferLimit: Hashable, Sendable {
    /// The maximum number of messages.
    public var count: Int
    /// The maximum size of the messages in bytes. A single one may be larger.
    public var bytes: Int

    /// Creates a limit.
    public init(count: Int = 1024, bytes: Int = 1 << 20) {
        self.count = count
        self.bytes = bytes
    }
}

public import Foundation
import PrimusClient
import RealtimeSystem

/// An event after which a client reconnects.
#if canImport(ObjectiveC)
@objc
#endif
public enum PrimusReconnectionStrategy: Int, Sendable, CaseIterable {
    /// No event.
    #if canImport(ObjectiveC)
    @objc(kPrimusReconnectionStrategyUnknown)
    #endif
    case unknown = 0
    /// The first attempt to connect failed.
    #if canImport(ObjectiveC)
    @objc(kPrimusReconnectionStrategyTimeout)
    #endif
    case timeout = 1
    /// The connection was lost.
    #if canImport(ObjectiveC)
    @objc(kPrimusReconnectionStrategyDisconnect)
    #endif
    case disconnect = 2
    /// The network is back.
    #if canImport(ObjectiveC)
    @objc(kPrimusReconnectionStrategyOnline)
    #endif
    case online = 3

    var strategies: PrimusStrategies {
        switch self {
        case .unknown: []
        case .timeout: .timeout
        case .disconnect: .disconnect
        case .online: .online
        }
    }
}

/// How a client reconnects, and the argument of the events about it.
///
/// ```swift
/// options.reconnect.retries = 3
/// ```
/// All times are in seconds. A change applies from the next attempt on, also if the options belong to a client that is connected. Values
/// that are out of range are replaced by the nearest one that isn't.
///
/// `@unchecked Sendable`: all state is protected by a lock.
#if canImport(ObjectiveC)
@objcMembers
#endif
public final class PrimusReconnectOptions: NSObject, NSCopying, @unchecked Sendable {
    struct Values: Sendable {
        var maxDelay = Double(Int.max)
        var minDelay = 0.5
        var retries = 10
        var factor = 2.0
        var timeout = -1.0
        var authorization = false
        var strategies: [PrimusReconnectionStrategy] = [.online, .disconnect, .timeout]
        var attempt = 1
        var isBackingOff = false
        var scheduled = 0.0
        var duration = 0.0
    }

    private let values: Lock<Values>
    let changes = PrimusChanges()

    /// Creates the default settings.
    public override init() { self.values = Lock(Values()) }

    init(_ values: Values) { self.values = Lock(values) }

    var current: Values { self.values.withLock { $0 } }

    private func change(_ change: (inout Values) -> Void) {
        self.values.withLock { change(&$0) }
        self.changes.notify()
    }

    /// The maximum delay before an attempt. By default, it isn't limited.
    public var maxDelay: TimeInterval {
        get { self.current.maxDelay }
        set { self.change { $0.maxDelay = newValue } }
    }

    /// The minimum delay before an attempt. The default is 0.5.
    public var minDelay: TimeInterval {
        get { self.current.minDelay }
        set { self.change { $0.minDelay = newValue } }
    }

    /// The maximum number of attempts after a loss. The default is 10.
    public var retries: Int {
        get { self.current.retries }
        set { self.change { $0.retries = newValue } }
    }

    /// By how much the delays grow from one attempt to the next. The default is 2.
    public var factor: Double {
        get { self.current.factor }
        set { self.change { $0.factor = newValue } }
    }

    /// In settings, the time limit of an attempt; the default is -1, which stands for 30 seconds. In the argument of an event, the delay
    /// before the attempt, as in Primus-Objc.
    public var timeout: TimeInterval {
        get { self.current.timeout }
        set { self.change { $0.timeout = newValue } }
    }

    /// Whether the server authorizes clients. Setting it to `true` adds the strategy ``PrimusReconnectionStrategy/timeout``, as in
    /// Primus-Objc. In any case, a refusal with the status 401 or 403 is final.
    public var authorization: Bool {
        get { self.current.authorization }
        set {
            self.change {
                $0.authorization = newValue
                if newValue, !$0.strategies.contains(.timeout) { $0.strategies.append(.timeout) }
            }
        }
    }

    /// The events after which the client reconnects, unless ``PrimusConnectOptions/strategy`` has others. The default is all of them.
    /// Without any, it doesn't reconnect.
    public var strategies: [PrimusReconnectionStrategy] {
        get { self.current.strategies }
        set { self.change { $0.strategies = newValue } }
    }

    /// In the argument of an event, the number of the attempt, from 1.
    public var attempt: Int { self.current.attempt }
    /// In the argument of an event, whether the attempt is still to come.
    public var backoff: Bool { self.current.isBackingOff }
    /// In the argument of an event, the delay before the attempt.
    public var scheduled: TimeInterval { self.current.scheduled }
    /// In the argument of an event, the time since the loss.
    public var duration: TimeInterval { self.current.duration }

    /// The settings and, in the argument of an event, the attempt, its delay, and the time since the loss.
    public override var description: String {
        let values = self.current
        let fields = [
            "attempt: \(values.attempt)", "backoff: \(values.isBackingOff)", "scheduled: \(values.scheduled)",
            "duration: \(values.duration)",
            "retries: \(values.retries)", "minDelay: \(values.minDelay)", "maxDelay: \(values.maxDelay)", "factor: \(values.factor)",
            "timeout: \(values.timeout)", "strategies: \(values.strategies)",
        ]
        return "PrimusReconnectOptions(\(fields.joined(separator: ", ")))"
    }

    /// Returns independent settings with the same values.
    public func copy(with zone: NSZone? = nil) -> Any { PrimusReconnectOptions(self.current) }

    /// The argument of an event.
    func describing(_ retry: PrimusRetry, isScheduled: Bool) -> PrimusReconnectOptions {
        var values = self.current
        (values.attempt, values.isBackingOff) = (retry.attempt, isScheduled)
        (values.scheduled, values.duration) = (retry.delay / .seconds(1), retry.elapsed / .seconds(1))
        values.timeout = values.scheduled
        return PrimusReconnectOptions(values)
    }
}

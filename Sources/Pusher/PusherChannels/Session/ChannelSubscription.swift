import PusherWire
import RealtimeCore

/// The subscription of one channel, with its filter.
///
/// A filter that changes while the channel is subscribed replaces the subscription: the server sends the events of the earlier filter until
/// it confirms the new one. The filter itself goes through these states:
///
/// ```
///   settled ──changed before the confirmation of another one──▶ outdated ──confirmed──▶ replacing ──confirmed──▶ settled
///      └────────────────── changed while the channel is subscribed ──────────────────────▲
/// ```
/// A subscription that ends or fails, in any state, is settled: the next one has the current filter.
struct ChannelSubscription: Sendable {
    private struct Filter: Sendable {
        enum State: Hashable, Sendable {
            /// The server has the filter, or receives it with the next subscription.
            case settled
            /// The subscription that awaits its confirmation has another filter.
            case outdated
            /// The server has a subscription with another filter. The new one can be outdated.
            case replacing(isOutdated: Bool)
        }

        /// `nil` after the filter was removed.
        var current: PusherFilter?
        var state = State.settled

        var isOutdated: Bool { self.state == .outdated || self.state == .replacing(isOutdated: true) }
        var isReplacing: Bool { if case .replacing = self.state { true } else { false } }
    }

    /// The result of a confirmation.
    enum Confirmation: Hashable, Sendable {
        /// The channel is subscribed.
        ///
        /// - Parameter replaced: Whether another filter has replaced an earlier one, so that no event is missing.
        case subscribed(replaced: Bool)
        /// The filter has changed since the subscription was sent. Call ``replace()``.
        case outdated(replaced: Bool)
        /// The channel was subscribed already.
        case repeated
        /// No subscription was sent.
        case unexpected
    }

    /// The effects of an end on the server and on other parts of the session.
    struct End: Hashable, Sendable {
        /// The authorization that is no longer needed.
        var cancelled: WorkID?
        /// Whether the server sent the events of the channel until now.
        var wasReceiving: Bool
        /// Whether to tell the server, which otherwise keeps the subscription.
        var needsUnsubscribe: Bool
    }

    private var machine = PusherChannelStateMachine()
    /// Set if the channel has or had a filter.
    @Boxed private var boxedFilter: Filter?

    var state: PusherChannelStateMachine.State { self.machine.state }
    var publicState: PusherSubscriptionState { self.machine.publicState }
    var canBegin: Bool { self.machine.canBegin }
    var isKnownToServer: Bool { self.machine.isKnownToServer }
    var filter: PusherFilter? { self.boxedFilter?.current }

    /// Whether the server sends the events of the channel: it is subscribed, or the server hasn't confirmed another filter yet.
    var isReceiving: Bool { self.machine.state == .subscribed || self.isReplacing }
    private var isReplacing: Bool { self.boxedFilter?.isReplacing == true }

    /// Sets another filter.
    ///
    /// - Returns: Whether to call ``replace()``, because the server has the earlier one.
    mutating func change(to filter: PusherFilter?) -> Bool {
        guard self.filter != filter else { return false }
        var changed = self.boxedFilter ?? Filter()
        changed.current = filter
        if self.machine.state == .subscribing { changed.state = changed.isReplacing ? .replacing(isOutdated: true) : .outdated }
        self.boxedFilter = changed
        return self.machine.state == .subscribed
    }

    /// Begins again, so that the server receives another filter.
    ///
    /// - Returns: Whether the state has changed.
    mutating func replace() -> Bool {
        guard self.machine.replace() else { return false }
        self.boxedFilter?.state = .replacing(isOutdated: false)
        return true
    }

    mutating func begin(authorizing work: WorkID?) -> PusherChannelStateMachine.BeginAction { self.machine.begin(authorizing: work) }

    /// - Returns: Whether to send the subscription: `false` if the authorization is not the current one.
    mutating func authorized(_ work: WorkID) -> Bool { self.machine.authorized(work) }

    mutating func confirmed() -> Confirmation {
        guard self.machine.succeeded() else { return self.machine.state == .subscribed ? .repeated : .unexpected }
        let filter = self.boxedFilter
        self.boxedFilter?.state = .settled
        let replaced = filter?.isReplacing == true
        return filter?.isOutdated == true ? .outdated(replaced: replaced) : .subscribed(replaced: replaced)
    }

    /// - Parameter isPresumed: Whether the error names no channel, so that the server may still confirm the subscription.
    /// - Returns: The effects, or `nil` if the subscription hadn't begun.
    mutating func failed(_ error: PusherError, isPresumed: Bool = false) -> End? {
        let (wasReceiving, wasReplacing) = (self.isReceiving, self.isReplacing)
        var cancelled: WorkID?
        // One that replaces another is withdrawn, so that no confirmation counts.
        switch self.machine.failed(error, isPresumed: isPresumed && !wasReplacing) {
        case .none: return nil
        case .publish: break
        case .publishAndCancel(let work): cancelled = work
        }
        self.boxedFilter?.state = .settled
        return End(cancelled: cancelled, wasReceiving: wasReceiving, needsUnsubscribe: wasReplacing)
    }

    mutating func connectionLost() -> End {
        let wasReceiving = self.isReceiving
        var cancelled: WorkID?
        if case .cancel(let work) = self.machine.connectionLost() { cancelled = work }
        self.boxedFilter?.state = .settled
        return End(cancelled: cancelled, wasReceiving: wasReceiving, needsUnsubscribe: false)
    }

    /// Returns how to unsubscribe. The subscription is discarded afterwards.
    ///
    /// - Parameter isSent: Whether the server has received the subscription, and not rejected it.
    func unsubscribe(isSent: Bool = true) -> End {
        let action = self.machine.unsubscribe()
        var cancelled: WorkID?
        if case .cancel(let work) = action { cancelled = work }
        return End(cancelled: cancelled, wasReceiving: self.isReceiving, needsUnsubscribe: (action == .send && isSent) || self.isReplacing)
    }

    /// Whether a subscription that times out must be withdrawn, because a late confirmation would leave the client subscribed on the server
    /// only. ``failed(_:)`` tells it for one that replaces another.
    var awaitsFirstConfirmation: Bool { self.machine.state == .subscribing && !self.isReplacing }
}

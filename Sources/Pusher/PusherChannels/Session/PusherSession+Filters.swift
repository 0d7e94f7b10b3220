import PusherWire
import RealtimeCore

/// The filter of a channel, and what the server knows of it.
///
/// ```
///   settled ──changed before the confirmation of another one──▶ outdated ──confirmed──▶ replacing ──confirmed──▶ settled
///      └────────────────── changed while the channel is subscribed ──────────────────────▲
/// ```
/// A subscription that ends or fails, in any state, is settled: the next one has the current filter.
struct ChannelFilter: Sendable {
    enum State: Hashable, Sendable {
        /// The server has the filter, or receives it with the next subscription.
        case settled
        /// The subscription that awaits its confirmation has another filter.
        case outdated
        /// The server has a subscription with another filter, whose events arrive until it confirms the new one. The new one can be outdated.
        case replacing(isOutdated: Bool)
    }

    /// `nil` after the filter was removed.
    var filter: PusherFilter?
    var state = State.settled

    var isOutdated: Bool { self.state == .outdated || self.state == .replacing(isOutdated: true) }

    var isReplacing: Bool { if case .replacing = self.state { true } else { false } }

    /// Sets another filter.
    ///
    /// - Parameter isSent: Whether a subscription with the current one awaits its confirmation.
    mutating func change(to filter: PusherFilter?, isSent: Bool) {
        self.filter = filter
        guard isSent else { return }
        self.state = self.isReplacing ? .replacing(isOutdated: true) : .outdated
    }
}

/// Subscriptions with filters.
extension PusherSession {
    /// Subscribes to a channel with a filter, or changes the filter of a channel.
    mutating func subscribe(
        _ name: String, filter: PusherFilter?, now: Instant, _ effects: inout Effects<Self>
    ) -> ChannelID {
        let id = self.channels.id(named: name) ?? self.addChannel(name)
        if let record = self.channels[id], record.filter?.filter != filter {
            var changed = record.filter ?? ChannelFilter()
            changed.change(to: filter, isSent: record.machine.state == .subscribing)
            self.channels[id]?.filter = changed
            if record.machine.state == .subscribed { self.replaceSubscription(id, since: .subscribed, now: now, &effects) }
        }
        return self.subscribe(name, now: now, &effects)
    }

    /// Subscribes again to a channel whose filter has changed. The server replaces the filter when it confirms the subscription, so that no
    /// event is missing in between.
    ///
    /// - Parameter before: The state of the subscription that was published last.
    mutating func replaceSubscription(
        _ id: ChannelID, since before: PusherSubscriptionState, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.channels[id]?.machine.replace() == true else { return }
        self.channels[id]?.filter?.state = .replacing(isOutdated: false)
        // The events of the earlier subscription aren't a reason to report a gap.
        self.channels[id]?.receivesUnconfirmed = true
        self.cachedRoute = nil
        self.cancelReload(id, &effects)
        self.publishState(id, since: before, &effects)
        self.beginSubscription(id, now: now, &effects)
        self.sendBatches(&effects)
    }

    /// The error of a channel with a filter on a connection without them.
    func filtersNotAllowed(_ channel: String) -> PusherError {
        let message =
            "\(channel) has a filter, which the server of this connection would ignore: set allowsFilters of the configuration, and reconnect."
        return PusherError(.filterNotAllowed, message, channel: channel)
    }
}

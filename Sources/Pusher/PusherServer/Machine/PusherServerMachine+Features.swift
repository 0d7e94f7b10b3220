import RealtimeSystem
import PusherWire
import RealtimeCore

/// Cache channels, subscription counts, and connections that have to be authorized.
extension PusherServerMachine {
    /// A timer of the server, apart from the timers of heartbeats and hooks.
    enum Timer: Hashable, Sendable {
        /// A connection is closed, because it hasn't been authorized.
        case authorization(ConnectionID)
        /// The cached event of a channel may have expired.
        case cachedEvent(ByteString)
        /// The subscribers of a large channel are notified of their count.
        case subscriptionCount(ByteString)
        /// The events that are kept of a channel may have expired.
        case history(ByteString)
    }

    mutating func timerFired(_ timer: Timer, now: Instant, _ effects: inout Effects<Self>) {
        switch timer {
        case .authorization(let id):
            let message = "The connection was not authorized in time: sign in, or subscribe to a private or presence channel"
            self.close(id, PusherCloseCode.unauthorized, message, &effects)
            self.deliver(.error(socketID: self.connections[id]?.socketID, code: 4009, message: message), &effects)
        case .cachedEvent(let name):
            guard let expiration = self.cachedEvents[name]?.expiration else { return }
            // A newer event moved the expiration without setting the timer.
            if expiration > now { self.timers.set(timer, expiration) } else { self.cachedEvents[name] = nil }
        case .history(let name): self.historyExpired(name, now: now)
        case .subscriptionCount(let name): self.sendSubscriptionCount(name, now: now, &effects)
        }
    }

    // MARK: Cache channels

    /// The last event that the server published on a cache channel.
    struct CachedEvent: Sendable {
        var data: String
        var message: TransportMessage
        var expiration: Instant
    }

    mutating func cache(
        _ message: TransportMessage, data: String, on name: ByteString, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.cachedEvents[name] != nil || self.cachedEvents.count < self.app.cachedEventLimit else {
            return effects.log(.info, "An event exceeded the limit of \(self.app.cachedEventLimit) channels with a cached event.")
        }
        let expiration = now.advanced(by: max(.milliseconds(1), self.app.cachedEventLifetime))
        if self.cachedEvents.updateValue(CachedEvent(data: data, message: message, expiration: expiration), forKey: name) == nil {
            self.timers.set(.cachedEvent(name), expiration)
        }
    }

    /// Sends the cached event of a channel to a new subscriber, or that there is none.
    func sendCachedEvent(_ name: ByteString, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.profile.cachesEvents, ChannelName.kind(of: name.string).isCache else { return }
        if let event = self.cachedEvents[name], event.expiration > now {
            self.send(event.message, to: id, &effects)
        } else {
            self.send(PusherFrames.cacheMiss(name.string, as: self.profile.cacheMissData), to: id, &effects)
            self.deliver(.cacheMiss(socketID: self.connections[id]?.socketID ?? "", channel: name.string), &effects)
        }
    }

    // MARK: Subscription counts

    /// Up to this number of subscribers, each change of the number is sent.
    private static let largeChannel = 100
    /// The shortest time between two counts of a larger channel.
    private static let countInterval = Duration.seconds(5)

    /// Notifies the subscribers of a channel that their number has changed, or sets a timer for it.
    mutating func subscriptionCountChanged(_ name: ByteString, now: Instant, _ effects: inout Effects<Self>) {
        guard self.app.sendsSubscriptionCounts, !ChannelName.kind(of: name.string).isPresence,
            UserID.user(ofChannel: name.string) == nil
        else { return }
        guard let channel = self.channels[name] else { return self.timers.remove(.subscriptionCount(name)) }
        if channel.subscribers.count > Self.largeChannel, let next = channel.countSent?.advanced(by: Self.countInterval), next > now {
            if !self.timers.contains(.subscriptionCount(name)) { self.timers.set(.subscriptionCount(name), next) }
        } else {
            self.timers.remove(.subscriptionCount(name))
            self.sendSubscriptionCount(name, now: now, &effects)
        }
    }

    private mutating func sendSubscriptionCount(_ name: ByteString, now: Instant, _ effects: inout Effects<Self>) {
        guard let subscribers = self.channels[name]?.subscribers else { return }
        self.channels[name]!.countSent = now
        let message = PusherFrames.subscriptionCount(name.string, subscribers.count)
        for subscriber in subscribers { self.send(message, to: subscriber, &effects) }
        self.deliver(.subscriptionCount(channel: name.string, count: subscribers.count), &effects)
    }

    // MARK: Authorization of connections

    /// Starts the time within which a new connection must be authorized, if the app limits it.
    mutating func awaitAuthorization(of id: ConnectionID, now: Instant) {
        guard let limit = self.app.authorizationTimeout else { return }
        self.timers.set(.authorization(id), now.advanced(by: max(.milliseconds(1), limit)))
    }

    /// A connection is authorized, or has ended.
    mutating func endAuthorizationTimeout(of id: ConnectionID) {
        if self.app.authorizationTimeout != nil { self.timers.remove(.authorization(id)) }
    }
}

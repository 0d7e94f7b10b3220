import PusherWire
import RealtimeCore
import RealtimeSystem

/// The events that the client sends to other subscribers: those that wait for a subscription or for the limit, and the channel that an error
/// without a channel is about.
struct ClientEvents: Sendable {
    private var limiter = ClientEventLimiter()
    /// The events that wait for the subscription of their channel.
    private var queued = ChannelMap<[TransportMessage]>()
    /// The last rejection that was reported, for a while.
    @Boxed private var rejection: Rejection?
    /// The channel that sent events on the current connection: `none` before the first, and `several` if it wasn't only one.
    private(set) var sender = ChannelID.none

    private struct Rejection: Sendable {
        /// The period within which equal rejections are reported together.
        static let period: Int64 = 1_000_000_000

        var reason: String
        var channel: String?
        var serverCode: Int?
        /// The number of equal ones that weren't reported.
        var count = 0
        var until: Instant

        var summary: PusherError? {
            guard self.count > 0 else { return nil }
            let subject = self.count == 1 ? "another client event" : "\(self.count) more client events"
            let message = "The server rejected \(subject)\(self.channel.map { " on \($0)" } ?? ""): \(self.reason)"
            return PusherError(.clientEventRejected, message, channel: self.channel, serverCode: self.serverCode)
        }
    }

    /// When the next event may be sent that waits for the limit, or when rejections are to be reported.
    var nextDeadline: Instant? { .earliest(self.limiter.nextDeadline, self.rejection?.until) }

    /// Whether the client sent an event on the current connection.
    var wereSent: Bool { self.sender != .none }

    /// Records that a channel sends an event. It is part of the fast path, so that it only compares in most cases.
    @inline(__always)
    mutating func sent(from id: ChannelID) {
        if self.sender != id { self.sender = self.sender == .none ? id : .several }
    }

    /// Lets an event wait for the subscription of its channel.
    ///
    /// - Parameter limit: The maximum number of events that wait.
    /// - Throws: An error if too many wait already.
    mutating func enqueue(_ message: TransportMessage, on id: ChannelID, _ name: String, limit: Int) throws(PusherError) {
        let count = self.queued[id]?.count ?? 0
        guard count < limit else {
            let hint = "Await subscribed(), or increase `PusherConfiguration.clientEventQueueLimit`."
            throw PusherError(
                .queueFull, "\(count) client events are already waiting for the subscription to \(name). \(hint)", channel: name)
        }
        self.queued[id, default: []].append(message)
    }

    /// Counts an event, or lets it wait for the limit.
    ///
    /// - Returns: Whether to send the event now.
    /// - Throws: An error if the event exceeds the limit and may not wait, or too many wait already.
    mutating func admit(
        _ message: TransportMessage, on id: ChannelID, _ name: String, _ limit: PusherClientEventLimit, queueLimit: Int, now: Instant
    ) throws(PusherError) -> Bool {
        if self.limiter.admit(limit: limit.perSecond, now: now) {
            self.sent(from: id)
            return true
        }
        switch limit.excess {
        case .fail:
            let message = "More than \(limit.perSecond) client events in a second: the event on \(name) was not sent. Send fewer events."
            throw PusherError(.rateLimited, message, channel: name)
        case .wait:
            let count = self.limiter.waiting.count
            guard count < queueLimit else {
                let reason = "\(count) client events are already waiting, because of the limit of \(limit.perSecond) in a second."
                let hint = "Send fewer events, or increase `PusherConfiguration.clientEventQueueLimit`."
                throw PusherError(.queueFull, "\(reason) \(hint)", channel: name)
            }
            self.limiter.enqueue(message, on: id)
            return false
        }
    }

    /// Removes the events that waited for the subscription of a channel. Those that exceed the limit wait, also if later calls throw: these
    /// events were accepted.
    ///
    /// - Returns: The events to send now.
    mutating func subscribed(_ id: ChannelID, _ limit: PusherClientEventLimit?, now: Instant) -> [TransportMessage] {
        var admitted: [TransportMessage] = []
        for message in self.queued[id].take() ?? [] {
            if let limit, !self.limiter.admit(limit: limit.perSecond, now: now) {
                self.limiter.enqueue(message, on: id)
            } else {
                self.sent(from: id)
                admitted.append(message)
            }
        }
        return admitted
    }

    /// Removes the events that waited for the limit, as far as it allows it now.
    ///
    /// - Returns: The events to send now.
    mutating func takeDue(_ limit: PusherClientEventLimit?, now: Instant) -> [TransportMessage] {
        guard let limit, let deadline = self.limiter.nextDeadline, deadline <= now else { return [] }
        let due = self.limiter.takeDue(limit: limit.perSecond, now: now)
        for event in due { self.sent(from: event.channel) }
        return due.map(\.message)
    }

    /// The connection has ended. The events that waited for the limit wait for the next subscription of their channels instead.
    mutating func ended() {
        self.sender = .none
        for event in self.limiter.reset() { self.queued[event.channel, default: []].append(event.message) }
    }

    /// Drops the events of a channel that was removed, or whose subscription failed.
    mutating func drop(_ id: ChannelID) {
        self.queued[id] = nil
        self.limiter.remove(id)
    }

    /// Removes all events that wait.
    ///
    /// - Returns: Their number.
    mutating func dropAll() -> Int {
        let count = self.queued.values.reduce(self.limiter.reset().count) { $0 + $1.count }
        self.queued = ChannelMap()
        return count
    }

    // MARK: Rejections

    /// The server has rejected an event. Equal rejections that follow within a second are reported together, with their number.
    ///
    /// - Parameters:
    ///   - channel: The channel that the server named, or the only one that sent events on this connection.
    ///   - limit: The limit to which the client keeps.
    /// - Returns: The errors to report now.
    mutating func rejected(_ server: ServerError, channel: String?, _ limit: PusherClientEventLimit?, now: Instant) -> [PusherError] {
        if let last = self.rejection, last.until > now, last.reason == server.message, last.channel == channel {
            self.rejection?.count += 1
            return []
        }
        let summary = self.takeRejections()
        self.rejection = Rejection(
            reason: server.message, channel: channel, serverCode: server.code, until: now + Rejection.period)
        let place = channel.map { " on \($0)" } ?? ""
        var message = "The server rejected a client event\(place): \(server.message)"
        if server.text.lowercased().containsText("rate limit") {
            let advice =
                limit.map { "Set a `PusherConfiguration.clientEventLimit` of less than \($0.perSecond) in a second." }
                ?? "Set `PusherConfiguration.clientEventLimit`, so that events wait instead."
            message = "\(Excerpt.sentence(message)) \(advice)"
        }
        return [summary, PusherError(.clientEventRejected, message, channel: channel, serverCode: server.code)].compactMap(\.self)
    }

    /// Returns the error about the rejections that weren't reported, if it is due. Those that follow have a period of their own.
    mutating func takeDueRejections(now: Instant) -> PusherError? {
        guard var last = self.rejection, last.until <= now else { return nil }
        guard let summary = self.takeRejections() else { return nil }
        (last.count, last.until) = (0, now + Rejection.period)
        self.rejection = last
        return summary
    }

    /// Returns the error about the rejections that weren't reported, and forgets them.
    mutating func takeRejections() -> PusherError? { self.rejection.take()?.summary }
}

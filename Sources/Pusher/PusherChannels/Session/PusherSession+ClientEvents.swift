import PusherWire
import RealtimeCore

/// The events that the client sends to other subscribers.
extension PusherSession {
    /// Returns the message to send, or queues it until the channel is subscribed. It doesn't apply the limit of the configuration: this is
    /// the fast path of clients without one.
    ///
    /// - Parameter id: The ID that the caller's handle has, which may be outdated.
    mutating func trigger(
        _ message: WebSocketMessage, channel name: String, id: ChannelID
    ) throws(PusherError) -> (ConnectionID, WebSocketMessage)? {
        guard let id = self.channels.id(id, named: name), let state = self.channels.state(of: id) else { throw .notSubscribed(name) }
        switch state {
        case .subscribed:
            guard let connection = self.connection.connected else { return nil }
            self.recordSender(id)
            return (connection, message)
        case .failed(let error): throw error
        case .waiting, .authorizing, .subscribing:
            let count = self.channels[id]?.queuedMessages.count ?? 0
            guard count < self.configuration.clientEventQueueLimit else {
                let hint = "Await subscribed(), or increase clientEventQueueLimit."
                throw PusherError(
                    .queueFull, "\(count) client events are already waiting for the subscription to \(name). \(hint)", channel: name)
            }
            self.channels[id]?.queuedMessages.append(message)
            return nil
        }
    }

    /// Sends an event, or queues it until the channel is subscribed and the limit of the configuration allows it.
    ///
    /// - Parameter id: The ID that the caller's handle has, which may be outdated.
    mutating func trigger(
        _ message: WebSocketMessage, channel name: String, id: ChannelID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherError) {
        guard let limit = self.configuration.clientEventLimit, let id = self.channels.id(id, named: name),
            self.channels.state(of: id) == .subscribed
        else {
            if let (id, message) = try self.trigger(message, channel: name, id: id) { self.send(message, on: id, &effects) }
            return
        }
        self.sendWaitingClientEvents(now: now, &effects)
        guard let connection = self.connection.connected else { return }
        if self.clientEvents.admit(limit: limit.perSecond, now: now) {
            return self.send(message, from: id, on: connection, &effects)
        }
        switch limit.excess {
        case .fail:
            let message = "More than \(limit.perSecond) client events in a second: the event on \(name) was not sent. Send fewer events."
            throw PusherError(.rateLimited, message, channel: name)
        case .wait:
            let count = self.clientEvents.waiting.count
            guard count < self.configuration.clientEventQueueLimit else {
                let reason = "\(count) client events are already waiting, because of the limit of \(limit.perSecond) in a second."
                throw PusherError(
                    .queueFull, "\(reason) Send fewer events, or increase clientEventQueueLimit.", channel: name)
            }
            self.clientEvents.enqueue(message, on: id)
        }
    }

    /// Sends the events that waited for the subscription of a channel. Those that exceed the limit wait, also if later calls throw: these
    /// events were accepted.
    mutating func sendQueuedMessages(
        _ messages: [WebSocketMessage], from id: ChannelID, on connection: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let limit = self.configuration.clientEventLimit
        for message in messages {
            if let limit, !self.clientEvents.admit(limit: limit.perSecond, now: now) {
                self.clientEvents.enqueue(message, on: id)
            } else {
                self.send(message, from: id, on: connection, &effects)
            }
        }
    }

    /// Sends the events that waited for the limit, as far as it allows it now.
    mutating func sendWaitingClientEvents(now: Instant, _ effects: inout Effects<Self>) {
        guard let deadline = self.clientEvents.nextDeadline, deadline <= now, let limit = self.configuration.clientEventLimit,
            let connection = self.connection.connected
        else { return }
        for event in self.clientEvents.takeDue(limit: limit.perSecond, now: now) {
            self.send(event.message, from: event.channel, on: connection, &effects)
        }
    }

    /// Lets the events that waited for the limit wait for the next subscription of their channels instead.
    mutating func clientEventsLost() {
        self.clientEventSender = .none
        for event in self.clientEvents.reset() { self.channels[event.channel]?.queuedMessages.append(event.message) }
    }

    /// Drops the events of a channel whose subscription failed.
    mutating func dropClientEvents(_ id: ChannelID) {
        self.channels[id]?.queuedMessages = []
        self.clientEvents.remove(id)
    }

    private mutating func send(
        _ message: WebSocketMessage, from id: ChannelID, on connection: ConnectionID, _ effects: inout Effects<Self>
    ) {
        self.recordSender(id)
        self.send(message, on: connection, &effects)
    }

    /// Records that a channel sent a client event. It is part of the fast path, so that it only compares in most cases.
    @inline(__always)
    private mutating func recordSender(_ id: ChannelID) {
        if self.clientEventSender != id { self.clientEventSender = self.clientEventSender == .none ? id : .several }
    }

    /// Returns the error for an event that the server rejected.
    ///
    /// - Parameter channel: The channel that the server named. If it named none, it is the only one that sent events on this connection.
    func clientEventRejected(_ server: ServerError, channel: String?) -> PusherError {
        let channel = channel ?? self.channels[self.clientEventSender]?.name
        let place = channel.map { " on \($0)" } ?? ""
        return PusherError(
            .clientEventRejected, "The server rejected a client event\(place): \(server.message)", channel: channel,
            serverCode: server.code)
    }
}

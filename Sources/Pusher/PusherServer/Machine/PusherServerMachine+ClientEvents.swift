import RealtimeCoding
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Events that clients send to each other.
extension PusherServerMachine {
    struct ClientEvent: Sendable {
        var attempt: PusherClientEventAttempt
        /// The data as JSON, if the app's profile forwards JSON and the event has data.
        var json: [UInt8]?
    }

    mutating func clientEvent(
        _ id: ConnectionID, _ event: String, _ frame: PusherFrame, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.app.allowsClientEvents else {
            return self.rejectClientEvent(id, nil, nil, "The app does not have client messaging enabled.", &effects)
        }
        let nameLimit = self.app.channelNameLimit
        // An escape sequence is up to six times as long as the byte that it represents. Checking that first avoids decoding long texts. The
        // length is divided, because the product of a limit such as `Int.max` would overflow.
        let isNameLong = frame.channel.length / 6 > nameLimit
        let name = isNameLong ? nil : frame.channelName
        func reject(_ message: String) { self.rejectClientEvent(id, name, nil, message, &effects) }
        guard !isNameLong, name?.utf8.count ?? 0 <= nameLimit else {
            self.logLimit("\(nameLimit) bytes of a channel's name", id, &effects)
            return reject("The channel name is too long; use at most \(nameLimit) characters.")
        }
        guard let name else { return reject("Client events require a channel") }
        guard ChannelName.kind(of: name).allowsClientEvents else {
            return reject("Client events are supported on private and presence channels only")
        }
        guard self.isSubscribed(id, to: ByteString(name)) else { return reject("The connection is not subscribed to \(name)") }
        if let message = EventName.validationError(event, limit: self.app.eventNameLimit) {
            self.logLimit("\(self.app.eventNameLimit) bytes of an event's name", id, &effects)
            return reject(message)
        }
        let dataLimit = self.app.eventDataLimit
        guard frame.data.length / 6 <= dataLimit, frame.dataBytes.count <= dataLimit else {
            self.logLimit("\(dataLimit) bytes of a client event's data", id, &effects)
            return reject("The data of a client event must not exceed \(dataLimit) bytes")
        }
        let data = frame.dataText
        if self.profile.requiresStructuredClientEvents, data != nil, !self.isStructured(frame) {
            return self.rejectClientEvent(id, name, 4200, "Invalid message format: the data must be an object or an array", &effects)
        }
        let rateLimit = self.app.clientEventsPerSecond
        guard self.updateEstablished(id, { $0.clientEventRate.admit(limit: rateLimit, now: now) }) == true else {
            return reject("The rate limit for sending client events exceeded the quota.")
        }
        if self.hooks.clientEvents, self.isPendingLimitReached(id, &effects) {
            return reject("Too many subscriptions and client events of the connection await a decision")
        }
        guard let socketID = self.connections[id]?.socketID else { return }
        let attempt = PusherClientEventAttempt(socketID: socketID, channel: name, name: event, data: data ?? "")
        let forwardsJSON = self.profile.clientEventData == .json
        let json = forwardsJSON ? data.map { self.json($0, isString: frame.data.kind.isString) } : nil
        let clientEvent = ClientEvent(attempt: attempt, json: json)
        guard self.hooks.clientEvents else { return self.forward(clientEvent, from: id, now: now, &effects) }
        self.updateEstablished(id) { $0.pendingClientEvents.append(clientEvent) }
        self.runClientEventHook(id, now: now, &effects)
    }

    private func isStructured(_ frame: PusherFrame) -> Bool {
        guard let data = try? frame.dataValue() else { return false }
        return data.object != nil || data.array != nil
    }

    /// Returns the data of an event as JSON: as it was sent, or the JSON that a text contains if the app's profile requires some.
    private func json(_ text: String, isString: Bool) -> [UInt8] {
        guard isString, !self.profile.requiresStructuredClientEvents else { return Array(text.utf8) }
        var json = JSONWriter()
        json.value(text)
        return json.bytes
    }

    /// Runs the hook for the first pending event. One at a time, so that the events of a connection keep their order.
    private mutating func runClientEventHook(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let next = self.updateEstablished(id) { $0.clientEventHook == nil ? $0.pendingClientEvents.first : nil }
        guard let next else { return }
        let hook = self.run(.clientEvent(next.attempt), about: .clientEvent(id), now: now, &effects)
        self.updateEstablished(id) { $0.clientEventHook = hook }
    }

    mutating func decided(
        _ decision: PusherServerDecision, aboutClientEventOf id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let event = self.updateEstablished(id) { established in
            established.clientEventHook = nil
            return established.pendingClientEvents.popFirst()
        }
        guard let event else { return }
        switch decision {
        case .accept: self.forward(event, from: id, now: now, &effects)
        case .reject(let code, let message): self.rejectClientEvent(id, event.attempt.channel, code, message, &effects)
        }
        self.runClientEventHook(id, now: now, &effects)
    }

    private func rejectClientEvent(
        _ id: ConnectionID, _ channel: String?, _ code: Int?, _ message: String, _ effects: inout Effects<Self>
    ) {
        let code = code ?? Int(PusherCloseCode.clientEventRejected.rawValue)
        self.sendError(code, message, channel: channel.flatMap(self.repeatable), to: id, &effects)
    }

    private mutating func forward(_ clientEvent: ClientEvent, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let event = clientEvent.attempt
        let name = ByteString(event.channel)
        let userID: String?
        switch self.connections[id]?.subscription(to: name) {
        case .subscribed, .filtered: userID = nil
        case .member(let user, _): userID = user.id
        // The connection unsubscribed while the hook was running.
        case .awaitingHook, nil: return
        }
        let sender = self.profile.clientEventsNameSender ? userID : nil
        let hasNumericIDs = self.profile.sendsNumericUserIDs
        let message =
            switch self.profile.clientEventData {
            case .string:
                PusherFrames.event(event.name, channel: event.channel, data: event.data, userID: sender, hasNumericIDs: hasNumericIDs)
            case .json, .omitted:
                PusherFrames.clientEvent(
                    event.name, channel: event.channel, json: clientEvent.json, userID: sender, hasNumericIDs: hasNumericIDs)
            }
        // Like sockudo, which sends a client event to its sender as well with version 2.
        let excluded = self.connections[id]?.isVersion2 == true ? nil : id
        self.broadcast(message, to: name, except: excluded, now: now, &effects)
        self.deliver(.clientEvent(socketID: event.socketID, channel: event.channel, name: event.name, data: event.data), &effects)
    }

    func isSubscribed(_ id: ConnectionID, to name: ByteString) -> Bool {
        switch self.connections[id]?.subscription(to: name) {
        case .subscribed, .filtered, .member: true
        case .awaitingHook, nil: false
        }
    }
}

import PrimusWire
import RealtimeCoding
package import RealtimeCore
import RealtimeSystem

/// The calls that wait for states, the consumers, and the settings.
extension PrimusSession {
    // MARK: Settings

    package mutating func use(_ options: PrimusConfiguration) {
        if options.endpoint != self.options.endpoint || options.detection != self.options.detection { self.knowledge = Knowledge() }
        self.options = options
        if let coding = Self.coding(options) { self.coding = coding }
        let isReconnect = if case .closed = self.state { false } else { self.hasConnected || self.retry != nil }
        self.connection.sharedPolicy = Self.policy(options, isReconnect: isReconnect)
    }

    /// The error of a configuration with an invalid value; `nil` if it is valid.
    var configurationError: PrimusError? {
        self.latestOptions.options.validationError.map { PrimusError(.invalidConfiguration, "Invalid configuration: \($0)") }
    }

    // MARK: Waiting for states

    /// Lets a call wait until the client is connected.
    package mutating func awaitOpen(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .open: effects.resume(waiter, .success(.opened(sparkID: self.sparkID)))
        case .closed(let error?): effects.resume(waiter, .failure(error))
        case .closed(nil), .opening, .reconnecting: self.openCallers.insert(waiter)
        }
    }

    /// Opens the client unless it is open, for a call that waits until it is ended.
    package mutating func run(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        if case .closed = self.state {
            if let error = self.configurationError {
                self.fail(error, &effects)
                return effects.resume(waiter, .failure(error))
            }
            self.open(now: now, &effects)
        }
        self.endCallers.insert(waiter)
    }

    /// Moves the client to its final state, instead of connecting.
    mutating func fail(_ error: PrimusError, _ effects: inout Effects<Self>) {
        effects.log(.error, error.message)
        self.setState(.closed(error), &effects)
        self.publish(.ended(error), &effects)
        self.trace(.error(error), &effects)
        self.trace(.end, &effects)
        self.openCallers.resumeAll(.failure(error), &effects)
    }

    /// Fails the calls that began to wait after the client was ended.
    package mutating func stopWhileStopped(_ effects: inout Effects<Self>) {
        self.openCallers.resumeAll(.failure(self.endError), &effects)
        self.transformCallers.resumeAll(.failure(self.endError), &effects)
        self.queue.failWaiting(self.endError, &effects)
    }

    /// The time of the next attempt to connect, if the client waits for it.
    package var nextAttempt: Instant? { if case .backingOff(let until) = self.connection.state { until } else { nil } }

    /// Lets a call wait for the ID of the spark, which is requested unless it is known.
    package mutating func awaitSparkID(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.connection.connected, self.drain == nil else {
            return effects.resume(waiter, .failure(self.notOpen))
        }
        if let sparkID { return effects.resume(waiter, .success(.sparkID(sparkID))) }
        self.sparkIDCallers.insert(waiter)
        guard self.sparkIDRequestedAt == nil else { return }
        self.sparkIDRequestedAt = now
        self.send(self.framed(.idRequest), on: id, now: now, &effects)
    }

    package mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.openCallers.remove(waiter)
        self.writingCallers.remove(waiter)
        self.answerCallers.remove(waiter)
        self.sparkIDCallers.remove(waiter)
        self.transformCallers.remove(waiter)
        if let position = self.queue.remove(waiter) { self.removedFromQueue(at: position) }
        self.drain?.queue.remove(waiter)
        self.plugins.end(waiter)
        // In the same step: another task that runs the client afterwards opens it again.
        if self.endCallers.remove(waiter) { self.stop(now: now, &effects) }
    }

    package mutating func overflowed(_ consumer: ConsumerID, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connection.connected else { return }
        let message =
            "The messages of the server weren't read, while a call waited for the server. Read or release each sequence of messages."
        self.close(connection, PrimusError(.bufferOverflow, message), .lost, now: now, &effects)
    }

    // MARK: Consumers

    package mutating func observeUpdates(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.updates)
    }

    package mutating func observeMessages(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.messages)
    }

    package mutating func observeUntransformed(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.untransformed)
    }

    package mutating func observeOutgoing(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.outgoing)
    }

    package mutating func observeTraces(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.traces)
    }

    package mutating func observeFrames(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.frames)
    }

    // Mutating, as calling another method of an `inout` value copies it, which costs more than reading a message.
    mutating func trace(
        _ direction: TracedFrame.Direction, _ kind: TransportMessage.Kind, _ bytes: @autoclosure () -> ArraySlice<UInt8>,
        _ effects: inout Effects<Self>
    ) {
        guard !effects.routes.isEmpty(self.frames) else { return }
        let text = self.redacted(PrimusFrameText.text(kind, bytes()), isWhole: true)
        effects.deliver(.frame(TracedFrame(direction, text)), on: self.frames)
    }

    // MARK: The events of the client for JavaScript

    mutating func trace(_ event: @autoclosure () -> PrimusTrace, _ effects: inout Effects<Self>) {
        guard !effects.routes.isEmpty(self.traces) else { return }
        self.deliverInOrder(.trace(event()), &effects)
    }

    /// Marks a place among the events.
    package mutating func mark(_ number: UInt64, _ effects: inout Effects<Self>) { self.deliverInOrder(.mark(number), &effects) }

    /// Delivers an event behind the messages that are in the incoming transforms.
    private mutating func deliverInOrder(_ event: PrimusEvent, _ effects: inout Effects<Self>) {
        guard !self.incoming.hold(event) else { return }
        effects.deliver(event, on: self.traces)
    }

    mutating func setTraceState(_ state: PrimusTrace.ReadyState, _ effects: inout Effects<Self>) {
        guard state != self.traceState else { return }
        self.traceState = state
        self.trace(.readyStateChange(state), &effects)
    }

    /// The event of another attempt, once in the attempt.
    mutating func traceReconnect(_ effects: inout Effects<Self>) {
        guard self.attempt.tracesReconnect, let retry else { return }
        self.attempt.tracesReconnect = false
        self.trace(.reconnect(retry), &effects)
    }

    /// The events at the beginning of an end, before another attempt is scheduled.
    mutating func traceBegin(of ending: Ending, isFirst: Bool, _ effects: inout Effects<Self>) {
        switch ending.kind {
        case .requested: break
        case .closedByServer: self.trace(.incomingEnd, &effects)
        case .lost:
            self.trace(.incomingEnd, &effects)
            self.setTraceState(.end, &effects)
            self.trace(.close, &effects)
        case .refused:
            self.traceReconnect(&effects)
            self.trace(.incomingError(ending.failure), &effects)
            // A refusal of the client is final, and the application learns it from this event in any attempt.
            if isFirst || ending.failure.code == .unauthorized { self.trace(.error(ending.failure), &effects) }
        case .timedOut:
            self.traceReconnect(&effects)
            if let retry {
                self.trace(.reconnectTimeout(ending.failure, retry), &effects)
            } else {
                self.trace(.timeout(ending.failure), &effects)
            }
        }
    }

    /// The events after another attempt was scheduled.
    mutating func traceEnd(of ending: Ending, _ effects: inout Effects<Self>) {
        switch ending.kind {
        case .refused:
            self.trace(.incomingEnd, &effects)
            self.setTraceState(.end, &effects)
        // The attempt is over, and its socket is closed.
        case .timedOut: self.setTraceState(.end, &effects)
        case .requested, .closedByServer, .lost: break
        }
    }

    /// The events of an end without another attempt.
    mutating func traceFinish(of ending: Ending, isFirst: Bool, wasScheduled: Bool, _ effects: inout Effects<Self>) {
        switch ending.kind {
        case .requested where wasScheduled: self.trace(.end, &effects)
        case .lost:
            self.trace(.outgoingEnd, &effects)
            self.trace(.end, &effects)
        case .refused where !isFirst, .timedOut where !isFirst:
            self.trace(.end, &effects)
            if let retry { self.trace(.reconnectFailed(ending.failure, retry), &effects) }
            if ending.kind == .refused { self.trace(.incomingEnd, &effects) }
            self.setTraceState(.end, &effects)
        case .requested, .closedByServer, .refused, .timedOut:
            self.setTraceState(.end, &effects)
            self.trace(.outgoingEnd, &effects)
            self.trace(.close, &effects)
            self.trace(.end, &effects)
        }
    }
}

/// The texts of messages in a trace.
package enum PrimusFrameText {
    package static func text(_ kind: TransportMessage.Kind, _ bytes: ArraySlice<UInt8>) -> String {
        switch kind {
        case .text: TracedFrame.excerpt(of: Self.redactSID(String(decoding: bytes, as: UTF8.self)), byteCount: bytes.count)
        case .binary: "<\(bytes.count) bytes>"
        case .ping: "<ping>"
        case .pong: "<pong>"
        }
    }

    /// Removes the IDs of sessions of SockJS from the URLs in a text. In the path, such an ID is between the number of a server and the kind of
    /// request.
    package static func redactSockJSSession(_ text: String) -> String {
        var parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        for index in parts.indices.dropFirst(2) where parts[index].hasPrefix("xhr") && parts[index - 2].utf8.count == 3 {
            parts[index - 1] = "\(Redacted.secret)"
        }
        return parts.joined(separator: "/")
    }

    /// Removes the ID of a session from its first packet of engine.io, or from a payload that begins with it. The ID gives access to the
    /// messages of a session over polling.
    package static func redactSID(_ text: String) -> String {
        // The length in a body of bytes, whose last byte isn't text.
        let packet = text.utf8.drop { $0 <= 9 || [0xEF, 0xBF, 0xBD].contains($0) }
        let start = packet.drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: ":") }
        let digits = packet[..<start.startIndex]
        // As in `0{` and, with the length of engine.io 3, `97:0{`.
        guard digits.count <= 10, digits.last == UInt8(ascii: "0"), start.first == UInt8(ascii: "{") else { return text }
        let object = start.prefix { $0 != UInt8(ascii: "}") }
        guard let json = try? JSONValue(parsing: Array(object) + [UInt8(ascii: "}")]), let sid = json["sid"]?.string, !sid.isEmpty else {
            return text
        }
        return text.replacingText("\"\(sid)\"", with: "\"\(Redacted.secret)\"")
    }
}

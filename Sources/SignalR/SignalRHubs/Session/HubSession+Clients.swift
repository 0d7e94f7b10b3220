package import RealtimeCore
import SignalRWire

/// The calls that wait for states, the consumers of messages, and the settings.
extension HubSession {
    // MARK: Settings

    package mutating func use(_ options: HubConfiguration) {
        self.options = options
        self.connection.sharedPolicy = Self.policy(options)
    }

    /// The error of a configuration with an invalid value; `nil` if it is valid.
    var configurationError: HubError? {
        self.latestOptions.options.validationError.map { HubError(.invalidConfiguration, "Invalid configuration: \($0)") }
    }

    // MARK: Waiting for states

    /// Lets a call wait until the client is connected.
    package mutating func awaitConnected(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .connected(let id): effects.resume(waiter, .success(.connected(connectionID: id)))
        case .stopped(let error?): effects.resume(waiter, .failure(error))
        case .stopped(nil), .connecting, .reconnecting: self.connectionCallers.insert(waiter)
        }
    }

    /// Starts the client unless it is started, for a call that waits until it is stopped.
    package mutating func run(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        if case .stopped = self.state {
            if let error = self.configurationError { return self.fail(error, waiter, &effects) }
            self.start(now: now, &effects)
        }
        self.endCallers.insert(waiter)
    }

    /// Moves the client to its final state, instead of connecting.
    mutating func fail(_ error: HubError, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        effects.log(.error, error.message)
        self.setState(.stopped(error), &effects)
        self.connectionCallers.resumeAll(.failure(error), &effects)
        effects.resume(waiter, .failure(error))
    }

    /// Fails the calls that began to wait after the client was stopped.
    package mutating func stopWhileStopped(_ effects: inout Effects<Self>) {
        self.connectionCallers.resumeAll(.failure(self.stopError), &effects)
    }

    /// The time of the next attempt to connect, if the client waits for it.
    package var nextAttempt: Instant? { if case .backingOff(let until) = self.connection.state { until } else { nil } }

    // MARK: Messages

    package mutating func observeFrames(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.frames)
    }

    /// Whether messages may have to be reported, for which the fast path of sending has no means.
    package var sendsWithEffects: Bool { self.frames != EventRoutes.none }

    /// Sends a message, and delivers it to the consumers of messages.
    package mutating func send(_ message: TransportMessage, on id: ConnectionID, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, message))
        self.trace(.sent, message.kind, message.bytes[...], &effects)
    }

    // Mutating, as calling another method of an `inout` value copies it, which costs more than reading a message.
    mutating func trace(
        _ direction: TracedFrame.Direction, _ kind: TransportMessage.Kind, _ bytes: @autoclosure () -> ArraySlice<UInt8>,
        _ effects: inout Effects<Self>
    ) {
        guard !effects.routes.isEmpty(self.frames) else { return }
        let text = self.redacted(HubMessageTrace.text(kind, bytes()), isWhole: true)
        effects.deliver(.frame(TracedFrame(direction, text)), on: self.frames)
    }
}

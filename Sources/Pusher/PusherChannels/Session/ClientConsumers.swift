import PusherWire
import RealtimeCore

/// The results of a step, to which the parts of a session append theirs.
typealias SessionEffects = Effects<PusherSession>

/// The work that the parts of a session have requested.
typealias SessionWork = PendingWork<PusherSession.Purpose>

/// The consumers of updates that belong to no part of a session, and of all updates and frames.
struct ClientConsumers: Sendable {
    enum Topic: Sendable { case states, retryDelays, errors, updates, frames, redactedFrames, receivedFrames }

    private var states = EventRoutes.none
    private var retryDelays = EventRoutes.none
    private var errors = EventRoutes.none
    /// The route of all updates apart from events.
    private var updates = EventRoutes.none
    private var frames = EventRoutes.none
    /// The route of all frames, without the secrets in those that were received.
    private var redactedFrames = EventRoutes.none
    /// The route of received frames and decrypted events.
    private(set) var receivedFrames = EventRoutes.none

    /// Whether there ever were consumers of all frames, also of those that are sent.
    var traceFrames: Bool { self.frames != EventRoutes.none || self.redactedFrames != EventRoutes.none }

    /// Whether there ever were consumers of received frames.
    var receiveFrames: Bool { self.traceFrames || self.receivedFrames != EventRoutes.none }

    mutating func add(_ id: ConsumerID, to topic: Topic, _ routes: inout EventRoutes) {
        switch topic {
        case .states: routes.add(id, to: &self.states)
        case .retryDelays: routes.add(id, to: &self.retryDelays)
        case .errors: routes.add(id, to: &self.errors)
        case .updates: routes.add(id, to: &self.updates)
        case .frames: routes.add(id, to: &self.frames)
        case .redactedFrames: routes.add(id, to: &self.redactedFrames)
        case .receivedFrames: routes.add(id, to: &self.receivedFrames)
        }
    }

    func publish(_ state: PusherConnectionState, _ effects: inout SessionEffects) {
        self.publish(.state(state), to: self.states, &effects)
    }

    func publish(delay: Duration, _ effects: inout SessionEffects) {
        self.publish(.connectingIn(delay), to: self.retryDelays, &effects)
    }

    func publish(_ error: PusherError, _ effects: inout SessionEffects) {
        self.publish(.error(error), to: self.errors, &effects)
    }

    /// Logs and publishes an error.
    func report(_ error: PusherError, _ effects: inout SessionEffects) {
        effects.log(.warning, error.message)
        self.publish(error, &effects)
    }

    /// Delivers an update other than an event to the consumers of a route, and to the consumers of all updates.
    func publish(_ update: PusherUpdate, to route: EventRoute = EventRoutes.none, _ effects: inout SessionEffects) {
        effects.deliver(update, on: route)
        effects.deliver(update, on: self.updates)
    }

    /// Delivers a frame that is sent.
    func sent(_ message: TransportMessage, _ trace: @autoclosure () -> FrameTrace, _ effects: inout SessionEffects) {
        let routes = [self.frames, self.redactedFrames].filter { !effects.routes.isEmpty($0) }
        guard !routes.isEmpty else { return }
        let text = trace().text(message.kind, message.bytes[...])
        for route in routes { effects.deliver(.sentFrame(text), on: route) }
    }

    /// Delivers a frame that was received.
    func received(_ text: UnsafeRawBufferPointer, _ trace: @autoclosure () -> FrameTrace, _ effects: inout SessionEffects) {
        if !effects.routes.isEmpty(self.receivedFrames) {
            effects.deliver(.frame(String(decoding: text, as: UTF8.self)), on: self.receivedFrames)
        }
        if !effects.routes.isEmpty(self.frames) {
            effects.deliver(.frame(String(decoding: text, as: UTF8.self)), on: self.frames)
        }
        if !effects.routes.isEmpty(self.redactedFrames) {
            effects.deliver(.frame(trace().text(.text, Array(text)[...])), on: self.redactedFrames)
        }
    }
}

/// The connection, the settings and the consumers that the parts of a session share in a step.
struct SessionContext {
    let now: Instant
    /// The connection that is established, if any.
    let connection: ConnectionID?
    let socketID: String?
    let settings: PusherSettings
    let consumers: ClientConsumers

    var configuration: PusherConfiguration { _read { yield self.settings.configuration } }

    /// The limit of a subscription, a sign-in, and a request for missed events that begin now.
    var limit: PatientLimit { PatientLimit(self.configuration.subscriptionTimeout, now: self.now) }

    /// Sends a frame, if the client is connected.
    func send(_ message: TransportMessage, _ effects: inout SessionEffects) {
        if let connection { self.send(message, on: connection, &effects) }
    }

    func send(_ message: TransportMessage, on id: ConnectionID, _ effects: inout SessionEffects) {
        effects.commands.append(.send(id, message))
        self.consumers.sent(message, self.configuration.trace, &effects)
    }

    func publish(_ update: PusherUpdate, to route: EventRoute, _ effects: inout SessionEffects) {
        self.consumers.publish(update, to: route, &effects)
    }

    /// Logs and publishes an error.
    func report(_ error: PusherError, _ effects: inout SessionEffects) { self.consumers.report(error, &effects) }
}

extension PusherConfiguration {
    /// Describes frames without secrets.
    var trace: FrameTrace { FrameTrace(secrets: self.headers.secrets) }

    /// Removes from a server's text what must not appear in errors and logs: signatures, users' data, and the values of the configured
    /// header fields.
    func redacted(_ text: String) -> String {
        ServerError.redacted(SecretFilter(self.headers.secrets).redacted(text, limit: ServerError.messageLimit))
    }
}

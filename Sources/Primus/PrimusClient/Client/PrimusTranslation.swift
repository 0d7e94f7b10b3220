import PrimusWire
import RealtimeCore
import RealtimeSystem

/// The code of the application between a session and its connection: a transformer, a parser, or both. It runs on the threads of the transport,
/// and never under the lock of the session.
///
/// The session reads and writes Primus's own messages in JSON, and the other packets as they are.
struct PrimusTranslation: Sendable {
    private let framing: PrimusFraming
    private let transformer: (any PrimusCustomTransformer)?
    private let parser: (any PrimusParser)?

    init(_ request: PrimusRequest) {
        (self.framing, self.transformer, self.parser) = (request.framing, request.customTransformer, request.customParser)
    }

    /// Returns the messages for the session.
    ///
    /// - Throws: The error of the application's transformer.
    func incoming(_ message: TransportMessage) throws -> [TransportMessage] {
        guard message.kind == .text || message.kind == .binary else { return [message] }
        let messages = try self.transformer.map { try $0.packets(in: message) } ?? [message]
        guard self.parser != nil else { return messages }
        return messages.map { self.replacingPackets(in: $0, sentBy: .server) { self.decoded($0) } }
    }

    /// Returns the message for the connection.
    func outgoing(_ message: TransportMessage) -> TransportMessage {
        guard message.kind == .text || message.kind == .binary else { return message }
        let translated = self.parser == nil ? message : self.replacingPackets(in: message, sentBy: .client) { self.encoded($0) }
        return self.transformer?.message(for: translated) ?? translated
    }

    /// Returns a message with other packets, or the same one if none changes.
    private func replacingPackets(
        in message: TransportMessage, sentBy sender: PrimusFraming.Side, _ replacement: (TransportMessage) -> TransportMessage?
    ) -> TransportMessage {
        let reader = self.framing.on(sender == .server ? .client : .server)
        var (packets, isChanged) = ([TransportMessage](), false)
        message.bytes.withUnsafeBytes { bytes in
            reader.read(message.kind, bytes) { event in
                guard case .packet(let kind, let bytes) = event else { return }
                let packet = TransportMessage(kind, Array(bytes))
                let new = replacement(packet)
                isChanged = isChanged || new != nil
                packets.append(new ?? packet)
            }
        }
        guard isChanged else { return message }
        return self.framing.on(sender).messages(packets).first ?? message
    }

    /// Returns a message of Primus in JSON; `nil` for another packet.
    private func decoded(_ packet: TransportMessage) -> TransportMessage? {
        guard let text = try? self.parser?.decode(packet).string, let message = PrimusProtocolMessage(text: text) else { return nil }
        return try? message.message(.json)
    }

    /// Returns a message of Primus in the encoding of the application; `nil` for another packet.
    private func encoded(_ packet: TransportMessage) -> TransportMessage? {
        let message = packet.bytes.withUnsafeBytes { PrimusProtocolMessage($0, packet.kind, .json) }
        return message.flatMap { try? self.parser?.encode(.string($0.text)) }
    }
}

extension PrimusFraming {
    /// The same framing for a side of the connection.
    fileprivate func on(_ side: Side) -> PrimusFraming {
        switch self {
        case .plain: .plain
        case .engineIO(let version, _): .engineIO(version, side)
        case .sockJS: .sockJS(side)
        }
    }
}

/// A connection whose messages are translated before they are sent.
final class PrimusTranslatedConnection: ConnectionDecorator {
    let connection: any MessageConnection
    private let translation: PrimusTranslation
    private struct State: Sendable {
        var messages: [TransportMessage] = []
        var isFlushing = false
        /// The close that follows the messages which another thread translates.
        var close: (code: CloseCode, reason: String)?
    }
    private let state = Lock(State())

    init(_ connection: any MessageConnection, _ translation: PrimusTranslation) {
        (self.connection, self.translation) = (connection, translation)
    }

    // Called under the lock of the session, where the application's code must not run.
    func enqueue(_ message: TransportMessage) { self.state.withLock { $0.messages.append(message) } }

    func flush() {
        self.translate()
        self.connection.flush()
    }

    /// Translates the messages, one thread at a time, so that they keep their order.
    private func translate() {
        guard
            self.state.withLock({ state in
                defer { state.isFlushing = true }
                return !state.isFlushing
            })
        else { return }
        while true {
            let (messages, close) = self.state.withLock { state in
                defer { state.messages = [] }
                if state.messages.isEmpty { state.isFlushing = false }
                return (state.messages, state.messages.isEmpty ? state.close.take() : nil)
            }
            if messages.isEmpty {
                if let close { self.connection.close(close.code, reason: close.reason) }
                return
            }
            for message in messages { self.connection.enqueue(self.translation.outgoing(message)) }
            self.connection.flush()
        }
    }

    func close(_ code: CloseCode, reason: String) {
        self.state.withLock { $0.close = (code, reason) }
        self.translate()
    }
}

/// The receiver of a connection's events, which passes them on with translated messages.
final class PrimusTranslatedEvents: HTTPMessageEvents, PartialMessageEvents {
    private let events: any MessageEvents
    private let translation: PrimusTranslation
    private let reportUnreadable: @Sendable (ConnectionID, TransportMessage, any Error) -> Void

    /// - Parameter reportUnreadable: Called with a message that the transformer can't read, between its neighbors.
    init(
        _ events: any MessageEvents, _ translation: PrimusTranslation,
        reportUnreadable: @escaping @Sendable (ConnectionID, TransportMessage, any Error) -> Void
    ) {
        (self.events, self.translation, self.reportUnreadable) = (events, translation, reportUnreadable)
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events.opened(id, head: head) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        var translated = MessageBatch()
        for message in batch.messages {
            do {
                for message in try self.translation.incoming(message) { translated.append(message.kind, message.bytes) }
            } catch {
                if !translated.entries.isEmpty { self.events.received(id, translated) }
                translated = MessageBatch()
                self.reportUnreadable(id, message, error)
            }
        }
        if !translated.entries.isEmpty { self.events.received(id, translated) }
    }

    func receivedPart(_ id: ConnectionID, byteCount: Int) { self.events.reportPart(id, byteCount: byteCount) }

    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }

    func answered(_ id: ConnectionID, _ count: Int) { (self.events as? any HTTPMessageEvents)?.answered(id, count) }

    /// The messages of Primus in the encoding of the application are encoded in the same way again.
    func unsent(_ id: ConnectionID, _ messages: [TransportMessage]) {
        (self.events as? any HTTPMessageEvents)?.unsent(id, messages)
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.events.closed(id, reason) }
}

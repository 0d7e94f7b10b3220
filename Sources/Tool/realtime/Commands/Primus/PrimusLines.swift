import CommandLineSupport
import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeCoding

/// The lines of a client's states, of which those of connections name what the server speaks and the kind of the connection.
struct PrimusStateLines: Sendable {
    private var dialect: PrimusDialect?
    private var transport: PrimusTransport?
    private var isOpen = false

    /// Returns the line of an update; `nil` if it is neither a state nor a move of an open connection.
    mutating func line(_ update: PrimusUpdate) -> Line? {
        switch update {
        case .dialect(let dialect):
            // Another connection.
            (self.dialect, self.isOpen) = (dialect, false)
            return nil
        case .transport(let transport):
            self.transport = transport
            return self.isOpen ? .moved(to: transport) : nil
        case .state(let state):
            self.isOpen = state == .open
            return .state(state, self.dialect, self.transport)
        default: return nil
        }
    }
}

extension Line {
    /// A state of a client's connection. The error of the final state isn't part of it: it is the failure of the command.
    ///
    /// - Parameters:
    ///   - dialect: What the server of the connection speaks, if there is one.
    ///   - transport: The kind of the connection.
    static func state(_ state: PrimusState, _ dialect: PrimusDialect?, _ transport: PrimusTransport? = nil) -> Line {
        switch state {
        case .opening: .primusState("opening")
        case .open: .primusState("open", dialect, transport, style: .success)
        case .reconnecting(let error): .primusState("reconnecting", detail: error.message, style: .warning)
        case .closed(nil): .primusState("end")
        case .closed(.some): .primusState("end", style: .error)
        }
    }

    private static func primusState(
        _ name: String, _ dialect: PrimusDialect? = nil, _ transport: PrimusTransport? = nil, detail: String? = nil, style: Style = .faint
    ) -> Line {
        // A WebSocket is what people expect.
        let kind = transport.flatMap { $0 == .webSockets ? nil : ", \($0)" } ?? ""
        let how = dialect.map { " over \($0.transformer), \($0.parser)\(kind)" }
        return Line(
            [Span(name, style)] + ([how, detail.map { ": \($0)" }].compactMap { $0 }.map { Span($0, .faint) }),
            [
                "type": "state", "state": .string(name), "transformer": (dialect?.transformer.description).map(Value.string),
                "parser": (dialect?.parser.description).map(Value.string),
                "transport": (transport?.description).map(Value.string), "detail": detail.map(Value.string),
            ])
    }

    /// The session of an open connection has moved to a connection of another kind.
    static func moved(to transport: PrimusTransport) -> Line {
        Line([Span("moved to \(transport)", .faint)], ["type": "transport", "transport": .string(transport.description)])
    }

    /// Returns the line of a message, or of an event or a request of a plugin; `nil` for anything else.
    ///
    /// - Throws: A problem when its value isn't valid, or is too large to be shown.
    static func received(_ event: PrimusEvent) throws(PrimusShown.Problem) -> Line? {
        switch event {
        case .message(let message): .data(try PrimusShown.value(message.raw, message.coding))
        case .plugin(.event(let name, let arguments, _, _)): .primusEvent(name, try PrimusShown.values(arguments))
        case .plugin(.request(let payload, _, _)): .primusRequest(try PrimusShown.value(payload))
        default: nil
        }
    }

    /// A message.
    static func data(_ value: JSONValue) -> Line { Line([Span(value.description)], ["type": "data", "data": .json(value)]) }

    /// An event of primus-emitter or primus-emit.
    static func primusEvent(_ name: String, _ arguments: [JSONValue]) -> Line {
        Line(
            [Span(name, .name)] + arguments.map { Span(" " + $0.description) },
            ["type": "event", "event": .string(name), "arguments": .json(.array(arguments))])
    }

    /// A request of primus-responder.
    static func primusRequest(_ value: JSONValue) -> Line {
        Line([Span("request", .name), Span(" " + value.description)], ["type": "request", "data": .json(value)])
    }

    /// An event that was sent, and that isn't acknowledged.
    static func sentEvent(_ name: String) -> Line {
        Line([Span("sent", .success), " ", Span(name, .name)], ["type": "sent", "event": .string(name)])
    }

    /// An acknowledgement.
    static func acknowledgement(_ arguments: [JSONValue]) -> Line {
        Line(
            [Span("acknowledged", .success)] + arguments.map { Span(" " + $0.description) },
            ["type": "ack", "arguments": .json(.array(arguments))])
    }

    /// The specification of a server.
    static func spec(_ spec: PrimusSpec) -> Line {
        let json = spec.json
        func member(_ name: String) -> Value? { json[name].map(Value.json) }
        return Line(
            [
                Span("Primus \(spec.version)", .name), Span(" at \(spec.pathname): transformer \(spec.transformer), "),
                Span("parser \(spec.parser), \(Self.text(spec.heartbeat))"),
            ],
            [
                "type": "spec", "version": member("version"), "pathname": member("pathname"), "transformer": member("transformer"),
                "parser": member("parser"), "pingInterval": member("pingInterval"), "timeout": member("timeout"),
            ])
    }

    private static func text(_ heartbeat: PrimusSpec.Heartbeat) -> String {
        func seconds(_ milliseconds: Double) -> String { Duration.milliseconds(Int64(min(milliseconds, 0x1p31))).inSeconds }
        return switch heartbeat {
        case .serverPings(let interval?): "the server pings every \(seconds(interval))"
        case .clientPings(let timeout?): "the client pings, at least every \(seconds(timeout))"
        case .serverPings(nil), .clientPings(nil), .none: "no heartbeat"
        }
    }

    // MARK: Servers

    /// Returns the line of an event of a server.
    ///
    /// - Parameter coding: The parser of the server.
    static func event(_ event: PrimusServerEvent, _ coding: PrimusCoding) -> Line? {
        switch event {
        case .rejected(let status):
            return Line(
                [Span("a client was rejected with the status \(status)", .warning)], ["type": "rejected", "status": .integer(status)])
        case .connected(let id):
            return Line([Span("\(id) connected", .faint)], ["type": "connected", "spark_id": .string(id)])
        case .disconnected(let id, let reason):
            return Line(
                [Span("\(id) disconnected: \(reason.textOfServer)", .faint)],
                [
                    "type": "disconnected", "spark_id": .string(id), "code": reason.peerCode.map { .integer(Int($0.rawValue)) },
                    "reason": .string(reason.textOfServer),
                ])
        case .received(let id, let packet):
            let value: JSONValue
            do throws(PrimusShown.Problem) {
                value = try PrimusShown.value(packet, coding)
            } catch {
                let advice = error.isInvalid ? " Check the parser of the client: that of the server is \(coding.kind)." : ""
                return Self.event(.error(id: id, message: error.message + advice), coding)
            }
            if PrimusShown.isOfProtocol(value) { return nil }
            return Line(
                [Span("\(id) sent \(value)", .faint)], ["type": "received", "spark_id": .string(id), "data": .json(value)])
        case .error(let id, let message):
            return Line(
                [Span("\(id): error: \(message)", .warning)],
                ["type": "error", "spark_id": .string(id), "message": .string(message)])
        }
    }
}

/// The values of messages as JSON.
enum PrimusShown {
    /// The reason why a value can't be shown.
    struct Problem: Error {
        let message: String
        /// Whether the value isn't valid, perhaps because it was written by another parser.
        let isInvalid: Bool
    }

    /// The maximum size of a value of MessagePack or BinaryPack, in bytes. It takes about 75 times as much memory while it is shown as JSON,
    /// because a value can have one byte.
    private static let binaryLimit = 2 << 20

    /// - Throws: A problem when the value isn't valid, or is too large to be shown.
    static func value(_ packet: TransportMessage, _ coding: PrimusCoding) throws(Problem) -> JSONValue {
        if packet.kind == .binary, coding.kind != .json, packet.bytes.count > Self.binaryLimit {
            throw Problem(
                message: "A message of \(packet.bytes.count) bytes isn't shown: the limit is \(Self.binaryLimit) bytes.", isInvalid: false)
        }
        do {
            return try coding.value(of: packet).shown(for: coding.kind)
        } catch {
            throw Problem(message: "A message can't be shown: \(PrimusCoding.reason(error)).", isInvalid: true)
        }
    }

    static func values(_ arguments: PrimusArguments) throws(Problem) -> [JSONValue] {
        do {
            return try arguments.values().map { $0.shown(for: arguments.coding.kind) }
        } catch {
            throw Problem(message: "The arguments of an event can't be shown: \(PrimusCoding.reason(error)).", isInvalid: true)
        }
    }

    static func value(_ payload: PrimusPayload) throws(Problem) -> JSONValue {
        do {
            return try payload.value().shown(for: payload.coding.kind)
        } catch {
            throw Problem(message: "A request can't be shown: \(PrimusCoding.reason(error)).", isInvalid: true)
        }
    }

    /// Whether a message is one of Primus itself.
    static func isOfProtocol(_ value: JSONValue) -> Bool { value.string?.hasPrefix("primus::") ?? false }
}

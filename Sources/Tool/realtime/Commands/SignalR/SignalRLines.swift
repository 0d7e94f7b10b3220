import CommandLineSupport
import RealtimeCore
import RealtimeCoding
import SignalRHubs
import SignalRServer
import SignalRWire

/// The lines of a client's states, of which those of connections name the transport.
struct HubStateLines: Sendable {
    private let client: HubClient
    private var transport: HubTransport?

    init(of client: HubClient) {
        self.client = client
    }

    /// Returns the line of an update; `nil` if it isn't a state.
    mutating func line(_ update: HubUpdate) -> Line? {
        switch update {
        case .transport(let transport):
            self.transport = transport
            return nil
        case .state(.connected) where self.client.isConnectionIDSecret:
            return .state(.connected(connectionID: "\(Redacted.secret)"), over: self.transport)
        case .state(let state): return .state(state, over: self.transport)
        case .resumed: return .resumed
        default: return nil
        }
    }
}

extension Line {
    /// A state of a client's connection. The error of the final state isn't part of it: it is the failure of the command.
    ///
    /// - Parameter transport: The transport of the connection, if there is one.
    static func state(_ state: HubState, over transport: HubTransport?) -> Line {
        switch state {
        case .connecting: .hubState("connecting")
        case .connected(let connectionID):
            .hubState("connected", transport: transport, connectionID: connectionID, style: .success)
        case .reconnecting(let error): .hubState("reconnecting", detail: error.message, style: .warning)
        case .stopped(nil): .hubState("disconnected")
        case .stopped(.some): .hubState("disconnected", style: .error)
        }
    }

    private static func hubState(
        _ name: String, transport: HubTransport? = nil, connectionID: String? = nil, detail: String? = nil, style: Style = .faint
    ) -> Line {
        let suffix = connectionID.map { "connection ID \($0)" } ?? detail
        return Line(
            [Span(name, style)] + (transport.map { [Span(" over \($0)", .faint)] } ?? [])
                + (suffix.map { [Span(": " + $0, .faint)] } ?? []),
            [
                "type": "state", "state": .string(name), "transport": transport.map { Value.string($0.rawValue) },
                "connection_id": connectionID.map(Value.string),
                "detail": detail.map(Value.string),
            ])
    }

    /// A line for what the application needn't react to: the connection is continued on another WebSocket.
    static let resumed = Line.hubState("resumed", style: .success)

    /// The result of a method; `null` if it has none.
    static func result(_ value: JSONValue) -> Line { Line([Span(value.description)], ["type": "result", "value": .json(value)]) }

    /// An item of a stream.
    static func item(_ value: JSONValue) -> Line { Line([Span(value.description)], ["type": "item", "value": .json(value)]) }

    /// A call that was sent, and that has no result.
    static func sent(_ target: String) -> Line {
        Line([Span("sent", .success), " ", Span(target, .name)], ["type": "sent", "target": .string(target)])
    }

    /// A call by the server.
    static func invocation(_ target: String, _ arguments: [JSONValue]) -> Line {
        Line(
            [Span(target, .name)] + arguments.map { Span(" " + $0.description) },
            ["type": "invocation", "target": .string(target), "arguments": .json(.array(arguments))])
    }

    /// The end of a connection, or of its WebSocket.
    private static func end(_ type: String, _ id: String, _ what: String, _ hub: String, _ reason: CloseReason) -> Line {
        Line(
            [Span("\(id) \(what): \(reason.textOfServer)", .faint)],
            [
                "type": .string(type), "connection_id": .string(id), "hub": .string(hub),
                "code": reason.peerCode.map { .integer(Int($0.rawValue)) }, "reason": .string(reason.textOfServer),
            ])
    }

    /// Returns the line of an event, or `nil` for a message, which is printed as it is received, and for a negotiation.
    static func event(_ event: SignalRServerEvent) -> Line? {
        switch event {
        case .negotiated, .received: return nil
        case .rejected(let hub, let status):
            return Line(
                [Span("a client of \(hub) was rejected with the status \(status)", .warning)],
                ["type": "rejected", "hub": .string(hub), "status": .integer(status)])
        case .connected(let hub, let id, let userID):
            return Line(
                [Span("\(id) connected to \(hub)\(userID.map { " as \($0)" } ?? "")", .faint)],
                ["type": "connected", "connection_id": .string(id), "hub": .string(hub), "user_id": userID.map(Value.string)])
        case .refreshed(let hub, let id, let userID):
            return Line(
                [Span("\(id) refreshed its authentication", .faint)],
                ["type": "refreshed", "connection_id": .string(id), "hub": .string(hub), "user_id": userID.map(Value.string)])
        case .interrupted(let hub, let id, let reason): return .end("interrupted", id, "lost its WebSocket", hub, reason)
        case .resumed(let hub, let id):
            return Line(
                [Span("\(id) resumed its connection", .faint)],
                ["type": "resumed", "connection_id": .string(id), "hub": .string(hub)])
        case .disconnected(let hub, let id, let reason): return .end("disconnected", id, "disconnected from \(hub)", hub, reason)
        case .invoked(let id, let method):
            return Line(
                [Span("\(id) called \(method)", .faint)],
                ["type": "invoked", "connection_id": .string(id), "method": .string(method)])
        case .completed(let id, let method, let error):
            return Line(
                [Span("\(id) completed \(method)\(error.map { ": \($0)" } ?? "")", error == nil ? .faint : .warning)],
                [
                    "type": "completed", "connection_id": .string(id), "method": .string(method), "error": error.map(Value.string),
                ])
        case .error(let id, let message):
            return Line(
                [Span("\(id): error: \(message)", .warning)],
                ["type": "error", "connection_id": .string(id), "message": .string(message)])
        }
    }
}

extension HubPayload {
    /// The value as JSON, with all digits of its numbers.
    ///
    /// - Throws: `ToolFailure` when the value exceeds the limits for decoding.
    func json() throws(ToolFailure) -> JSONValue {
        do {
            switch self.format {
            case .json: return try JSONValue(parsing: self.bytes)
            case .messagePack: return JSONValue(showing: try MessagePackValue(parsing: self.bytes))
            }
        } catch {
            throw ToolFailure("A value of the server can't be shown: \(error)")
        }
    }
}

import PeerSupport
import PrimusClient
import RealtimeCore
import RealtimeSockets
import Testing

/// The transformer and the parser of a server, and the connections of a client.
struct Dialect: Sendable, CustomTestStringConvertible {
    var server = "primus"
    var transformer = "websockets"
    var parser = "json"
    var options: [String] = []
    /// The kinds of connections; `nil` for a WebSocket.
    var connections: [PrimusConnectionKind]?
    /// Whether the client speaks version 3 of engine.io, though the server also has version 4.
    var isEngineIO3 = false

    var testDescription: String {
        let connections = self.connections.map { ", " + $0.map(\.description).joined(separator: " then ") } ?? ""
        let version = self.isEngineIO3 ? " 3" : ""
        return "\(self.server), \(self.transformer)\(version), \(self.parser)\(connections) \(self.options.joined(separator: " "))"
    }

    var carriesBytes: Bool { self.parser != "json" }
    /// Whether the connection is one of requests over HTTP, at first.
    var isOverHTTP: Bool { self.connections?.first.map { $0.transport != .webSockets } ?? false }
    /// Whether a session begins with polling and moves to a WebSocket.
    var moves: Bool { self.connections == [.polling, .webSocket] }

    /// Each transformer with each parser that works there, over each kind of connection.
    static let all: [Dialect] = ["primus", "primus6"].flatMap { server in
        let isNew = server == "primus"
        // The packages of Primus 6 have neither faye nor msgpack.
        let parsers = isNew ? ["json", "ejson", "msgpack", "binary"] : ["json", "ejson", "binary"]
        let plain = (isNew ? ["websockets", "faye"] : ["websockets"]).flatMap { transformer in
            parsers.map { Dialect(server: server, transformer: transformer, parser: $0) }
        }
        let engineIO = (isNew ? [false, true] : [false]).flatMap { isEngineIO3 in
            [nil, [PrimusConnectionKind.polling], [.polling, .webSocket]].flatMap { connections in
                parsers.map {
                    Dialect(
                        server: server, transformer: "engine.io", parser: $0, connections: connections, isEngineIO3: isEngineIO3)
                }
            }
        }
        let sockJS = [nil, [PrimusConnectionKind.framedWebSocket], [.streaming], [.polling]].flatMap { connections in
            ["json", "ejson"].map { Dialect(server: server, transformer: "sockjs", parser: $0, connections: connections) }
        }
        return plain + engineIO + sockJS
    }

    /// One of each server that the dialects need, with each transformer and parser that works there.
    static let servers = Self.all.filter { $0.connections == nil && !$0.isEngineIO3 }
    /// Each transformer of each version, over each kind of connection.
    static let kinds = Self.all.filter { $0.parser == "json" }
    /// Those whose connections are lost in different ways: neither the version of engine.io nor the framing of a WebSocket matters for that.
    static let losses = Self.kinds.filter { !$0.isEngineIO3 && $0.connections != [.framedWebSocket] }
    /// Each transformer of each version, over a WebSocket.
    static let some = Self.kinds.filter { $0.connections == nil && !$0.isEngineIO3 }

    /// The dialects that clients of the same server speak, over each kind of connection.
    var clients: [Dialect] {
        Self.all.filter { ($0.server, $0.transformer, $0.parser) == (self.server, self.transformer, self.parser) }
    }

    /// The options of a server for all of them.
    var optionsForClients: [String] {
        self.serverOptions + (self.clients.contains { $0.isEngineIO3 } ? ["--allowEIO3", "true"] : [])
    }

    /// The same dialect with a server that has further options.
    func with(_ options: String...) -> Dialect {
        var dialect = self
        dialect.options += options
        return dialect
    }

    /// The options of the server.
    var serverOptions: [String] {
        ["--transformer", self.transformer, "--parser", self.parser] + (self.isEngineIO3 ? ["--allowEIO3", "true"] : []) + self.options
    }

    /// The settings of a client.
    func configuration(_ url: String) throws -> PrimusConfiguration {
        var configuration = try PrimusConfiguration(url: url)
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        configuration.reconnectTimeout = .seconds(300)
        configuration.detectionTimeout = .seconds(300)
        if let connections = self.connections {
            configuration.connectionKinds = connections
            configuration.startsWithPolling = true
            configuration.allowedTransports = connections.contains { $0.transport == .webSockets } ? .all : .polling
        }
        if self.isEngineIO3 {
            // Without a specification, a client begins with version 3.
            (configuration.detection, configuration.transformer) = (.off, .engineIO)
            configuration.parser = PrimusParserKind(name: self.parser)
        }
        return configuration
    }
}

extension PrimusRetryPolicy {
    /// Short delays.
    static let quick = PrimusRetryPolicy.backoff(PrimusBackoff(minimum: .milliseconds(20), maximum: .milliseconds(100)))
}

extension PrimusConnection {
    /// Calls the control API of the client's server, over a connection of its own: Node.js closes one after five seconds without a request, also
    /// when one is on the way.
    @discardableResult
    func control(_ command: String, method: String = "POST", port: Int? = nil) async throws -> String {
        let endpoint = self.configuration.endpoint
        let target = Endpoint(scheme: "http", host: endpoint.host, port: port ?? endpoint.port, target: "/control/\(command)")
        let response = try await SocketHTTPTransport(keepAlive: .off).send(HTTPRequest(method, target))
        return String(decoding: response.body, as: UTF8.self)
    }
}

import CommandLineSupport
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// `realtime autobahn-client`: the WebSocket client under test. See `dev/autobahn`.
struct AutobahnClientCommand: Command {
    static let spec = CommandSpec(
        path: ["autobahn-client"],
        summary: "Run the WebSocket client under test of the Autobahn suite",
        description: """
            Runs all cases of the Autobahn fuzzing server at URL, echoing every message, and makes the server write its report.
            """,
        positionals: [PositionalSpec("URL", "The URL of the fuzzing server: ws://HOST:PORT.")],
        options: [.value("agent", "NAME", "The name of the client in the report. The default is \"ours\".")],
        isHidden: true)

    let endpoint: Endpoint
    let agent: String

    init(_ arguments: Arguments) throws(UsageError) {
        let url = arguments.required(positional: "URL")
        guard let endpoint = try? Endpoint(url), ["ws", "wss"].contains(endpoint.scheme) else {
            throw arguments.usageError("Invalid value '\(url)' for 'URL': must be a URL such as ws://HOST:PORT")
        }
        self.endpoint = endpoint
        self.agent = arguments.string("agent") ?? "ours"
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let transport = SocketWebSocketTransport()
        guard let text = try await self.request("/getCaseCount", transport), let cases = Int(text) else {
            throw ToolFailure("\(self.endpoint) did not send the number of its cases.")
        }
        for number in 1...max(1, cases) {
            let handler = try await self.open("/runCase?case=\(number)&agent=\(self.agent)", transport, echoes: true)
            await handler.waitUntilClosed()
            if Task.isCancelled { return }
        }
        _ = try await self.request("/updateReports?agent=\(self.agent)", transport)
        console.print(Line([.init("\(cases) cases completed")], ["type": "done", "cases": .integer(cases)]))
    }

    /// Opens a connection, waits until it is closed, and returns the first text that was received.
    private func request(_ target: String, _ transport: SocketWebSocketTransport) async throws(ToolFailure) -> String? {
        let handler = try await self.open(target, transport, echoes: false)
        await handler.waitUntilClosed()
        return handler.firstText
    }

    private func open(_ target: String, _ transport: SocketWebSocketTransport, echoes: Bool) async throws(ToolFailure) -> EchoHandler {
        var endpoint = self.endpoint
        endpoint.target = target
        let handler = EchoHandler(echoes: echoes)
        let request = WebSocketRequest(endpoint, messageLimit: 32 << 20)
        let connection = transport.makeConnection(request, id: ConnectionID(rawValue: 1), events: handler)
        handler.connection.withLock { $0 = connection }
        connection.open()
        return handler
    }
}

/// `realtime autobahn-server`: the WebSocket server under test. See `dev/autobahn`.
struct AutobahnServerCommand: Command {
    static let spec = CommandSpec(
        path: ["autobahn-server"],
        summary: "Run the WebSocket server under test of the Autobahn suite",
        description: """
            Accepts WebSockets on 127.0.0.1 and echoes every message until SIGTERM. The first line of output is \
            {"ready":true,"url":…,"port":…}.
            """,
        options: [.value("port", "PORT", "The port to listen on. The default is 0, which selects a free port.", as: .integer(0...65535))],
        isHidden: true)

    let port: Int

    init(_ arguments: Arguments) throws(UsageError) {
        self.port = arguments.integer("port") ?? 0
    }

    func run(_ console: Console) async throws(ToolFailure) {
        var limits = ListenerLimits()
        limits.messageBytes = 32 << 20
        let listener = SocketListener(port: self.port, limits: limits)
        let address: ListenerAddress
        do throws(TransportError) {
            address = try await listener.start(EchoServer())
        } catch {
            throw ToolFailure(error)
        }
        let url = "ws://\(address.host):\(address.port)"
        console.print(
            Line(["Server listening at ", .init(url, .name)], ["ready": true, "url": .string(url), "port": .integer(address.port)]))
        // Returns when the task is cancelled.
        let cancellation = Waiter<Void>()
        await cancellation.value { cancellation.fulfill(())?.resume() }
        await listener.stop()
    }
}

/// Handles one WebSocket: echoes messages, or keeps the first text message.
private final class EchoHandler: MessageEvents {
    let connection = Lock<(any MessageConnection)?>(nil)
    private let text = Lock<String?>(nil)
    private let end = Waiter<Void>()
    private let echoes: Bool

    init(echoes: Bool) {
        self.echoes = echoes
    }

    var firstText: String? { self.text.withLock { $0 } }

    /// Returns when the connection is closed or the task is cancelled.
    func waitUntilClosed() async { await self.end.value { self.end.fulfill(())?.resume() } }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        let connection = self.connection.withLock { $0 }
        for message in batch.messages where message.kind == .text || message.kind == .binary {
            if self.echoes {
                connection?.enqueue(message)
            } else {
                self.text.withLock { $0 = $0 ?? String(decoding: message.bytes, as: UTF8.self) }
            }
        }
        connection?.flush()
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.end.fulfill(())?.resume() }
}

private final class EchoServer: ListenerHandler, UpgradeAcceptor {
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 404, text: "This server only accepts WebSocket connections.\n"))
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(to: self) }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        let handler = EchoHandler(echoes: true)
        handler.connection.withLock { $0 = connection }
        return handler
    }
}

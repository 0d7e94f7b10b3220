internal import CommandLineSupport
internal import RealtimeSystem
internal import RealtimeCore
internal import RealtimeSockets

extension AutobahnClientCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        let transport = SocketWebSocketTransport()
        let count = try await self.ask("/getCaseCount", transport)
        guard let text = count, let cases = Int(text) else { throw ToolFailure("\(self.endpoint) did not say how many cases it has.") }
        for number in 1...max(1, cases) {
            let echo = try await self.open("/runCase?case=\(number)&agent=\(self.agent)", transport, echoes: true)
            await echo.closed()
            if Task.isCancelled { return }
        }
        _ = try await self.ask("/updateReports?agent=\(self.agent)", transport)
        console.say(Line([.init("\(cases) cases ran")], ["type": "done", "cases": .integer(cases)]))
    }

    private func ask(_ target: String, _ transport: SocketWebSocketTransport) async throws(ToolFailure) -> String? {
        let answer = try await self.open(target, transport, echoes: false)
        await answer.closed()
        return answer.firstText
    }

    private func open(_ target: String, _ transport: SocketWebSocketTransport, echoes: Bool) async throws(ToolFailure) -> EchoPeer {
        var endpoint = self.endpoint
        endpoint.target = target
        let peer = EchoPeer(echoes: echoes)
        let request = WebSocketRequest(endpoint, messageLimit: 32 << 20)
        let connection = transport.makeConnection(request, id: ConnectionID(rawValue: 1), events: peer)
        peer.connection.withLock { $0 = connection }
        connection.open()
        return peer
    }
}

extension AutobahnServerCommand: Command {
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
        console.say(
            Line(["Echoing at ", .init(url, .name)], ["ready": true, "url": .string(url), "port": .integer(address.port)]))
        let end = Waiter<Void>()
        await end.value { end.fulfill(())?.resume() }
        await listener.stop()
    }
}

/// Sends back what it gets, or keeps the first text.
private final class EchoPeer: WebSocketEvents {
    let connection = Lock<(any WebSocketConnection)?>(nil)
    private let text = Lock<String?>(nil)
    private let end = Waiter<Void>()
    private let echoes: Bool

    init(echoes: Bool) {
        self.echoes = echoes
    }

    var firstText: String? { self.text.withLock { $0 } }

    func closed() async { await self.end.value { self.end.fulfill(())?.resume() } }

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

private final class EchoServer: ListenerHandler {
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 404, text: "Only WebSockets are echoed here.\n"))
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        let peer = EchoPeer(echoes: true)
        peer.connection.withLock { $0 = connection }
        return peer
    }
}

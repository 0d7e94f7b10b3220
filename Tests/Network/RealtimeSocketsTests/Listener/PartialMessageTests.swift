import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// The events of a WebSocket while a large message arrives.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct PartialMessageTests {
    private final class Events: PartialMessageEvents {
        /// The sizes of parts, and of messages as negative numbers.
        let sizes = Log<Int>()

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            for entry in batch.entries { self.sizes.add(-entry.range.count) }
        }
        func receivedPart(_ id: ConnectionID, byteCount: Int) { self.sizes.add(byteCount) }
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }

    private final class Handler: AcceptingHandler {
        let events = Events()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 404))
        }
        func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
            self.events
        }
    }

    @Test func `the parts of a message that is larger than a read are reported before it, also to a traced receiver`() async throws {
        for isTraced in [false, true] {
            let handler = Handler()
            let sockets = SocketListener(limits: .forTests)
            let listener: any Listener = isTraced ? TracingListener(sockets) { _, _ in } : sockets
            let address = try await listener.start(handler)
            let client = TestSupport.RawSocket(SocketWebSocketTransport(), address, "/") { _ in }
            let size = 4 << 20
            client.send([.text("small"), .binary([UInt8](repeating: 1, count: size)), .text("small")])
            try await eventually { handler.events.sizes.entries.last == -5 && handler.events.sizes.entries.count > 2 }
            let all = handler.events.sizes.entries
            expect(all.first == -5 && all.suffix(2) == [-size, -5], "\(all)")
            let parts = all.dropFirst().dropLast(2)
            expect(!parts.isEmpty && parts.allSatisfy { $0 > 0 } && parts.reduce(0, +) <= size + 100, "\(all)")
            await listener.stop()
        }
    }
}

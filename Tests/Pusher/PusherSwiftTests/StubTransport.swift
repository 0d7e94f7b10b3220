import NWWebSocket
import RealtimeCore
import RealtimeSystem
import RealtimeTesting

/// A transport that records the calls of its connections, and whose events the test determines.
final class StubTransport: WebSocketTransport {
    final class Connection: MessageConnection {
        let number: Int
        let events: any MessageEvents
        private let id: ConnectionID
        private let calls: EventRecorder<String>

        init(_ number: Int, _ id: ConnectionID, _ events: any MessageEvents, _ calls: EventRecorder<String>) {
            (self.number, self.id, self.events, self.calls) = (number, id, events, calls)
        }

        func open() { self.calls.record("\(self.number) open") }
        func enqueue(_ message: TransportMessage) {
            self.calls.record("\(self.number) \(String(decoding: message.bytes, as: UTF8.self))")
        }
        func flush() { self.calls.record("\(self.number) flush") }
        func pauseReading() { self.calls.record("\(self.number) pause") }
        func resumeReading() { self.calls.record("\(self.number) resume") }
        func close(_ code: CloseCode, reason: String) { self.calls.record("\(self.number) close \(code.rawValue)") }
        func abandon() { self.calls.record("\(self.number) abandon") }

        func succeed() { self.events.opened(self.id, head: HTTPResponseHead(status: 101, reason: "", headers: [:])) }
        func receive(_ messages: [TransportMessage]) { self.events.received(self.id, MessageBatch(messages)) }
        func end(_ reason: CloseReason) { self.events.closed(self.id, reason) }
    }

    /// The calls of all connections, which are numbered from 1.
    let calls = EventRecorder<String>()
    private let made = Lock<[Connection]>([])

    var connections: [Connection] { self.made.withLock { $0 } }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        self.made.withLock { made in
            let connection = Connection(made.count + 1, id, events, self.calls)
            made.append(connection)
            return connection
        }
    }
}

import Dispatch
import RealtimeCore

/// A transport whose events arrive in later turns of the main queue. The network in memory answers during the call; on a real one, events
/// arrive on another thread.
struct LaterTransport: WebSocketTransport {
    let transport: any WebSocketTransport

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        self.transport.makeConnection(request, id: id, events: Events(events))
    }

    private final class Events: MessageEvents {
        private let events: any MessageEvents

        init(_ events: any MessageEvents) { self.events = events }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {
            DispatchQueue.main.async { [events] in events.opened(id, head: head) }
        }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            let messages = batch.messages
            DispatchQueue.main.async { [events] in events.received(id, MessageBatch(messages)) }
        }

        func writing(_ id: ConnectionID, paused: Bool) { DispatchQueue.main.async { [events] in events.writing(id, paused: paused) } }

        func closed(_ id: ConnectionID, _ reason: CloseReason) { DispatchQueue.main.async { [events] in events.closed(id, reason) } }
    }
}

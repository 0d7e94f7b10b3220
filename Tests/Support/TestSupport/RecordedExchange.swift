import RealtimeSystem
package import RealtimeCore
import RealtimeTesting

/// Records the events of an HTTP exchange.
package final class RecordedExchange: HTTPExchangeEvents {
    package enum Event: Hashable, Sendable {
        case head(Int)
        case body(String)
        case ended(TransportError.Code?)
    }

    private let recorded = EventRecorder<Event>()
    private let failures = EventRecorder<TransportError>()
    private let heads = EventRecorder<HTTPResponseHead>()
    private let react: @Sendable (Event) -> Void

    /// - Parameter react: Called after each event.
    package init(react: @escaping @Sendable (Event) -> Void = { _ in }) {
        self.react = react
    }

    package var events: [Event] { self.recorded.all }

    /// The error that ended the exchange, if it did.
    package var error: TransportError? { self.failures.all.first }

    /// The head of the response, if it has arrived.
    package var head: HTTPResponseHead? { self.heads.all.first }

    /// The body as far as it has arrived.
    package var body: String {
        self.events.reduce(into: "") { body, event in if case .body(let text) = event { body += text } }
    }

    package var hasEnded: Bool {
        if case .ended = self.events.last { true } else { false }
    }

    package func received(_ head: HTTPResponseHead, of id: ExchangeID) {
        self.heads.record(head)
        self.record(.head(head.status))
    }

    package func received(_ body: [UInt8], of id: ExchangeID) { self.record(.body(String(decoding: body, as: UTF8.self))) }

    package func ended(_ id: ExchangeID, _ error: TransportError?) {
        if let error { self.failures.record(error) }
        self.record(.ended(error?.code))
    }

    private func record(_ event: Event) {
        self.recorded.record(event)
        self.react(event)
    }
}

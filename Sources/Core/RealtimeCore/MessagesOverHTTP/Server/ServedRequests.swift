/// A server's connection over HTTP requests, which takes the requests of its client.
package protocol ServedRequests: MessageConnection {
    /// The ID of the connection in its events.
    var id: ConnectionID { get }
    /// Whether messages can be sent now: a request of the client waits for them, or there is another way.
    var hasReader: Bool { get }

    /// Returns whether messages couldn't be sent for a time, up to now.
    func isUnread(for duration: Duration) -> Bool

    /// Takes a request that waits for messages.
    func wait(_ request: HTTPRequestHead, _ responder: any HTTPResponder)

    /// Takes a request that brings messages.
    func receive(_ request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder)

    /// Keeps the place of a request that brings messages, while its sender isn't admitted yet: messages of later requests wait for it. The
    /// owner calls ``receive(_:_:body:)`` or ``refuse(_:_:)`` for the ID.
    ///
    /// - Parameters:
    ///   - responder: The responder of the request.
    ///   - bodyCount: The size of its body.
    /// - Returns: The ID of the request.
    func reserve(_ responder: any HTTPResponder, bodyCount: Int) -> ExchangeID

    /// Takes a request in the place that was reserved for it.
    func receive(_ id: ExchangeID, _ request: HTTPRequestHead, body: [UInt8])

    /// Answers a request that has a reserved place, without its messages.
    func refuse(_ id: ExchangeID, _ response: HTTPResponse)

    /// Ends a connection that was closed, without waiting any longer for the client to take what is left.
    func endClosing()

    /// Takes the responders of all requests without an answer, for tests of clients whose connections break. The owner drops them, and abandons
    /// the connection.
    func takeResponders() -> [any HTTPResponder]
}

/// A connection whose client learns from answers that its messages were taken.
package protocol AnsweringConnection: MessageConnection {
    /// Holds the answers to what is received now. Called while it is received, under a lock.
    func holdAnswers()
    /// Sends the answers with the next ``MessageConnection/flush()``. Called under a lock.
    func endHoldingAnswers()
}

/// A request of a client, until a connection takes it or it is refused.
package struct ServedRequest: Sendable {
    package let head: HTTPRequestHead
    package let body: [UInt8]
    /// Whether the request waits for messages. Otherwise, it brings them, or the end of the connection.
    package let waits: Bool
    package let responder: any HTTPResponder
    /// The place among the requests of an open connection that bring messages.
    private var place: (connection: any ServedRequests, id: ExchangeID)?

    package init(_ head: HTTPRequestHead, body: [UInt8], waits: Bool, _ responder: any HTTPResponder) {
        (self.head, self.body, self.waits, self.responder) = (head, body, waits, responder)
    }

    /// Keeps the request's place among those of an open connection. The decisions about requests may be made in another order than that of their
    /// arrival, which is the order of their messages.
    package mutating func reservePlace(on connection: any ServedRequests) {
        self.place = (connection, connection.reserve(self.responder, bodyCount: self.body.count))
    }

    /// Answers the request without its messages.
    package func refuse(_ response: HTTPResponse) {
        if let place { place.connection.refuse(place.id, response) } else { self.responder.respond(response) }
    }

    package func pass(to connection: any ServedRequests) {
        if self.waits {
            connection.wait(self.head, self.responder)
        } else if let place {
            place.connection.receive(place.id, self.head, body: self.body)
        } else {
            connection.receive(self.head, body: self.body, self.responder)
        }
    }
}

/// The responder of a request whose messages are taken, and whose answer is lost, for tests of clients.
package final class LosingResponder: DroppableResponder {
    private let responder: any HTTPResponder
    private let loses: @Sendable (HTTPResponse) -> Bool

    /// - Parameter loses: Whether an answer is lost; by default, each.
    package init(_ responder: any HTTPResponder, loses: @escaping @Sendable (HTTPResponse) -> Bool = { _ in true }) {
        (self.responder, self.loses) = (responder, loses)
    }

    package func respond(_ response: HTTPResponse) {
        if self.loses(response) { self.drop() } else { self.responder.respond(response) }
    }
    package func drop() { (self.responder as? any DroppableResponder)?.drop() }
    package func begin(_ head: HTTPResponseHead) {}
    package func write(_ bytes: [UInt8]) {}
    package func end() {}
    package func onDisconnect(_ action: @escaping @Sendable () -> Void) { self.responder.onDisconnect(action) }
}

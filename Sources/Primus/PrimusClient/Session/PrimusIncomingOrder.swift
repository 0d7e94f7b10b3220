package import RealtimeCore

/// A message for the incoming transforms.
package struct PrimusIncoming: Sendable {
    package var message: PrimusMessage
    /// The connection on which the message has arrived.
    package var connection: ConnectionID
    fileprivate var number: UInt64
}

/// The order of messages and of the events of the client for JavaScript, some of which follow messages that are in the incoming transforms.
///
/// The messages leave the transforms in the order in which they have entered them.
package struct PrimusIncomingOrder: Sendable {
    private var lastBegun: UInt64 = 0
    private var lastEnded: UInt64 = 0
    /// The events that wait, each with the number of the message before it.
    private var held = FIFO<(number: UInt64, event: PrimusEvent)>()

    package init() {}

    /// A message enters the transforms.
    mutating func begin(_ message: PrimusMessage, on connection: ConnectionID) -> PrimusIncoming {
        self.lastBegun += 1
        return PrimusIncoming(message: message, connection: connection, number: self.lastBegun)
    }

    /// Keeps an event, if there are messages before it.
    ///
    /// - Returns: Whether it waits.
    mutating func hold(_ event: PrimusEvent) -> Bool {
        guard self.lastEnded < self.lastBegun else { return false }
        self.held.append((self.lastBegun, event))
        return true
    }

    /// A message was delivered or discarded. The events up to the next message are due.
    mutating func end(_ item: PrimusIncoming, deliver: (PrimusEvent) -> Void) {
        self.lastEnded = item.number
        while let first = self.held.first, first.number <= item.number {
            _ = self.held.popFirst()
            deliver(first.event)
        }
    }
}

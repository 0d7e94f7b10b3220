/// How long a listener listens.
package enum ConsumerLifetime: Sendable {
    /// Until the connection has ended for good.
    case connection
    /// Until the client is gone, over any number of connections.
    case client
}

/// A listener as the driver sees it: something that takes the machine's events.
package protocol EventConsumer<Event>: Sendable {
    associatedtype Event
    var isFull: Bool { get }
    func append(_ events: ArraySlice<Event>) -> AppendResult
    func finish(_ reason: EndReason) -> WakeUp?
}

/// Turns a machine's events into those of one sequence, a batch at a time: `convert` is compiled where both types
/// are known.
struct ConvertingConsumer<Event: Sendable, Element: Sendable>: EventConsumer {
    typealias Convert = @Sendable (ArraySlice<Event>, inout [Element]) -> Void

    let buffer: EventBuffer<Element>
    let convert: Convert

    var isFull: Bool { self.buffer.isFull }

    func append(_ events: ArraySlice<Event>) -> AppendResult { self.buffer.append { self.convert(events, &$0) } }

    func finish(_ reason: EndReason) -> WakeUp? { self.buffer.finish(reason) }
}

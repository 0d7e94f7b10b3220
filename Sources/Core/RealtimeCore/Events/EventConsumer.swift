/// Identifies a consumer of events.
@usableFromInline
package struct ConsumerID: Hashable, Comparable, Sendable {
    package var rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    @usableFromInline
    package static func < (first: Self, second: Self) -> Bool { first.rawValue < second.rawValue }
}

/// A destination of events: the number of a set of consumers.
@usableFromInline
package struct EventRoute: Hashable, Sendable {
    /// 32 bits, because a channel stores several routes.
    @usableFromInline let number: UInt32

    @inlinable package var rawValue: Int { Int(self.number) }
    @inlinable package init(rawValue: Int) { self.number = UInt32(rawValue) }
}

/// How long a consumer receives events.
package enum ConsumerLifetime: Sendable {
    /// Until the connection ends and won't be re-established.
    case connection
    /// Until the client is released, across connections.
    case client
}

/// A consumer of the events that a source produces. All methods are called under the source's lock.
package protocol EventConsumer<Event>: Sendable {
    associatedtype Event
    var isFull: Bool { get }
    /// Whether a task waits for the next event.
    var hasWaitingReader: Bool { get }
    /// - Parameter joinsLast: Whether no callback of another consumer has been scheduled since the last one of this consumer.
    func append(_ events: ArraySlice<Event>, joinsLast: Bool) -> AppendResult
    func finish(_ reason: EndReason) -> WakeUp?
}

/// Converts a batch of events into the elements of one consumer. It is a closure so that it is compiled where both types are known.
package typealias EventConversion<Event, Element> = @Sendable (ArraySlice<Event>, inout [Element]) -> Void

/// Delivers events to a sequence.
struct ConvertingConsumer<Event: Sendable, Element: Sendable>: EventConsumer {
    let buffer: EventBuffer<Element>
    let convert: EventConversion<Event, Element>

    var isFull: Bool { self.buffer.isFull }
    var hasWaitingReader: Bool { self.buffer.hasWaitingReader }

    func append(_ events: ArraySlice<Event>, joinsLast: Bool) -> AppendResult { self.buffer.append { self.convert(events, &$0) } }

    func finish(_ reason: EndReason) -> WakeUp? { self.buffer.finish(reason) }
}

/// Produces the events of sequences and callbacks. The methods are called on the consumers' threads.
package protocol EventSource: AnyObject, Sendable {
    /// The consumer's buffer was full and has been emptied.
    func drained(_ consumer: ConsumerID)
    /// A task waits for the next event of a consumer whose events depend on the peer. Reading must not stay paused until then.
    func readerWaits(_ consumer: ConsumerID)
    /// The last copy of the consumer's sequence was released, or its callback was cancelled.
    func consumerRemoved(_ consumer: ConsumerID)
    /// A second iterator of the consumer's sequence took over from the first.
    func iteratorReplaced(_ consumer: ConsumerID)
}

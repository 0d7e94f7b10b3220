/// Passes the events of a driver to a callback.
struct CallbackConsumer<Event: Sendable, Element: Sendable>: EventConsumer {
    let queue: CallbackQueue<Element>
    let convert: EventConversion<Event, Element>

    var isFull: Bool { self.queue.isFull }
    var hasWaitingReader: Bool { false }

    func append(_ events: ArraySlice<Event>, joinsLast: Bool) -> AppendResult {
        self.queue.append(joinsLast: joinsLast) { self.convert(events, &$0) }
    }

    func finish(_ reason: EndReason) -> WakeUp? { self.queue.finish(reason) }
}

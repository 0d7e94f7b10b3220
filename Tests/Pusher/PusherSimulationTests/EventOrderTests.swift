import RealtimeCore
import TestSupport
import Testing

/// Which events may be missing.
@Suite struct EventOrderTests {
    private enum Input {
        /// A gap at a second, when the server has published a number of events.
        case gap(Int64, published: Int)
        /// An event at a second.
        case event(Int64, Int)
        case consumer
    }

    /// Returns what happens to each event.
    private func arrivals(_ inputs: Input...) -> [EventOrder.Arrival] {
        var order = EventOrder()
        func time(_ seconds: Int64) -> Instant { Instant(nanoseconds: 0).advanced(by: .seconds(seconds)) }
        return inputs.compactMap { input in
            switch input {
            case .gap(let seconds, let published): order.receivedGap(published: published, now: time(seconds))
            case .event(let seconds, let number): return order.received(number, now: time(seconds))
            case .consumer: order.consumerBegan()
            }
            return nil
        }
    }

    @Test func `each event arrives once and in order`() {
        expectEqual(self.arrivals(.event(1, 3), .event(2, 4), .event(3, 4), .event(4, 2)), [.inOrder, .inOrder, .repeated, .repeated])
    }

    @Test func `events are missing without notice unless a gap precedes the next one`() {
        expectEqual(self.arrivals(.event(1, 1), .event(2, 3)), [.inOrder, .missing])
        expectEqual(self.arrivals(.event(1, 1), .gap(2, published: 2), .event(3, 3)), [.inOrder, .inOrder])
    }

    @Test func `a gap is also the notice of events that are missing between and after those that have waited for it`() {
        expectEqual(
            self.arrivals(.event(1, 1), .gap(2, published: 6), .event(2, 3), .event(2, 5), .event(3, 7)),
            [.inOrder, .inOrder, .inOrder, .inOrder])
    }

    @Test func `events that are missing later need another gap`() {
        // An event has arrived since.
        expectEqual(
            self.arrivals(.event(1, 1), .gap(2, published: 4), .event(3, 3), .event(4, 5)), [.inOrder, .inOrder, .missing])
        // They were published after it.
        expectEqual(self.arrivals(.event(1, 1), .gap(2, published: 2), .event(2, 3), .event(3, 5)), [.inOrder, .inOrder, .missing])
        expectEqual(self.arrivals(.event(1, 1), .gap(2, published: 2), .event(3, 4)), [.inOrder, .missing])
    }

    @Test func `a new consumer begins with any event`() {
        expectEqual(self.arrivals(.event(1, 1), .consumer, .event(2, 5), .event(3, 7)), [.inOrder, .inOrder, .missing])
    }
}

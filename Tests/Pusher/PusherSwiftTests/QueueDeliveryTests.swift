import Dispatch
import NWWebSocket
import RealtimeTesting
import TestSupport
import Testing

/// What waits for a queue.
@Suite(.timeLimit(.minutes(10))) struct QueueDeliveryTests {
    private let queue = DispatchQueue(label: "QueueDeliveryTests")

    private final class Payload: Sendable {
        let number: Int
        private let onEnd: @Sendable () -> Void

        init(_ number: Int, onEnd: @escaping @Sendable () -> Void) { (self.number, self.onEnd) = (number, onEnd) }

        deinit { self.onEnd() }
    }

    private struct PayloadItem: Sendable { let payload: Payload }

    @Test func `an item is released when it was handled, although others wait`() async throws {
        let ended = EventRecorder<Int>()
        let seen = EventRecorder<[Int]>()
        let delivery = QueueDelivery<PayloadItem>(self.queue) { _ in seen.record(ended.all) }
        self.queue.suspend()
        for number in 0..<4 { delivery.enqueue(PayloadItem(payload: Payload(number) { ended.record(number) })) }
        self.queue.resume()
        try await eventually { seen.all.count == 4 }
        #expect(seen.all == [[], [0], [0, 1], [0, 1, 2]])
    }

    @Test func `an item can enqueue another one when it is released`() async throws {
        let handled = EventRecorder<Int>()
        let delivery = QueueDelivery<PayloadItem>(self.queue) { handled.record($0.payload.number) }
        delivery.enqueue(
            PayloadItem(payload: Payload(1) { [weak delivery] in delivery?.enqueue(PayloadItem(payload: Payload(2) {})) }))
        try await eventually { handled.all == [1, 2] }
    }

    @Test func `a queue that is never empty takes memory for the items that wait only`() {
        var queue = ItemQueue<Int>()
        for number in 0..<100 { queue.append(number) }
        for number in 100..<10_000 {
            queue.append(number)
            #expect(queue.popFirst() == number - 100)
            #expect(queue.storedCount <= 300)
        }
        for number in 9_900..<10_000 { #expect(queue.popFirst() == number) }
        #expect(queue.popFirst() == nil && queue.isEmpty && queue.storedCount == 0)
    }
}

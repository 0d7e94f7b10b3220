package import Dispatch
package import RealtimeCore
import RealtimeSystem

/// The numbers of the queues on which callbacks are called. Objects can't identify them: on Linux, the main queue has many.
private let queueKey = DispatchSpecificKey<UInt64>()
/// The number of the queue that was numbered last.
private let lastQueueNumber = Lock(UInt64(0))

/// A serial queue of the application, on which callbacks are called.
package struct SerialQueue: Sendable {
    /// The maximum number of elements that are handled in one turn of the queue, so that other work of the queue gets its turn.
    package static var batchSize: Int { 256 }

    private let queue: DispatchQueue
    private let number: UInt64

    /// - Parameter queue: A serial queue.
    package init(_ queue: DispatchQueue) {
        self.queue = queue
        // Assigned once for each queue.
        self.number = lastQueueNumber.withLock { last in
            if let number = queue.getSpecific(key: queueKey) { return number }
            last += 1
            queue.setSpecific(key: queueKey, value: last)
            return last
        }
    }

    /// Whether the calling code runs on the queue.
    package var isCurrent: Bool { DispatchQueue.getSpecific(key: queueKey) == self.number }

    /// Returns an empty queue of elements that are handled on this queue, always in a later turn.
    package func callbacks<Element: Sendable>(
        _ policy: BufferPolicy = .dropOldest(.max), byteLimit: ByteLimit<Element>? = nil, _ handle: @escaping @Sendable (Element) -> Void
    ) -> CallbackQueue<Element> {
        CallbackQueue(
            policy, byteLimit: byteLimit, batchSize: Self.batchSize, schedule: { [queue] run in queue.async { run() } }, callback: handle)
    }

    /// Handles the waiting elements now if the calling code runs on the queue, unless an element is being handled.
    package func deliver<Element>(_ elements: CallbackQueue<Element>) { if self.isCurrent { elements.deliverNow() } }
}

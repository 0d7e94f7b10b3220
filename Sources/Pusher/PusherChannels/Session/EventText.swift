import RealtimeCore

/// Storage for the data of events that arrived together, up to 4 KiB of them, as they were in their frames.
///
/// It is filled on the connection's thread, and strings are made from it on the consumer's thread. Strings that one thread allocates and
/// another one frees, one per event, would have both threads contend for the allocator's lock.
///
/// `@unchecked Sendable`: only ``EventTextWriter`` writes, before any other thread has access. The bytes do not change after that.
final class EventText: @unchecked Sendable {
    fileprivate let start: UnsafeMutableRawPointer
    fileprivate let capacity: Int

    fileprivate init(capacity: Int) {
        self.start = .allocate(byteCount: capacity, alignment: 1)
        self.capacity = capacity
    }

    deinit { self.start.deallocate() }

    func bytes(_ offset: UInt32, _ count: UInt32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: self.start + Int(offset), count: Int(count))
    }
}

/// Stores the data of the events of one read in as few ``EventText``s as possible.
struct EventTextWriter {
    /// The maximum that an event shares with others, and therefore keeps in memory.
    private static let limit = 4 << 10

    private var text: EventText?
    private var used = 0
    /// An upper bound of the bytes that follow.
    private var remaining: Int

    init(atMost count: Int) {
        self.remaining = count
    }

    @inline(__always)
    mutating func add(_ bytes: UnsafeRawBufferPointer) -> (text: EventText, offset: UInt32) {
        let text: EventText
        if let current = self.text, self.used &+ bytes.count <= current.capacity {
            text = current
        } else {
            text = EventText(capacity: max(bytes.count, min(self.remaining, Self.limit)))
            self.text = text
            self.used = 0
        }
        let offset = self.used
        if let source = bytes.baseAddress { (text.start + offset).copyMemory(from: source, byteCount: bytes.count) }
        self.used &+= bytes.count
        self.remaining &-= bytes.count
        return (text, UInt32(truncatingIfNeeded: offset))
    }
}

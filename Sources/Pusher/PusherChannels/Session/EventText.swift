import RealtimeCore

/// The data of events that came together, as they stood in their frames: one piece of memory for up to 4 KiB of them.
///
/// It is filled on the connection's thread, and a string is made of it where the event is used: memory that one thread takes
/// and another gives back, for each message, would cost more than all the rest.
///
/// `@unchecked Sendable`: it is written by ``EventTextWriter`` alone, before anybody else has it, and only read after that.
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

/// Puts the data of one read's events into as few texts as may be.
struct EventTextWriter {
    /// Who keeps one event keeps no more than this of its neighbours.
    private static let limit = 4 << 10

    private var text: EventText?
    private var used = 0
    /// An upper bound of what is still to come.
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

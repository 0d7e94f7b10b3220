import RealtimeCore

/// The pieces of a body in one read. A single piece is not copied; several are joined, in memory that all exchanges of a loop use in turn.
struct ReceivedBody: ~Copyable {
    /// The piece, if there is only one.
    private var piece = UnsafeRawBufferPointer(start: nil, count: 0)
    private var joined: [UInt8] = []
    private let limit: Int
    private let loop: EventLoop

    /// - Parameters:
    ///   - limit: The number of bytes of the read.
    ///   - loop: The loop whose thread reads.
    init(limit: Int, _ loop: EventLoop) {
        (self.limit, self.loop) = (limit, loop)
    }

    var isEmpty: Bool { self.piece.isEmpty && self.joined.isEmpty }

    /// Appends a piece.
    ///
    /// - Parameter next: The piece, which is not empty. It must be valid as long as the body.
    @inline(__always)
    mutating func append(_ next: UnsafeRawBufferPointer) {
        if self.joined.isEmpty {
            guard !self.piece.isEmpty else {
                self.piece = next
                return
            }
            self.join()
        }
        self.joined.append(next, mask: nil)
    }

    private mutating func join() {
        self.joined = SharedBody.of(self.loop).take()
        self.joined.reserveCapacity(self.limit)
        self.joined.append(self.piece, mask: nil)
    }

    /// Delivers the body to the receiver of an exchange, and removes it.
    mutating func deliver(to events: any HTTPExchangeEvents, of id: ExchangeID) {
        // Taken, so that nothing else refers to the memory when it is put back.
        var joined: [UInt8] = []
        swap(&joined, &self.joined)
        let bytesEvents = events as? any HTTPExchangeBytesEvents
        guard !joined.isEmpty else {
            // The receiver may keep the array.
            if let bytesEvents { bytesEvents.received(self.piece, of: id) } else { events.received(Array(self.piece), of: id) }
            return
        }
        guard let bytesEvents else { return events.received(joined, of: id) }
        joined.withUnsafeBytes { bytesEvents.received($0, of: id) }
        SharedBody.of(self.loop).putBack(&joined)
    }
}

/// The memory for the bodies that the exchanges of one loop receive. An idle exchange has none.
private final class SharedBody: Sendable {
    /// More than a read brings isn't kept.
    private static let keptCapacity = 1 << 20

    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var bytes: LoopBound<[UInt8]>

    private init(_ loop: EventLoop) {
        self.bytes = LoopBound([], of: loop)
    }

    static func of(_ loop: EventLoop) -> SharedBody { loop.resource(SharedBody.self) { SharedBody(loop) } }

    func take() -> [UInt8] {
        var bytes: [UInt8] = []
        swap(&bytes, &self.bytes.value)
        return bytes
    }

    func putBack(_ bytes: inout [UInt8]) {
        bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptCapacity)
        swap(&bytes, &self.bytes.value)
    }
}

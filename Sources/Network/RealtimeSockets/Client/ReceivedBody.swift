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

    /// Delivers the body to the receiver of an exchange, unless it is empty.
    consuming func deliver(to events: any HTTPExchangeEvents, of id: ExchangeID) {
        let isSingle = self.joined.isEmpty
        if let events = events as? any HTTPExchangeBytesEvents {
            if isSingle { events.received(self.piece, of: id) } else { self.joined.withUnsafeBytes { events.received($0, of: id) } }
            if !isSingle { SharedBody.of(self.loop).putBack(self.joined) }
        } else {
            // The receiver may keep the array.
            events.received(isSingle ? Array(self.piece) : self.joined, of: id)
        }
    }
}

/// The memory for the bodies that the exchanges of one loop receive. An idle exchange has none.
private final class SharedBody: Sendable {
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

    func putBack(_ bytes: consuming [UInt8]) {
        bytes.removeAll(keepingCapacity: true)
        self.bytes.value = bytes
    }
}

import PusherWire

/// The names that events have in common.
final class EventNames: Sendable {
    let event: String
    let channel: String?
    let userID: String?

    init(_ event: String, channel: String?, userID: String? = nil) {
        self.event = event
        self.channel = channel
        self.userID = userID
    }

    /// Whether an event has this name and this channel. Compares without creating strings.
    func areNames(of frame: PusherFrame) -> Bool { frame.isEvent(self.event) && frame.isChannel(self.channel ?? "") }
}

/// Storage for events that arrived together: their names, and up to 4 KiB of their data as it was in their frames.
///
/// It is filled on the connection's thread, and strings are made from it on the consumer's thread. Strings that one thread allocates and
/// another one frees, one per event, would have both threads contend for the allocator's lock. An event is a single reference to its
/// storage, so that copying it into a buffer costs a single retain.
///
/// `@unchecked Sendable`: only ``EventWriter`` writes, before any other thread has access. The contents do not change after that.
final class EventStorage: @unchecked Sendable {
    fileprivate let start: UnsafeMutableRawPointer
    fileprivate let capacity: Int
    private let firstNames: EventNames
    /// Empty for most storages: consecutive events often have the same names.
    private var otherNames: [EventNames] = []

    fileprivate init(capacity: Int, _ names: EventNames) {
        self.start = .allocate(byteCount: capacity, alignment: 1)
        self.capacity = capacity
        self.firstNames = names
    }

    deinit { self.start.deallocate() }

    func bytes(_ offset: UInt32, _ count: UInt32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: self.start + Int(offset), count: Int(count))
    }

    func names(at index: UInt32) -> EventNames { index == 0 ? self.firstNames : self.otherNames[Int(index) - 1] }

    /// - Returns: The index of the names.
    fileprivate func append(_ names: EventNames) -> UInt32 {
        if self.otherNames.isEmpty { self.otherNames.reserveCapacity(16) }
        self.otherNames.append(names)
        return UInt32(self.otherNames.count)
    }
}

/// Stores the events of one read in as few ``EventStorage``s as possible.
struct EventWriter {
    /// The maximum that an event shares with others, and therefore keeps in memory.
    private static let limit = 4 << 10

    private var storage: EventStorage?
    private var used = 0
    private var names: EventNames?
    private var namesIndex: UInt32 = 0
    /// An upper bound of the bytes that follow.
    private var remaining: Int

    init(atMost count: Int) {
        self.remaining = count
    }

    /// Stores the event of a frame.
    ///
    /// - Parameters:
    ///   - names: The names of the event, without the user who sent it. Pass the same object for consecutive events with the same names.
    ///   - frame: The frame.
    @inline(__always)
    mutating func event(_ names: EventNames, _ frame: PusherFrame) -> PusherEvent {
        if frame.hasUser {
            let names = EventNames(names.event, channel: names.channel, userID: frame.user)
            return self.event(names, data: frame.dataRaw, isEscaped: frame.dataIsEscaped)
        }
        return self.event(names, data: frame.dataRaw, isEscaped: frame.dataIsEscaped)
    }

    /// Stores an event.
    ///
    /// - Parameters:
    ///   - names: The event's names. Pass the same object for consecutive events with the same names.
    ///   - data: The data as it was received, or `nil` if there is none.
    ///   - isEscaped: Whether the data is the content of a JSON string with escapes.
    @inline(__always)
    mutating func event(_ names: EventNames, data: UnsafeRawBufferPointer?, isEscaped: Bool) -> PusherEvent {
        let count = data?.count ?? 0
        let storage: EventStorage
        if let current = self.storage, self.used &+ count <= current.capacity {
            storage = current
            if names !== self.names {
                self.names = names
                self.namesIndex = storage.append(names)
            }
        } else {
            storage = EventStorage(capacity: max(count, min(self.remaining, Self.limit)), names)
            (self.storage, self.used) = (storage, 0)
            (self.names, self.namesIndex) = (names, 0)
        }
        let offset = self.used
        if let source = data?.baseAddress { (storage.start + offset).copyMemory(from: source, byteCount: count) }
        self.used &+= count
        self.remaining &-= count
        return PusherEvent(
            storage, names: self.namesIndex, offset: UInt32(truncatingIfNeeded: offset), count: UInt32(truncatingIfNeeded: count),
            data == nil ? .none : isEscaped ? .escaped : .plain)
    }
}

import PusherWire
import RealtimeCore
import RealtimeSystem

/// The identity of a channel's record in a ``ChannelTable``.
///
/// IDs are not reused: the ID of an unsubscribed channel finds nothing, even if another channel takes its slot.
struct ChannelID: Hashable, Sendable {
    /// An ID that identifies no channel.
    static let none = ChannelID(slot: .max, serial: 0)
    /// Stands for more than one channel, and identifies none.
    static let several = ChannelID(slot: .max, serial: 1)

    let slot: UInt32
    let serial: UInt32
}

/// A channel that the client is subscribed or subscribing to.
struct ChannelRecord: Sendable {
    let id: ChannelID
    let name: String
    var machine = PusherChannelStateMachine()
    let kind: PusherChannelKind
    /// The number of failures in a row, which determines the delay of the next retry.
    var failures: UInt16 = 0
    // Here because it fills a gap in the layout of the record, which is stored for each channel.
    var memberLists = EventRoutes.none
    var members = PusherMembers()
    /// This client's user on a presence channel, from the authorization.
    var userID: String?
    /// Changed by ``ChannelTable``.
    fileprivate var waiters = WaitingCalls()
    /// Client events to send when the subscription succeeds.
    var queuedMessages: [WebSocketMessage] = []
    var events = ChannelRoutes()
    var states = EventRoutes.none
    var notices: NoticeRoutes {
        get { self.boxedNotices ?? NoticeRoutes() }
        set { self.boxedNotices = newValue }
    }
    @Boxed private var boxedNotices: NoticeRoutes?
    /// The key of an encrypted channel, since its first authorization.
    @Boxed var decryption: ChannelDecryption?
    /// The position in the server's history of events, if the client recovers missed ones and the server supports it.
    @Boxed var recovery: ChannelRecovery?
    /// The filter, if the channel has or had one.
    @Boxed var filter: ChannelFilter?
    /// The events that deltas refer to, if the server sends some.
    @Boxed var deltaBases: DeltaBases?
    /// Since when events may be missing: from the loss of the subscription until it is restored.
    var lostSince: Instant?
    /// Whether events arrive of a subscription that the client has given up.
    var receivesUnconfirmed = false
    /// When the server confirmed the subscription last.
    var confirmedAt: Instant?
    /// The number of subscribed connections, as the server reported it last.
    var subscriptionCount: Int?
    var memberChanges = EventRoutes.none
    private var latestEventNames: EventNames?

    /// Routes that few channels have.
    struct NoticeRoutes: Sendable {
        var gaps = EventRoutes.none
        var counts = EventRoutes.none
    }

    init(_ id: ChannelID, _ name: String) {
        self.id = id
        self.name = name
        self.kind = ChannelName.kind(of: name)
    }

    /// The routes of what is not an event.
    var updateRoutes: [EventRoute] { [self.states, self.memberChanges, self.memberLists, self.notices.gaps, self.notices.counts] }

    /// Returns the names of an event on the channel. Consecutive events with the same name share one object, also while events of other
    /// channels arrive between them.
    mutating func eventNames(of frame: PusherFrame) -> EventNames {
        if let latestEventNames, frame.isEvent(latestEventNames.event) { return latestEventNames }
        let names = EventNames(frame.eventName, channel: self.name)
        self.latestEventNames = names
        return names
    }
}

/// The channels of a session, by ID and by name.
///
/// A record is found by its ID without hashing: `trigger` and events of another channel than the last one take this path.
struct ChannelTable: Sendable {
    private var idsByName = SmallDictionary<ByteString, ChannelID>()
    private var slots: [ChannelRecord?] = []
    private var freeSlots: [UInt32] = []
    /// The channel that each waiting call waits for, so that a call that is cancelled is removed without a search.
    private var waitingCalls: [WaiterID: ChannelID] = [:]
    private var lastSerial: UInt32 = 0

    /// The channels, oldest slot first.
    var ids: [ChannelID] { self.slots.compactMap { $0?.id } }
    var records: [ChannelRecord] { self.slots.compactMap { $0 } }
    var names: [String] { self.slots.compactMap { $0?.name } }

    @inline(__always)
    func id(named name: String) -> ChannelID? { self.idsByName[ByteString(name)] }

    /// Returns the ID of a channel, trying an earlier ID of the channel before its name.
    @inline(__always)
    func id(_ id: ChannelID, named name: String) -> ChannelID? { self.contains(id) ? id : self.idsByName[ByteString(name)] }

    @inline(__always)
    private func contains(_ id: ChannelID) -> Bool { Int(id.slot) < self.slots.count && self.slots[Int(id.slot)]?.id == id }

    /// Accesses a record in place, for example with `channels[id]?.members.add(member)`. An assignment of `nil` has no effect; use
    /// ``remove(_:)``.
    subscript(id: ChannelID) -> ChannelRecord? {
        @inline(__always) get { self.contains(id) ? self.slots[Int(id.slot)] : nil }
        @inline(__always) _modify {
            guard self.contains(id) else {
                var none: ChannelRecord?
                yield &none
                return
            }
            yield &self.slots[Int(id.slot)]
        }
    }

    /// Returns the state of a channel without copying its record.
    @inline(__always)
    func state(of id: ChannelID) -> PusherChannelStateMachine.State? {
        self.contains(id) ? self.slots[Int(id.slot)]?.machine.state : nil
    }

    /// Returns the kind of a channel without copying its record.
    @inline(__always)
    func kind(of id: ChannelID) -> PusherChannelKind? { self.contains(id) ? self.slots[Int(id.slot)]?.kind : nil }

    subscript(name: String) -> ChannelRecord? { self.idsByName[ByteString(name)].flatMap { self[$0] } }

    /// Adds a channel that the table does not contain.
    mutating func add(_ name: String) -> ChannelID {
        self.lastSerial &+= 1
        let slot = self.freeSlots.popLast() ?? UInt32(self.slots.count)
        let id = ChannelID(slot: slot, serial: self.lastSerial)
        let record = ChannelRecord(id, name)
        if Int(slot) == self.slots.count { self.slots.append(record) } else { self.slots[Int(slot)] = record }
        self.idsByName[ByteString(name)] = id
        return id
    }

    /// Removes a channel. Call ``takeWaiters(of:)`` before.
    mutating func remove(_ name: String) -> ChannelRecord? {
        guard let id = self.idsByName.removeValue(forKey: ByteString(name)) else { return nil }
        self.freeSlots.append(id.slot)
        return self.slots[Int(id.slot)].take()
    }

    // MARK: Waiting calls

    var waiterCount: Int { self.waitingCalls.count }

    mutating func addWaiter(_ waiter: WaiterID, to id: ChannelID) {
        guard self.contains(id) else { return }
        self[id]?.waiters.insert(waiter)
        self.waitingCalls[waiter] = id
    }

    /// Returns the name of the channel that a call waits for, if it waits for one.
    func name(awaitedBy waiter: WaiterID) -> String? { self.waitingCalls[waiter].flatMap { self[$0]?.name } }

    /// Removes a call, if it waits for a channel.
    mutating func removeWaiter(_ waiter: WaiterID) {
        guard let id = self.waitingCalls.take(waiter) else { return }
        self[id]?.waiters.remove(waiter)
    }

    /// Removes the calls that wait for a channel, and returns them in the order in which they began to wait.
    mutating func takeWaiters(of id: ChannelID) -> [WaiterID] {
        guard !self.waitingCalls.isEmpty, let waiters = self[id]?.waiters.takeAll() else { return [] }
        for waiter in waiters { _ = self.waitingCalls.take(waiter) }
        return waiters
    }
}

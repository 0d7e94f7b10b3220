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

/// A channel, as the parts of a session refer to it.
struct NamedChannel: Hashable, Sendable {
    let id: ChannelID
    let name: String
    let kind: PusherChannelKind
}

/// A channel that the client is subscribed or subscribing to.
struct ChannelRecord: Sendable {
    let id: ChannelID
    let name: String
    let kind: PusherChannelKind
    /// The number of failures in a row, which determines the delay of the next retry.
    var failures: UInt16 = 0
    var subscription = ChannelSubscription()
    var members = PusherMembers()
    /// This client's user on a presence channel, from the authorization.
    var userID: String?
    /// The number of subscribed connections, as the server reported it last.
    var subscriptionCount: Int?
    var consumers = Consumers()
    /// Changed by ``ChannelTable``.
    fileprivate var waiters = WaitingCalls()

    /// The consumers of a channel's updates apart from events.
    struct Consumers: Sendable {
        var states = EventRoutes.none
        var memberChanges = EventRoutes.none
        var memberLists = EventRoutes.none
        var counts = EventRoutes.none

        var all: [EventRoute] { [self.states, self.memberChanges, self.memberLists, self.counts] }
    }

    init(_ id: ChannelID, _ name: String) {
        self.id = id
        self.name = name
        self.kind = ChannelName.kind(of: name)
    }

    var channel: NamedChannel { NamedChannel(id: self.id, name: self.name, kind: self.kind) }
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
        self.contains(id) ? self.slots[Int(id.slot)]?.subscription.state : nil
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

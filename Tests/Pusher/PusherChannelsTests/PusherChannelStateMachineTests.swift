@testable import PusherChannels
import RealtimeCore
import TestSupport
import Testing

/// Every state of a subscription with every input.
@Suite struct PusherChannelStateMachineTests {
    typealias State = PusherChannelStateMachine.State

    enum Input: CaseIterable, Sendable {
        case begin, beginWithAuthorization, authorized, authorizedByAnother, succeeded, failed, presumedFailed, connectionLost, unsubscribe
    }

    enum Output: Hashable, Sendable {
        case none, authorize(WorkID), subscribe, accepted, publish, publishAndCancel(WorkID), cancel(WorkID), send
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let from: State
        let input: Input
        let output: Output
        let to: State

        init(_ from: State, _ input: Input, _ output: Output, _ to: State) {
            (self.from, self.input, self.output, self.to) = (from, input, output, to)
        }

        var testDescription: String { "\(self.input) in \(self.from)" }
    }

    private static let running = WorkID(rawValue: 1), next = WorkID(rawValue: 2)
    private static let earlier = PusherError(.timedOut, "earlier"), rejected = PusherError(.subscriptionRejected, "rejected")
    private static let states: [State] = [
        .waiting, .authorizing(running), .subscribing, .subscribed, .failed(earlier), .presumedFailed(earlier),
    ]

    static let table: [Row] = [
        Row(.waiting, .begin, .subscribe, .subscribing),
        Row(.waiting, .beginWithAuthorization, .authorize(next), .authorizing(next)),
        Row(.waiting, .authorized, .none, .waiting),
        Row(.waiting, .authorizedByAnother, .none, .waiting),
        Row(.waiting, .succeeded, .none, .waiting),
        Row(.waiting, .failed, .none, .waiting),
        Row(.waiting, .presumedFailed, .none, .waiting),
        Row(.waiting, .connectionLost, .none, .waiting),
        Row(.waiting, .unsubscribe, .none, .waiting),

        Row(.authorizing(running), .begin, .none, .authorizing(running)),
        Row(.authorizing(running), .beginWithAuthorization, .none, .authorizing(running)),
        Row(.authorizing(running), .authorized, .accepted, .subscribing),
        Row(.authorizing(running), .authorizedByAnother, .none, .authorizing(running)),
        Row(.authorizing(running), .succeeded, .none, .authorizing(running)),
        Row(.authorizing(running), .failed, .publishAndCancel(running), .failed(rejected)),
        Row(.authorizing(running), .presumedFailed, .publishAndCancel(running), .failed(rejected)),
        Row(.authorizing(running), .connectionLost, .cancel(running), .waiting),
        Row(.authorizing(running), .unsubscribe, .cancel(running), .authorizing(running)),

        Row(.subscribing, .begin, .none, .subscribing),
        Row(.subscribing, .beginWithAuthorization, .none, .subscribing),
        Row(.subscribing, .authorized, .none, .subscribing),
        Row(.subscribing, .authorizedByAnother, .none, .subscribing),
        Row(.subscribing, .succeeded, .accepted, .subscribed),
        Row(.subscribing, .failed, .publish, .failed(rejected)),
        Row(.subscribing, .presumedFailed, .publish, .presumedFailed(rejected)),
        Row(.subscribing, .connectionLost, .none, .waiting),
        Row(.subscribing, .unsubscribe, .send, .subscribing),

        Row(.subscribed, .begin, .none, .subscribed),
        Row(.subscribed, .beginWithAuthorization, .none, .subscribed),
        Row(.subscribed, .authorized, .none, .subscribed),
        Row(.subscribed, .authorizedByAnother, .none, .subscribed),
        Row(.subscribed, .succeeded, .none, .subscribed),
        Row(.subscribed, .failed, .publish, .failed(rejected)),
        Row(.subscribed, .presumedFailed, .publish, .failed(rejected)),
        Row(.subscribed, .connectionLost, .publish, .waiting),
        Row(.subscribed, .unsubscribe, .send, .subscribed),

        Row(.failed(earlier), .begin, .subscribe, .subscribing),
        Row(.failed(earlier), .beginWithAuthorization, .authorize(next), .authorizing(next)),
        Row(.failed(earlier), .authorized, .none, .failed(earlier)),
        Row(.failed(earlier), .authorizedByAnother, .none, .failed(earlier)),
        Row(.failed(earlier), .succeeded, .none, .failed(earlier)),
        Row(.failed(earlier), .failed, .none, .failed(earlier)),
        Row(.failed(earlier), .presumedFailed, .none, .failed(earlier)),
        Row(.failed(earlier), .connectionLost, .publish, .waiting),
        Row(.failed(earlier), .unsubscribe, .none, .failed(earlier)),

        Row(.presumedFailed(earlier), .begin, .subscribe, .subscribing),
        Row(.presumedFailed(earlier), .beginWithAuthorization, .authorize(next), .authorizing(next)),
        Row(.presumedFailed(earlier), .authorized, .none, .presumedFailed(earlier)),
        Row(.presumedFailed(earlier), .authorizedByAnother, .none, .presumedFailed(earlier)),
        Row(.presumedFailed(earlier), .succeeded, .accepted, .subscribed),
        Row(.presumedFailed(earlier), .failed, .none, .failed(earlier)),
        Row(.presumedFailed(earlier), .presumedFailed, .none, .presumedFailed(earlier)),
        Row(.presumedFailed(earlier), .connectionLost, .publish, .waiting),
        Row(.presumedFailed(earlier), .unsubscribe, .send, .presumedFailed(earlier)),
    ]

    private func machine(in state: State) -> PusherChannelStateMachine {
        var machine = PusherChannelStateMachine()
        switch state {
        case .waiting: break
        case .authorizing(let work): _ = machine.begin(authorizing: work)
        case .subscribing: _ = machine.begin(authorizing: nil)
        case .subscribed:
            _ = machine.begin(authorizing: nil)
            _ = machine.succeeded()
        case .failed(let error):
            _ = machine.begin(authorizing: nil)
            _ = machine.failed(error)
        case .presumedFailed(let error):
            _ = machine.begin(authorizing: nil)
            _ = machine.failed(error, isPresumed: true)
        }
        return machine
    }

    private func apply(_ input: Input, to machine: inout PusherChannelStateMachine) -> Output {
        switch input {
        case .begin, .beginWithAuthorization:
            switch machine.begin(authorizing: input == .begin ? nil : Self.next) {
            case .none: .none
            case .authorize(let work): .authorize(work)
            case .subscribe: .subscribe
            }
        case .authorized: machine.authorized(Self.running) ? .accepted : .none
        case .authorizedByAnother: machine.authorized(WorkID(rawValue: 9)) ? .accepted : .none
        case .succeeded: machine.succeeded() ? .accepted : .none
        case .failed, .presumedFailed:
            switch machine.failed(Self.rejected, isPresumed: input == .presumedFailed) {
            case .none: .none
            case .publish: .publish
            case .publishAndCancel(let work): .publishAndCancel(work)
            }
        case .connectionLost:
            switch machine.connectionLost() {
            case .none: .none
            case .publish: .publish
            case .cancel(let work): .cancel(work)
            }
        case .unsubscribe:
            switch machine.unsubscribe() {
            case .none: .none
            case .send: .send
            case .cancel(let work): .cancel(work)
            }
        }
    }

    @Test func `the table contains every state with every input once`() {
        let pairs = Self.table.map { "\($0.from) \($0.input)" }
        expectEqual(Set(pairs).count, pairs.count)
        expectEqual(pairs.count, Self.states.count * Input.allCases.count)
    }

    @Test(arguments: table)
    func `every input has the output and the next state in the table`(row: Row) {
        var machine = self.machine(in: row.from)
        expectEqual(machine.state, row.from)
        expectEqual(self.apply(row.input, to: &machine), row.output)
        expectEqual(machine.state, row.to)
    }

    @Test func `every state has the expected properties`() {
        let machines = Self.states.map(self.machine)
        expectEqual(machines.map(\.publicState), [.pending, .pending, .pending, .subscribed, .failed(Self.earlier), .failed(Self.earlier)])
        expectEqual(machines.map(\.canBegin), [true, false, false, false, true, true])
        expectEqual(machines.map(\.isKnownToServer), [false, false, true, true, false, true])
    }
}

/// A queue of authorizations with the numbers of their work.
struct NumberedAuthorizationQueue {
    private var queue = AuthorizationQueue()
    private(set) var work = PendingWork<PusherSession.Purpose>()

    var runningCount: Int { self.queue.runningCount }
    var waitingCount: Int { self.queue.waitingCount }

    mutating func start(_ channel: ChannelID, isBatched: Bool = false) -> WorkID? {
        self.queue.start(channel, isBatched: isBatched, &self.work)
    }

    mutating func finish(_ id: WorkID) -> ChannelID? { self.queue.finish(id, &self.work) }
    mutating func cancel(_ id: WorkID) -> WorkID? { self.queue.cancel(id, &self.work) }
    mutating func takeBatches() -> [AuthorizationQueue.Batch] { self.queue.takeBatches() }
    mutating func dequeue() -> ChannelID? { self.queue.dequeue() }
    mutating func remove(_ channel: ChannelID) { self.queue.remove(channel) }
    mutating func removeAllWaiting() { self.queue.removeAllWaiting() }
}

@Suite struct AuthorizationQueueTests {
    private static func channel(_ number: UInt32) -> ChannelID { ChannelID(slot: number, serial: number) }
    private static func work(_ number: UInt64) -> WorkID { WorkID(rawValue: number) }

    /// A queue whose running authorizations are those of the channels 1 to 10.
    private func fullQueue() -> NumberedAuthorizationQueue {
        var queue = NumberedAuthorizationQueue()
        for number in 1...UInt32(AuthorizationQueue.limit) { _ = queue.start(Self.channel(number)) }
        return queue
    }

    @Test func `ten authorizations run at the same time`() {
        var queue = NumberedAuthorizationQueue()
        for number in 1...10 as ClosedRange<UInt32> { expectEqual(queue.start(Self.channel(number)), Self.work(UInt64(number))) }
        expectNil(queue.start(Self.channel(11)))
        expect(queue.runningCount == 10 && queue.waitingCount == 1)
    }

    @Test func `finishing an authorization returns its channel once`() {
        var queue = self.fullQueue()
        expectEqual(queue.finish(Self.work(3)), Self.channel(3))
        expectNil(queue.finish(Self.work(3)))
        expectNil(queue.finish(Self.work(99)))
        expectEqual(queue.runningCount, 9)
    }

    @Test func `waiting channels are dequeued in order as authorizations finish`() {
        var queue = self.fullQueue()
        for number in 11...13 as ClosedRange<UInt32> { _ = queue.start(Self.channel(number)) }
        expectNil(queue.dequeue())
        _ = queue.finish(Self.work(1))
        expectEqual(queue.dequeue(), Self.channel(11))
        expectEqual(queue.start(Self.channel(11)), Self.work(11))
        expectNil(queue.dequeue())
        _ = queue.finish(Self.work(2))
        expectEqual(queue.dequeue(), Self.channel(12))
        expectEqual(queue.dequeue(), Self.channel(13))
        expect(queue.dequeue() == nil && queue.waitingCount == 0)
    }

    @Test func `a channel is enqueued once`() {
        var queue = self.fullQueue()
        for _ in 1...3 { expectNil(queue.start(Self.channel(11))) }
        expectEqual(queue.waitingCount, 1)
        _ = queue.finish(Self.work(1))
        expectEqual(queue.dequeue(), Self.channel(11))
        expectNil(queue.dequeue())
    }

    @Test func `a removed channel is skipped`() {
        var queue = self.fullQueue()
        for number in 11...13 as ClosedRange<UInt32> { _ = queue.start(Self.channel(number)) }
        queue.remove(Self.channel(11))
        queue.remove(Self.channel(5))
        _ = queue.finish(Self.work(1))
        expectEqual(queue.dequeue(), Self.channel(12))
        queue.remove(Self.channel(13))
        expect(queue.dequeue() == nil && queue.waitingCount == 0)
    }

    @Test func `all waiting channels can be removed and running ones stay`() {
        var queue = self.fullQueue()
        _ = queue.start(Self.channel(11))
        queue.removeAllWaiting()
        _ = queue.finish(Self.work(1))
        expect(queue.dequeue() == nil && queue.waitingCount == 0 && queue.runningCount == 9)
    }
}

@Suite struct ChannelTableTests {
    @Test func `a channel is found by its ID and its name`() {
        var table = ChannelTable()
        let (one, two) = (table.add("one"), table.add("two"))
        expect(table[one]?.name == "one" && table["two"]?.id == two)
        expect(table.id(named: "one") == one && table.id(named: "three") == nil)
        expect(table.ids == [one, two] && table.names == ["one", "two"])
    }

    @Test func `the ID of a removed channel does not find the next one in its slot`() {
        var table = ChannelTable()
        let old = table.add("one")
        expect(table.remove("one")?.id == old && table.remove("one") == nil)
        let new = table.add("two")
        expect(new.slot == old.slot && new != old)
        expect(table[old] == nil && table[new]?.name == "two")
        table[old]?.userID = "user"
        expectNil(table[new]?.userID)
    }

    @Test func `an outdated ID refers to the current channel with the same name`() {
        var table = ChannelTable()
        let old = table.add("one")
        _ = table.remove("one")
        expectNil(table.id(old, named: "one"))
        _ = table.add("two")
        let new = table.add("one")
        expect(table.id(old, named: "one") == new && table.id(new, named: "one") == new)
        expectEqual(table.id(.none, named: "one"), new)
    }

    @Test func `a record is mutated in place`() {
        var table = ChannelTable()
        let id = table.add("presence-one")
        table[id]?.userID = "user"
        table[id]?.failures = 2
        expect(table[id]?.userID == "user" && table["presence-one"]?.failures == 2)
    }

    @Test func `waiting calls are removed one by one or all calls of a channel together`() {
        var table = ChannelTable()
        let (one, two) = (table.add("one"), table.add("two"))
        for number in 1...4 as ClosedRange<UInt64> { table.addWaiter(WaiterID(rawValue: 5 - number), to: one) }
        table.addWaiter(WaiterID(rawValue: 5), to: two)
        table.addWaiter(WaiterID(rawValue: 6), to: .none)
        expectEqual(table.waiterCount, 5)
        for number in [2, 2, 6] as [UInt64] { table.removeWaiter(WaiterID(rawValue: number)) }
        expectEqual(table.waiterCount, 4)
        expectEqual(table.takeWaiters(of: one).map(\.rawValue), [1, 3, 4])
        expect(table.takeWaiters(of: one).isEmpty && table.takeWaiters(of: .none).isEmpty && table.waiterCount == 1)
        table.removeWaiter(WaiterID(rawValue: 5))
        expect(table.waiterCount == 0 && table.takeWaiters(of: two).isEmpty)
    }
}

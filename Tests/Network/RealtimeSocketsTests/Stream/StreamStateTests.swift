import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// The decisions of a stream, without a socket.
@Suite
struct StreamStateTests {
    private final class Session: StreamSecurity {
        func handshake() -> IOResult { .done(0) }
        func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult { .wantRead }
        func write(_ bytes: UnsafeRawBufferPointer) -> IOResult { .done(bytes.count) }
        func shutdown() -> IOResult { .done(0) }
    }

    private static func open(tls: Bool = false) -> StreamState {
        var state = StreamState()
        _ = state.connect()
        _ = state.connected(7, tls ? SecurityGate(Session()) : nil)
        if tls {
            _ = state.handshakeCompleted()
            _ = state.nextAction()
        }
        _ = state.nextAction()
        return state
    }

    private static func send(_ state: inout StreamState, _ count: Int, at now: Int64 = 0) -> String {
        state.append { $0 += [UInt8](repeating: 1, count: count) }
        return self.name(state.flush(turnLimit: 100, now: Instant(nanoseconds: now)))
    }

    private static func name(_ action: StreamState.CallerAction) -> String {
        switch action {
        case .write(let write): "write \(write.bytes.count - write.start)"
        case .requestService: "request service"
        case .requestServiceAt(let instant): "request service at \(instant.nanoseconds)"
        case .none: "none"
        }
    }

    private static func name(_ action: StreamState.LoopAction) -> String {
        switch action {
        case .write(let write): "write \(write.bytes.count - write.start)"
        case .read: "read"
        case .notifyBacklogged: "notify backlogged"
        case .notifyDrained: "notify drained"
        case .shutDownWriting(let descriptor, _): "shut down writing \(descriptor)"
        case .readRemaining: "read remaining"
        case .fail: "fail"
        case .tearDown: "tear down"
        case .poll(let interest): "poll\(interest.contains(.read) ? " read" : "")\(interest.contains(.write) ? " write" : "")"
        }
    }

    // MARK: The limit of output

    @Test func `more output than the limit may wait until the owner knows that some waits`() {
        func append(_ count: Int, _ state: inout StreamState, limit: Int) -> Bool {
            state.append(limit: limit) { $0 += [UInt8](repeating: 1, count: count) }
        }
        var state = Self.open()
        let limit = state.mark
        expect(append(2 * limit, &state, limit: limit) && append(2 * limit + 4, &state, limit: limit))
        expect(!append(1, &state, limit: limit))
        // The socket takes a part, and the loop notifies the owner.
        _ = state.flush(turnLimit: 100, now: Instant(nanoseconds: 0))
        expect(append(1, &state, limit: 2 * limit))
        _ = state.wrote(.done(1))
        expectEqual(Self.name(state.nextAction()), "notify backlogged")
        expect(!append(1, &state, limit: 2 * limit))
        expect(append(1, &state, limit: 5 * limit))
    }

    // MARK: Shared output

    /// Writes until nothing waits, at most `size` bytes each time, and returns what the socket has received.
    private static func drain(_ state: inout StreamState, _ first: StreamState.CallerAction, size: Int = .max) -> [UInt8] {
        var received: [UInt8] = []
        var action = first
        while case .write(let write) = action {
            let bytes = write.bytes[write.start...].prefix(size)
            received += bytes
            let isPartial = bytes.count < write.bytes.count - write.start
            action = state.wrote(.done(bytes.count))
            guard isPartial else { continue }
            // The socket is full, until the poller says otherwise.
            _ = state.ready(.write)
            guard case .requestService = action, case .write(let next) = state.nextAction() else { break }
            action = .write(next)
        }
        return received
    }

    @Test(arguments: [1, 3, 1_000]) func `shared bytes are sent in their order among others`(size: Int) {
        var state = Self.open()
        let (first, second) = ([UInt8](repeating: 2, count: 10), [UInt8](repeating: 4, count: 10))
        state.append { $0 += [1, 1] }
        expect(
            state.append(limit: 100, shared: first) { output in
                output.append(9)
                return true
            })
        expect(state.append(limit: 100, shared: second) { _ in true })
        state.append { $0 += [5, 5, 5] }
        expectEqual(state.bufferedBytes, 26)
        let received = Self.drain(&state, state.flush(turnLimit: 100, now: Instant(nanoseconds: 0)), size: size)
        expectEqual(received, [1, 1, 9] + first + second + [5, 5, 5])
        expect(state.bufferedBytes == 0 && state.hasSentAll)
        // What is appended while a write is under way follows.
        expect(state.append(limit: 100, shared: first) { _ in true })
        let write = state.flush(turnLimit: 100, now: Instant(nanoseconds: 1_000))
        state.append { $0 += [6] }
        expect(state.append(limit: 100, shared: second) { _ in true })
        _ = state.flush(turnLimit: 100, now: Instant(nanoseconds: 2_000))
        expectEqual(Self.drain(&state, write), first + [6] + second)
        expect(state.hasSentAll)
    }

    @Test func `shared bytes aren't copied, and count for the limit and the mark`() {
        let shared = [UInt8](repeating: 2, count: StreamState.highWater)
        func address(_ bytes: [UInt8]) -> UnsafeRawPointer? { bytes.withUnsafeBytes { $0.baseAddress } }
        var states = (0..<2).map { _ in Self.open() }
        for index in states.indices {
            expect(states[index].append(limit: shared.count, shared: shared) { _ in true })
            guard case .write(let write) = states[index].flush(turnLimit: 100, now: Instant(nanoseconds: 0)) else {
                return expect(false, "no write")
            }
            expectEqual(address(write.bytes), address(shared))
            expect(states[index].append(limit: 4 * shared.count, shared: shared) { _ in true })
            expect(states[index].bufferedBytes == 2 * shared.count)
            _ = states[index].wrote(.done(1))
            expectEqual(Self.name(states[index].nextAction()), "notify backlogged")
            expect(!states[index].append(limit: shared.count, shared: shared) { _ in true })
            // A closed owner appends nothing.
            expect(states[index].append(limit: .max, shared: shared) { _ in false })
            expectEqual(states[index].bufferedBytes, 2 * shared.count - 1)
            _ = states[index].close()
            expect(states[index].append(limit: 0, shared: shared) { _ in true } && states[index].bufferedBytes == 0)
        }
    }

    // MARK: Tables of transitions

    /// One call and what it returns, as text.
    enum Step: Sendable {
        case connect, connected(tls: Bool = false), handshakeBlocked(Readiness), handshakeCompleted
        case append(Int), send(Int), wrote(IOResult), finish, close, fail, awaitDrain
        case pause(StreamState.PauseReasons = .owner), resume(StreamState.PauseReasons = .owner)
        case ready(Readiness), readBegins, received, readsOn(isBudgetSpent: Bool, isFinal: Bool = false), readBlockedUntilWritable
        case inputEnded(TransportError? = nil), keepInput, turnBegan
        case next, takeDescriptor

        func apply(to state: inout StreamState) -> String {
            switch self {
            case .connect: return "\(state.connect())"
            case .connected(let tls): return "\(state.connected(7, tls ? SecurityGate(Session()) : nil))"
            case .handshakeBlocked(let readiness):
                state.handshakeBlocked(until: readiness)
                return ""
            case .handshakeCompleted: return "\(state.handshakeCompleted())"
            case .append(let count):
                state.append { $0 += [UInt8](repeating: 1, count: count) }
                return ""
            case .send(let count): return StreamStateTests.send(&state, count)
            case .wrote(let result): return StreamStateTests.name(state.wrote(result))
            case .finish: return StreamStateTests.name(state.finish())
            case .close: return StreamStateTests.name(state.close())
            case .fail: return "\(state.fail())"
            case .awaitDrain: return "\(state.awaitDrain())"
            case .pause(let reason):
                state.pauseInput(reason)
                return ""
            case .resume(let reason): return StreamStateTests.name(state.resumeInput(reason))
            case .keepInput:
                state.keepInput()
                return ""
            case .turnBegan:
                state.turnBegan()
                return ""
            case .ready(let readiness): return "\(state.ready(readiness))"
            case .readBegins:
                state.readBegins()
                return ""
            case .received: return "\(state.received())"
            case .readsOn(let isBudgetSpent, let isFinal):
                return "\(state.readsOn(isBudgetSpent: isBudgetSpent, isFinal: isFinal))"
            case .readBlockedUntilWritable:
                state.readBlockedUntilWritable()
                return ""
            case .inputEnded(let error):
                switch state.inputEnded(error) {
                case .deferred: return "deferred"
                case .failed(let error): return "failed \(error.code)"
                case .ended: return "ended"
                case .none: return "none"
                }
            case .next: return StreamStateTests.name(state.nextAction())
            case .takeDescriptor: return state.takeDescriptor().map { "\($0.0)\($0.1 == nil ? "" : " with close_notify")" } ?? "none"
            }
        }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// The state to begin with: new, open, or open with TLS.
        var start: Start
        var steps: [(Step, String)]

        enum Start: Sendable { case new, plain, tls }

        init(_ name: String, _ start: Start, _ steps: [(Step, String)]) {
            (self.testDescription, self.start, self.steps) = (name, start, steps)
        }
    }

    private static let lost = IOResult.failed(.lost(32))
    private static let truncated = TransportError(.closed, "no close_notify")
    private static let over = StreamState.highWater + 1

    static let stages: [Row] = [
        Row("idle: nothing to poll", .new, [(.next, "poll"), (.takeDescriptor, "none")]),
        Row("idle: connects once", .new, [(.connect, "true"), (.connect, "false"), (.next, "poll")]),
        Row("idle: closed before it connects", .new, [(.close, "request service"), (.connect, "false"), (.next, "tear down")]),
        Row(
            "connecting: keeps what is sent", .new, [(.connect, "true"), (.send(10), "none"), (.connected(), "true"), (.next, "write 10")]),
        Row("connecting: closed meanwhile", .new, [(.connect, "true"), (.close, "request service"), (.connected(), "false")]),
        Row("connecting: fails once", .new, [(.connect, "true"), (.fail, "true"), (.fail, "false"), (.next, "tear down")]),
        Row(
            "handshaking: polls for what TLS waits for, and reads when it is complete", .new,
            [
                (.connect, "true"), (.connected(tls: true), "true"), (.send(10), "none"), (.next, "poll read"),
                (.handshakeBlocked(.write), ""), (.next, "poll write"), (.handshakeCompleted, "true"), (.next, "write 10"),
                (.wrote(.done(10)), "none"), (.next, "read"), (.next, "poll read"),
            ]),
        Row(
            "handshaking: closed meanwhile sends no close_notify", .new,
            [
                (.connect, "true"), (.connected(tls: true), "true"), (.close, "request service"), (.handshakeCompleted, "false"),
                (.takeDescriptor, "7"), (.takeDescriptor, "none"),
            ]),
        Row("open: close sends close_notify", .tls, [(.close, "request service"), (.takeDescriptor, "7 with close_notify")]),
        Row("open: an error sends no close_notify", .tls, [(.fail, "true"), (.takeDescriptor, "7")]),
        Row(
            "closed: nothing has an effect", .plain,
            [
                (.close, "request service"), (.close, "none"), (.send(1), "none"), (.finish, "none"), (.pause(), ""), (.resume(), "none"),
                (.received, "false"), (.ready(.read), "false"), (.inputEnded(), "none"), (.fail, "false"), (.next, "tear down"),
            ]),
    ]

    static let inputs: [Row] = [
        Row("waiting: reads when it is readable", .plain, [(.ready(.read), "true"), (.ready(.write), "false"), (.next, "poll read")]),
        Row(
            "waiting: a plain socket is read until the budget is spent", .plain,
            [(.readsOn(isBudgetSpent: false), "readAgain"), (.readsOn(isBudgetSpent: true), "stop"), (.next, "poll read")]),
        Row(
            "waiting: TLS is read again in the next turn after the budget is spent", .tls,
            [
                (.readsOn(isBudgetSpent: true), "yield"), (.next, "poll read"), (.ready(.read), "false"), (.next, "poll read"),
                (.turnBegan, ""), (.next, "read"), (.next, "poll read"),
            ]),
        Row(
            "waiting: a lost connection is read again in the next turn after the budget is spent", .plain,
            [
                (.send(10), "write 10"), (.wrote(lost), "request service"), (.next, "read remaining"),
                (.readsOn(isBudgetSpent: true, isFinal: true), "yield"), (.next, "poll"), (.turnBegan, ""), (.next, "read remaining"),
            ]),
        Row(
            "unread: kept bytes are delivered in the next turn, without reading the socket before", .plain,
            [
                (.keepInput, ""), (.next, "poll read"), (.ready(.read), "false"), (.turnBegan, ""), (.next, "read"), (.readBegins, ""),
                (.readsOn(isBudgetSpent: true), "stop"), (.next, "poll read"), (.ready(.read), "true"),
            ]),
        Row(
            "unread: kept bytes wait while reading is paused", .plain,
            [
                (.keepInput, ""), (.pause(), ""), (.next, "poll"), (.turnBegan, ""), (.next, "poll"), (.resume(), "request service"),
                (.next, "read"),
            ]),
        Row(
            "unread: resuming does not read again in the turn whose budget is spent", .tls,
            [
                (.readsOn(isBudgetSpent: true), "yield"), (.pause(), ""), (.resume(), "none"), (.next, "poll read"), (.turnBegan, ""),
                (.next, "read"),
            ]),
        Row(
            "waiting: TLS that has to write", .tls,
            [
                (.readBlockedUntilWritable, ""), (.next, "poll write"), (.ready(.read), "false"), (.ready(.write), "true"),
                (.readBegins, ""),
                (.next, "poll read"),
            ]),
        Row(
            "unread: an event of the poller reads as well", .tls,
            [
                (.readsOn(isBudgetSpent: true), "yield"), (.turnBegan, ""), (.ready(.read), "true"), (.readBegins, ""),
                (.next, "poll read"),
            ]),
        Row(
            "paused: is not disarmed until the loop polls", .plain,
            [(.pause(), ""), (.ready(.read), "false"), (.resume(), "none"), (.next, "poll read")]),
        Row(
            "paused: disarmed, resuming requests service", .plain,
            [(.pause(), ""), (.next, "poll"), (.resume(), "request service"), (.next, "poll read")]),
        Row(
            "paused: pausing and resuming twice", .plain,
            [(.pause(), ""), (.next, "poll"), (.pause(), ""), (.resume(), "request service"), (.resume(), "none")]),
        Row(
            "paused: during a read from TLS", .tls,
            [(.pause(), ""), (.readsOn(isBudgetSpent: false), "stop"), (.resume(), "none"), (.next, "read"), (.next, "poll read")]),
        Row(
            "paused: TLS that had to write", .tls,
            [(.readBlockedUntilWritable, ""), (.pause(), ""), (.next, "poll"), (.resume(), "request service"), (.next, "read")]),
        Row(
            "paused: for two reasons", .plain,
            [
                (.pause(.answers), ""), (.pause(.owner), ""), (.next, "poll"), (.resume(.answers), "none"),
                (.resume(.owner), "request service"), (.pause(.answers), ""), (.next, "poll"), (.resume(.owner), "none"),
                (.pause(.owner), ""), (.resume(.all), "request service"), (.next, "poll read"),
            ]),
        Row(
            "paused: before the connection is open", .new,
            [
                (.pause(), ""), (.connect, "true"), (.connected(), "true"), (.next, "poll"), (.resume(), "request service"),
                (.next, "poll read"),
            ]),
        Row(
            "paused: before the TLS handshake is complete", .new,
            [
                (.pause(), ""), (.connect, "true"), (.connected(tls: true), "true"), (.next, "poll read"), (.handshakeCompleted, "true"),
                (.next, "poll"), (.resume(), "request service"), (.next, "read"),
            ]),
        Row(
            "ended: is final", .plain,
            [(.inputEnded(), "ended"), (.pause(), ""), (.resume(), "none"), (.ready(.read), "false"), (.next, "poll")]),
        Row("ended: TLS without close_notify is an error", .tls, [(.inputEnded(truncated), "failed closed")]),
        Row(
            "end pending: a write that succeeds leaves the end as it is", .plain,
            [
                (.send(10), "write 10"), (.inputEnded(), "deferred"), (.next, "poll read"), (.wrote(.done(10)), "request service"),
                (.next, "read"), (.inputEnded(), "ended"),
            ]),
        Row(
            "end pending: a write that fails is the reason of the end", .plain,
            [
                (.send(10), "write 10"), (.inputEnded(), "deferred"), (.wrote(lost), "request service"), (.next, "read remaining"),
                (.inputEnded(), "failed reset"),
            ]),
        Row(
            "end pending: paused and resumed", .plain,
            [
                (.send(10), "write 10"), (.inputEnded(), "deferred"), (.pause(), ""), (.wrote(.done(10)), "none"), (.resume(), "none"),
                (.next, "poll read"),
            ]),
    ]

    static let outputs: [Row] = [
        Row(
            "open: another thread writes", .plain,
            [
                (.send(10), "write 10"), (.send(20), "none"), (.next, "poll read"), (.wrote(.done(10)), "write 20"),
                (.wrote(.done(20)), "none"),
            ]),
        Row(
            "open: a plain socket is full after a short write", .plain,
            [
                (.send(10), "write 10"), (.wrote(.done(4)), "request service"), (.next, "poll read write"), (.ready(.read), "true"),
                (.next, "poll read write"), (.ready(.write), "false"), (.next, "write 6"),
            ]),
        Row(
            "open: TLS continues after a short write", .tls,
            [(.send(10), "write 10"), (.wrote(.done(4)), "write 6"), (.wrote(.done(6)), "none")]),
        Row(
            "blocked: TLS has to read", .tls,
            [
                (.send(10), "write 10"), (.wrote(.wantRead), "request service"), (.next, "poll read"), (.ready(.read), "true"),
                (.next, "write 10"),
            ]),
        Row(
            "blocked: what is sent follows", .plain,
            [
                (.send(10), "write 10"), (.wrote(.wantWrite), "request service"), (.send(5), "none"), (.ready(.write), "false"),
                (.next, "write 10"), (.wrote(.done(10)), "write 5"),
            ]),
        Row(
            "blocked: appended without a flush stays", .plain,
            [
                (.send(10), "write 10"), (.wrote(.wantWrite), "request service"), (.append(5), ""), (.ready(.write), "false"),
                (.next, "write 10"), (.wrote(.done(10)), "write 5"),
            ]),
        Row(
            "finishing: during a write", .plain,
            [
                (.send(10), "write 10"), (.finish, "request service"), (.next, "poll read"), (.wrote(.done(10)), "request service"),
                (.next, "shut down writing 7"), (.next, "poll read"),
            ]),
        Row(
            "finishing: blocked", .plain,
            [
                (.send(10), "write 10"), (.wrote(.done(4)), "request service"), (.finish, "none"), (.next, "poll read write"),
                (.ready(.write), "false"), (.next, "write 6"), (.wrote(.done(6)), "request service"), (.next, "shut down writing 7"),
            ]),
        Row(
            "finishing: twice, and nothing is accepted after it", .plain,
            [
                (.append(3), ""), (.finish, "request service"), (.finish, "none"), (.append(1), ""), (.next, "write 3"),
                (.wrote(.done(3)), "request service"), (.next, "shut down writing 7"), (.finish, "none"), (.send(1), "none"),
            ]),
        Row(
            "finishing: a write that fails", .plain,
            [(.send(10), "write 10"), (.finish, "request service"), (.wrote(lost), "none"), (.next, "read remaining")]),
        Row(
            "finished: TLS has sent its close_notify", .tls,
            [(.finish, "request service"), (.next, "shut down writing 7"), (.close, "request service"), (.takeDescriptor, "7")]),
        Row(
            "finished: closes when the peer has ended too", .plain,
            [(.finish, "request service"), (.next, "shut down writing 7"), (.inputEnded(), "ended"), (.next, "tear down")]),
        Row(
            "finished: the peer ended first", .plain,
            [(.inputEnded(), "ended"), (.next, "poll"), (.finish, "request service"), (.next, "shut down writing 7"), (.next, "tear down")]),
        Row(
            "failed: the end of a write counts as a failure", .plain,
            [(.send(10), "write 10"), (.wrote(.closed), "request service"), (.send(1), "none"), (.next, "read remaining")]),
        Row(
            "failed: reading is paused", .plain,
            [(.pause(), ""), (.send(10), "write 10"), (.wrote(lost), "request service"), (.next, "fail")]),
        Row(
            "failed: the peer has ended", .plain,
            [(.inputEnded(), "ended"), (.send(10), "write 10"), (.wrote(lost), "request service"), (.next, "fail")]),
        Row(
            "failed: TLS sends no close_notify", .tls,
            [(.send(10), "write 10"), (.wrote(lost), "request service"), (.close, "none"), (.takeDescriptor, "7")]),
        Row(
            "closed during a write: the descriptor stays open until it returns", .tls,
            [
                (.send(10), "write 10"), (.close, "request service"), (.next, "tear down"), (.takeDescriptor, "none"),
                (.wrote(.done(10)), "request service"), (.takeDescriptor, "7 with close_notify"),
            ]),
        Row(
            "closed during a write that fails: no close_notify", .tls,
            [(.send(10), "write 10"), (.close, "request service"), (.wrote(lost), "none"), (.takeDescriptor, "7")]),
        Row(
            "backlog: drained is notified once", .plain,
            [(.send(over), "write \(over)"), (.wrote(.done(over)), "request service"), (.next, "notify drained"), (.next, "poll read")]),
        Row(
            "backlog: drained is notified below the mark if it is awaited", .plain,
            [
                (.awaitDrain, "false"), (.send(10), "write 10"), (.wrote(.done(5)), "request service"), (.awaitDrain, "true"),
                (.next, "poll read write"), (.ready(.write), "false"), (.next, "write 5"), (.wrote(.done(5)), "request service"),
                (.next, "notify drained"), (.next, "poll read"),
            ]),
        Row(
            "backlog: exceeded again before it was notified", .plain,
            [
                (.send(over), "write \(over)"), (.wrote(.done(over)), "request service"), (.append(over), ""), (.next, "poll read"),
                (.send(1), "write \(over + 1)"), (.wrote(.done(over + 1)), "request service"), (.next, "notify drained"),
                (.next, "poll read"),
            ]),
        Row(
            "backlog: above the mark with a full socket", .plain,
            [
                (.send(over + 10), "write \(over + 10)"), (.wrote(.done(5)), "request service"), (.next, "notify backlogged"),
                (.send(10), "none"), (.next, "poll read write"), (.ready(.write), "false"), (.next, "write \(over + 5)"),
                (.wrote(.done(over + 5)), "write 10"), (.wrote(.done(10)), "request service"), (.next, "notify drained"),
                (.next, "poll read"),
            ]),
        Row(
            "backlog: exceeds the mark while the socket is full", .plain,
            [
                (.send(10), "write 10"), (.wrote(.done(5)), "request service"), (.next, "poll read write"), (.send(100), "none"),
                (.send(over), "request service"), (.send(1), "none"), (.next, "notify backlogged"), (.next, "poll read write"),
                (.send(1), "none"),
            ]),
        Row(
            "backlog: drained comes before the end", .plain,
            [
                (.send(over), "write \(over)"), (.finish, "request service"), (.wrote(.done(over)), "none"), (.next, "notify drained"),
                (.next, "shut down writing 7"),
            ]),
    ]

    @Test(arguments: stages + inputs + outputs)
    func `every call has the result in the table`(_ row: Row) {
        var state =
            switch row.start {
            case .new: StreamState()
            case .plain: Self.open()
            case .tls: Self.open(tls: true)
            }
        for (index, (step, expected)) in row.steps.enumerated() {
            let result = step.apply(to: &state)
            expectEqual(result, expected, "step \(index), \(step)")
        }
    }

    @Test func `the state of a stream is small`() {
        expect(MemoryLayout<StreamState>.size <= 80, "\(MemoryLayout<StreamState>.size)")
    }

    // MARK: Gathering

    @Test func `the first send is written immediately and the next ones are gathered`() {
        var state = Self.open()
        expectEqual(Self.send(&state, 10), "write 10")
        expectEqual(Self.name(state.wrote(.done(10))), "none")
        expectEqual(Self.send(&state, 20, at: 99), "request service")
        expectEqual(Self.send(&state, 30, at: 500), "none")
        expectEqual(Self.name(state.nextAction()), "write 50")
        expectEqual(Self.name(state.wrote(.done(50))), "none")
        expectEqual(Self.name(state.nextAction()), "poll read")
        expectEqual(Self.send(&state, 1), "write 1")
    }

    @Test func `a turn ends when its time limit passes or bytes are received`() {
        var state = Self.open()
        expectEqual(Self.send(&state, 10), "write 10")
        _ = state.wrote(.done(10))
        expectEqual(Self.send(&state, 10, at: 100), "write 10")
        _ = state.wrote(.done(10))
        expectEqual(state.received(), true)
        expectEqual(Self.send(&state, 10, at: 101), "write 10")
    }

    /// Sends one message that is written directly and `count` messages that are gathered, which the loop then writes.
    private static func turn(_ state: inout StreamState, gathering count: Int, at now: Int64) -> [String] {
        var actions = [self.send(&state, 10, at: now)]
        _ = state.wrote(.done(10))
        for _ in 0..<count { actions.append(self.send(&state, 10, at: now + 1)) }
        if case .write(let write) = state.nextAction() {
            actions.append("loop writes \(write.bytes.count)")
            _ = state.wrote(.done(write.bytes.count))
        }
        return actions
    }

    @Test func `a sender of bursts gathers until the turn ends`() {
        let none = Array(repeating: "none", count: 62)
        var state = Self.open()
        expectEqual(Self.turn(&state, gathering: 63, at: 0), ["write 10", "request service"] + none + ["loop writes 630"])
        expectEqual(Self.turn(&state, gathering: 63, at: 1000), ["write 10", "request service at 1100"] + none + ["loop writes 630"])
        expectEqual(Self.turn(&state, gathering: 63, at: 2000), ["write 10", "request service at 2100"] + none + ["loop writes 630"])
    }

    @Test(arguments: [1, 7])
    func `a few sends request service immediately`(_ few: Int) {
        let none = Array(repeating: "none", count: few - 1)
        var state = Self.open()
        expectEqual(Self.turn(&state, gathering: few, at: 0)[1], "request service")
        expectEqual(Self.turn(&state, gathering: few, at: 1000), ["write 10", "request service"] + none + ["loop writes \(few * 10)"])
    }

    @Test func `a turn without a burst ends the delayed gathering of bursts`() {
        var state = Self.open()
        _ = Self.turn(&state, gathering: 8, at: 0)
        expectEqual(Self.turn(&state, gathering: 1, at: 1000)[1], "request service at 1100")
        expectEqual(Self.turn(&state, gathering: 1, at: 2000)[1], "request service")
    }

    @Test func `finishing does not wait for the end of the turn`() {
        var state = Self.open()
        _ = Self.turn(&state, gathering: 8, at: 0)
        expectEqual(Self.send(&state, 10, at: 1000), "write 10")
        _ = state.wrote(.done(10))
        expectEqual(Self.send(&state, 20, at: 1001), "request service at 1100")
        expectEqual(Self.name(state.finish()), "request service")
        expectEqual(Self.name(state.nextAction()), "write 20")
    }

    @Test func `what another thread is writing counts as sent only for the end of the use by an exchange`() {
        var state = Self.open()
        expect(state.hasSentAll && state.isSendingLast)
        expectEqual(Self.send(&state, 10), "write 10")
        expect(!state.hasSentAll && state.isSendingLast)
        expectEqual(Self.send(&state, 5), "none")
        expect(!state.isSendingLast)
        expectEqual(Self.name(state.wrote(.done(10))), "write 5")
        expect(state.isSendingLast)
        expectEqual(Self.name(state.wrote(.done(2))), "request service")
        expect(!state.hasSentAll && !state.isSendingLast)
        _ = state.close()
        expect(!state.isSendingLast)
        // The server has answered before it has read a large body.
        var large = Self.open()
        expectEqual(Self.send(&large, 20 << 10), "write 20480")
        expect(!large.isSendingLast)
    }

    @Test func `closing discards buffered bytes`() {
        var state = Self.open()
        expectEqual(Self.send(&state, 10), "write 10")
        expectEqual(Self.send(&state, 10), "none")
        _ = state.close()
        expect(state.isWriting && state.bufferedBytes == 20)
        _ = state.wrote(.done(10))
        expect(!state.isWriting && state.bufferedBytes == 0)
    }
}

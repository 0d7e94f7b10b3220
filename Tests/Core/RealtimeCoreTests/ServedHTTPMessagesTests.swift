import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Texts over HTTP: `;` ends each one.
private struct TextRules: ServedHTTPMessagesRules {
    var isStream = false
    var orphanTimeout = Duration.seconds(10)
    var pollTimeout: Duration? = .seconds(90)
    var streamLimit: Int?
    var second = HTTPSecondRequest.replaces
    var replacedStatus = 200
    var closeTimeout = Duration.seconds(5)

    func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer {
        if request.path == "/first" { return .respond(HTTPResponse(status: 200, text: "welcome")) }
        return self.isStream ? .stream(HTTPResponseHead(status: 200), first: Array("prelude;".utf8)) : .poll
    }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest { self.second }

    /// At most three messages in an answer.
    func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int {
        for message in messages.prefix(3) {
            body.append(message: message.bytes)
            body.append(UInt8(ascii: ";"))
        }
        return min(3, messages.count)
    }

    func head(of body: SharedBody) -> HTTPResponseHead { HTTPResponseHead(status: 200) }

    func ending(_ code: CloseCode, reason: String) -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: 204), body: Array("end \(code) \(reason);".utf8))
    }

    func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        for text in String(decoding: body, as: UTF8.self).split(separator: ";") {
            if text == "bad" { throw TransportError(.protocolViolation, "a bad text") }
            if text == "end" { return (HTTPResponse(status: 202), .peer(.normal, "over")) }
            batch.append(.text, text.utf8)
        }
        return (HTTPResponse(status: 200), nil)
    }

    func rejection(_ error: TransportError?) -> HTTPResponse { HTTPResponse(status: error == nil ? 404 : 400) }

    func replaced() -> HTTPResponse { HTTPResponse(status: self.replacedStatus) }

    func ended(_ reason: CloseReason?) -> HTTPResponse {
        if case .peer = reason { HTTPResponse(status: 204) } else { self.rejection(nil) }
    }
}

@Suite struct ServedHTTPMessagesTests {
    /// Records the answer to a request.
    private final class Responder: SharingResponder {
        let answers = EventRecorder<String>()
        /// Where the large pieces are in memory that were sent.
        let addresses = EventRecorder<UInt>()
        private let onDisconnect = Lock<(@Sendable () -> Void)?>(nil)
        private let onWriting = Lock<(@Sendable (Bool) -> Void)?>(nil)
        /// Whether the client reads slowly from the first byte on.
        private let isSlow: Bool

        init(isSlow: Bool = false) { self.isSlow = isSlow }

        func respond(_ response: HTTPResponse) {
            let body = String(decoding: response.body, as: UTF8.self)
            self.answers.record(body.isEmpty ? "\(response.head.status)" : "\(response.head.status) \(body)")
        }
        func respond(_ head: HTTPResponseHead, _ body: SharedBody) {
            self.recordAddresses(body)
            self.respond(HTTPResponse(head, body: Array(body.pieces.joined())))
        }
        func begin(_ head: HTTPResponseHead) { self.answers.record("begin \(head.status)") }
        func write(_ body: SharedBody) {
            self.recordAddresses(body)
            self.write(Array(body.pieces.joined()))
        }
        private func recordAddresses(_ body: SharedBody) {
            for piece in body.pieces where SharedBody.isLarge(piece) { self.addresses.record(piece.address) }
        }
        func write(_ bytes: [UInt8]) {
            self.answers.record(String(decoding: bytes, as: UTF8.self))
            if self.isSlow { self.writing(paused: true) }
        }
        func end() { self.answers.record("end") }
        func onDisconnect(_ action: @escaping @Sendable () -> Void) { self.onDisconnect.withLock { $0 = action } }
        func onWriting(_ change: @escaping @Sendable (Bool) -> Void) { self.onWriting.withLock { $0 = change } }

        func disconnect() { self.onDisconnect.withLock { $0.take() }?() }
        func writing(paused: Bool) { self.onWriting.withLock { $0 }?(paused) }
    }

    private final class Events: MessageEvents {
        let all = EventRecorder<String>()
        let react = Lock<(@Sendable (String) -> Void)?>(nil)

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.all.record("opened \(head.status)") }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            let texts = batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: " ")
            self.all.record("received " + texts)
            self.react.withLock { $0 }?(texts)
        }
        func writing(_ id: ConnectionID, paused: Bool) { self.all.record(paused ? "writing paused" : "writing resumed") }
        func closed(_ id: ConnectionID, _ reason: CloseReason) {
            if case .transport(let error) = reason { self.all.record("closed \(error.code)") } else { self.all.record("closed \(reason)") }
        }
    }

    private final class Fixture: Sendable {
        let clock = ManualClock()
        let events = Events()
        let ends = EventRecorder<Bool>()
        let connection: ServedHTTPMessages<TextRules>

        init(_ rules: TextRules = TextRules(), backlogBytes: Int = 1 << 20, isStarted: Bool = true) {
            self.connection = ServedHTTPMessages(rules, time: self.clock.time, backlogBytes: backlogBytes) { [ends] _ in ends.record(true)
            }
            if isStarted { self.connection.start(self.events) }
        }

        deinit { self.connection.abandon() }

        func wait(_ path: String = "/", isSlow: Bool = false) -> Responder {
            let responder = Responder(isSlow: isSlow)
            self.connection.wait(HTTPRequestHead(method: "GET", target: path), responder)
            return responder
        }

        @discardableResult
        func receive(_ body: String) -> Responder {
            let responder = Responder()
            self.connection.receive(HTTPRequestHead(method: "POST", target: "/"), body: Array(body.utf8), responder)
            return responder
        }

        func reserve(_ body: String) -> (id: ExchangeID, responder: Responder) {
            let responder = Responder()
            return (self.connection.reserve(responder, bodyCount: body.utf8.count), responder)
        }

        func admit(_ place: (id: ExchangeID, responder: Responder), _ body: String) {
            self.connection.receive(place.id, HTTPRequestHead(method: "POST", target: "/"), body: Array(body.utf8))
        }

        func send(_ texts: String...) {
            for text in texts { self.connection.enqueue(.text(text)) }
            self.connection.flush()
        }

        var log: [String] { self.events.all.all }
        var newest: String? { self.events.all.all.last }
        var hasEnded: Bool { self.ends.all.count == 1 && self.clock.untilNextDeadline == nil }
    }

    // MARK: Polls

    @Test func `a poll is answered with the messages that wait, in order and up to the limit of the rules`() {
        let fixture = Fixture()
        expectEqual(fixture.log, ["opened 200"])
        fixture.send("a", "b", "c", "d")
        expectEqual(fixture.wait("/first").answers.all, ["200 welcome"])
        expectEqual(fixture.wait().answers.all, ["200 a;b;c;"])
        expectEqual(fixture.wait().answers.all, ["200 d;"])
        let poll = fixture.wait()
        expect(poll.answers.all.isEmpty)
        fixture.send("e", "f")
        fixture.send("g")
        expect(poll.answers.all == ["200 e;f;"] && fixture.wait().answers.all == ["200 g;"])
    }

    @Test func `a poll without messages is answered when its time is up, and another one goes on`() {
        let fixture = Fixture()
        let poll = fixture.wait()
        fixture.clock.advance(by: .seconds(89))
        expect(poll.answers.all.isEmpty)
        fixture.clock.advance(by: .seconds(1))
        expectEqual(poll.answers.all, ["200"])
        let next = fixture.wait()
        fixture.send("a")
        expect(next.answers.all == ["200 a;"] && fixture.log == ["opened 200"])
    }

    @Test func `a client that doesn't come back in time ends the connection`() {
        let fixture = Fixture()
        let poll = fixture.wait()
        poll.disconnect()
        fixture.clock.advance(by: .seconds(9))
        let second = fixture.wait()
        fixture.clock.advance(by: .seconds(9))
        second.disconnect()
        fixture.clock.advance(by: .milliseconds(9_999))
        expectEqual(fixture.log, ["opened 200"])
        fixture.clock.advance(by: .milliseconds(1))
        expect(fixture.log == ["opened 200", "closed timedOut"] && fixture.hasEnded)
        expect(fixture.wait().answers.all == ["404"] && fixture.receive("a").answers.all == ["404"])
    }

    @Test func `a connection is unread since the end of the last request that waited, or from its beginning`() {
        let fixture = Fixture()
        func unread(_ time: Duration) -> Bool { fixture.connection.isUnread(for: time) }
        expect(unread(.seconds(3)))
        // The request that opens the connection.
        _ = fixture.wait()
        expect(!unread(.zero))
        fixture.send("opened")
        expect(unread(.seconds(3)))
        _ = fixture.wait()
        fixture.clock.advance(by: .seconds(2))
        expect(!unread(.zero) && fixture.connection.hasReader)
        fixture.send("a")
        expect(unread(.zero) && !unread(.seconds(1)) && !fixture.connection.hasReader)
        fixture.receive("b")
        fixture.clock.advance(by: .seconds(1))
        expect(unread(.seconds(1)))
    }

    @Test func `a second poll replaces the first one, is refused, or ends the connection`() {
        let replacing = Fixture()
        let (first, second) = (replacing.wait(), replacing.wait())
        expect(first.answers.all == ["200"] && second.answers.all.isEmpty)
        replacing.send("a")
        expectEqual(second.answers.all, ["200 a;"])

        let refusing = Fixture(TextRules(second: .isRefused(HTTPResponse(status: 409))))
        let (waiting, refused) = (refusing.wait(), refusing.wait())
        expectEqual(refused.answers.all, ["409"])
        // Its end isn't that of the one that waits.
        refused.disconnect()
        refusing.send("a")
        expectEqual(waiting.answers.all, ["200 a;"])

        let error = TransportError(.protocolViolation, "two polls")
        let ending = Fixture(TextRules(second: .ends(HTTPResponse(status: 400), error)))
        let (ended, other) = (ending.wait(), ending.wait())
        expect(ended.answers.all == ["404"] && other.answers.all == ["400"])
        expect(ending.newest == "closed protocolViolation" && ending.hasEnded)
    }

    @Test func `the rules decide how a replaced poll is answered`() {
        let fixture = Fixture(TextRules(replacedStatus: 204))
        let (first, second) = (fixture.wait(), fixture.wait())
        expect(first.answers.all == ["204"] && second.answers.all.isEmpty)
        fixture.send("a")
        expectEqual(second.answers.all, ["200 a;"])
    }

    @Test func `the owner answers a poll, and the next one receives what waits`() {
        let fixture = Fixture()
        fixture.connection.answerPoll(HTTPResponse(status: 500))
        let poll = fixture.wait()
        fixture.connection.answerPoll(HTTPResponse(status: 500))
        fixture.send("a")
        expect(poll.answers.all == ["500"] && fixture.wait().answers.all == ["200 a;"])
    }

    @Test func `the time for the next request begins anew after a standstill, and its end is found`() {
        let fixture = Fixture()
        fixture.send("a")
        expectEqual(fixture.wait().answers.all, ["200 a;"])
        fixture.clock.standStill(for: .seconds(60))
        fixture.clock.advance(by: .milliseconds(9_999))
        expect(fixture.log == ["opened 200"] && !fixture.hasEnded)
        // A request that waited to be read.
        fixture.send("b")
        expectEqual(fixture.wait().answers.all, ["200 b;"])
        fixture.clock.standStill(for: .seconds(60))
        fixture.clock.advance(by: .milliseconds(9_999))
        expect(fixture.log == ["opened 200"] && !fixture.hasEnded)
        fixture.clock.advance(by: .milliseconds(1))
        expect(fixture.newest == "closed timedOut" && fixture.hasEnded)
        // A busy process that stands still again finds a lost client.
        let busy = Fixture()
        _ = busy.wait()
        busy.send("a")
        for _ in 0..<2 { busy.clock.standStill(for: .seconds(60)) }
        expect(busy.newest == "closed timedOut" && busy.hasEnded, "\(busy.log)")
    }

    // MARK: Streams

    @Test func `a stream is written piece by piece, and its client's end is the connection's`() {
        let fixture = Fixture(TextRules(isStream: true, orphanTimeout: .zero))
        let stream = fixture.wait()
        fixture.send("a", "b")
        fixture.send("c")
        expectEqual(stream.answers.all, ["begin 200", "prelude;", "a;b;", "c;"])
        stream.disconnect()
        expect(fixture.log == ["opened 200", "closed closed"] && fixture.hasEnded)
    }

    @Test func `a stream ends at its limit, and the next one continues without a gap`() {
        // Without the prelude.
        let fixture = Fixture(TextRules(isStream: true, streamLimit: 8))
        let stream = fixture.wait()
        fixture.send("a", "b", "c", "d", "e")
        expectEqual(stream.answers.all, ["begin 200", "prelude;", "a;b;c;d;e;", "end"])
        fixture.send("f")
        expectEqual(fixture.wait().answers.all, ["begin 200", "prelude;", "f;"])
    }

    @Test func `a large message isn't copied for each client, and keeps its place among others`() {
        let large = TransportMessage.text(String(repeating: "x", count: SharedBody.largeSize))
        let text = String(decoding: large.bytes, as: UTF8.self)
        for isStream in [true, false] {
            for _ in 1...2 {
                let fixture = Fixture(TextRules(isStream: isStream))
                for message in [.text("a"), large, .text("b")] { fixture.connection.enqueue(message) }
                let client = fixture.wait()
                expectEqual(client.answers.all.last, (isStream ? "" : "200 ") + "a;\(text);b;")
                expectEqual(client.addresses.all, [large.bytes.address])
            }
        }
    }

    @Test func `what waits for several connections counts once, until the last one has sent it or has ended`() {
        let backlog = SharedBacklog(limit: 10_000)
        let now = Instant(nanoseconds: 0)
        var machines = (0..<3).map { _ in
            ServedHTTPMessagesMachine(TextRules(), backlogBytes: 1 << 20, sharedBacklog: backlog, now: now)
        }
        let (large, small) = (TransportMessage.binary([UInt8](repeating: 1, count: 4_000)), TransportMessage.text("small"))
        for index in machines.indices {
            for message in [large, small] { machines[index].enqueue(message) }
            _ = machines[index].flush(now: now)
            _ = machines[index].flush(now: now)
        }
        expectEqual(backlog.bytes, 4_000 + 3 * (64 + 64 + 5))
        // A poll takes them.
        _ = machines[0].wait(ExchangeID(rawValue: 1), HTTPRequestHead(method: "GET", target: "/"), now: now)
        expectEqual(backlog.bytes, 4_000 + 2 * (64 + 64 + 5))
        expectEqual(machines[1].takeUnsent()?.count, 2)
        expectEqual(backlog.bytes, 4_000 + 64 + 64 + 5)
        _ = machines[2].abandon()
        expect(backlog.bytes == 0 && !backlog.isExceeded)
    }

    @Test func `a connection ends while too much waits for all, unless its client takes messages`() {
        let backlog = SharedBacklog(limit: 5_000)
        func machine(at now: Instant) -> ServedHTTPMessagesMachine<TextRules> {
            ServedHTTPMessagesMachine(TextRules(), backlogBytes: 1 << 20, sharedBacklog: backlog, now: now)
        }
        func isEnd(_ commands: [ServedHTTPMessagesMachine<TextRules>.Command]) -> Bool {
            commands.contains { if case .closed(.transport(let error)) = $0 { error.code == .tooLarge } else { false } }
        }
        let now = Instant(nanoseconds: 0)
        func message() -> TransportMessage { .binary([UInt8](repeating: 1, count: 4_000)) }
        var (unread, read) = (machine(at: now), machine(at: now))
        let request = HTTPRequestHead(method: "GET", target: "/")
        // One client asks, and asked last at this time.
        for id: UInt64 in 1...2 { _ = read.wait(ExchangeID(rawValue: id), request, now: now) }
        read.enqueue(message())
        expect(!isEnd(read.flush(now: now)))
        unread.enqueue(message())
        expect(!isEnd(unread.flush(now: now)))
        read.enqueue(message())
        expect(!isEnd(read.flush(now: now.advanced(by: .milliseconds(999)))))
        expect(backlog.isExceeded)
        unread.enqueue(.text("a"))
        expect(isEnd(unread.flush(now: now)) && !backlog.isExceeded)
        var another = machine(at: now)
        another.enqueue(message())
        expect(isEnd(another.flush(now: now)))
        for _ in 0..<2 { read.enqueue(message()) }
        expect(isEnd(read.flush(now: now.advanced(by: .seconds(1)))) && backlog.bytes == 0)
    }

    @Test func `nothing is written to a stream whose client reads slowly, and writing pauses`() {
        let fixture = Fixture(TextRules(isStream: true))
        let stream = fixture.wait()
        stream.writing(paused: true)
        fixture.send("a")
        expect(stream.answers.all.count == 2 && fixture.newest == "writing paused")
        stream.writing(paused: false)
        expect(stream.answers.all.last == "a;" && fixture.log == ["opened 200", "writing paused", "writing resumed"])
    }

    @Test func `a client that reads slowly from the beginning is noticed`() {
        let fixture = Fixture(TextRules(isStream: true))
        fixture.send("a")
        let stream = fixture.wait(isSlow: true)
        fixture.send("b")
        expect(stream.answers.all == ["begin 200", "prelude;", "a;"] && fixture.newest == "writing paused")
        stream.writing(paused: false)
        expectEqual(stream.answers.all.last, "b;")
    }

    // MARK: Output that waits

    @Test func `writing pauses while much waits for a client, which resumes it`() {
        let fixture = Fixture()
        let large = String(repeating: "x", count: 200 << 10)
        fixture.send(large)
        expectEqual(fixture.log, ["opened 200"])
        fixture.send(large)
        expectEqual(fixture.newest, "writing paused")
        _ = fixture.wait()
        expectEqual(fixture.log, ["opened 200", "writing paused", "writing resumed"])
    }

    @Test func `a client for which too much waits is given up`() {
        // As much as the first message needs in memory.
        let fixture = Fixture(backlogBytes: 74)
        fixture.send("0123456789", "a")
        expect(fixture.log.filter { $0.hasPrefix("closed") }.isEmpty)
        fixture.send("b")
        expect(fixture.newest == "closed tooLarge" && fixture.hasEnded)
    }

    @Test func `a connection that has dropped a message at its limit takes no more, hands none over, and ends with an error`() {
        let fixture = Fixture(backlogBytes: 10)
        fixture.connection.enqueue(.text("0123456789a"))
        fixture.connection.enqueue(.text("dropped"))
        // The client takes the first message, and there is room again.
        expectEqual(fixture.wait().answers.all, ["200 0123456789a;"])
        fixture.connection.enqueue(.text("later"))
        expectNil(fixture.connection.takeUnsent())
        let poll = fixture.wait()
        expect(poll.answers.all.isEmpty)
        fixture.connection.close(.normal, reason: "")
        expect(poll.answers.all == ["404"] && fixture.newest == "closed tooLarge" && fixture.hasEnded)
        expectNil(fixture.connection.takeUnsent())
    }

    @Test func `messages that no request has taken are handed over to another connection`() {
        let fixture = Fixture()
        fixture.send("a", "b")
        expect(fixture.connection.takeUnsent() == [.text("a"), .text("b")] && fixture.connection.takeUnsent() == [])
        expect(fixture.wait().answers.all.isEmpty)
    }

    // MARK: Messages of the client

    @Test func `bodies are delivered in order, and answered`() {
        let fixture = Fixture()
        expect(fixture.receive("a;b").answers.all == ["200"] && fixture.receive("").answers.all == ["200"])
        expectEqual(fixture.receive("c").answers.all, ["200"])
        expectEqual(fixture.log, ["opened 200", "received a b", "received c"])
    }

    @Test func `requests that overtake the report of the opening are handled after it`() {
        let fixture = Fixture(isStarted: false)
        let (first, body, poll) = (fixture.wait("/first"), fixture.receive("a"), fixture.wait())
        fixture.send("b")
        expect(fixture.log == [] && first.answers.all == [] && body.answers.all == [] && poll.answers.all == [])
        fixture.connection.start(fixture.events)
        expectEqual(fixture.log, ["opened 200", "received a"])
        expect(first.answers.all == ["200 welcome"] && body.answers.all == ["200"] && poll.answers.all == ["200 b;"])
        expect(fixture.receive("c").answers.all == ["200"] && fixture.newest == "received c")
    }

    @Test func `an end that overtakes the report of the opening is reported after it`() {
        let fixture = Fixture(isStarted: false)
        fixture.receive("a;end")
        fixture.connection.start(fixture.events)
        expectEqual(fixture.log.prefix(2), ["opened 200", "received a"])
        expect(fixture.log.count == 3 && fixture.newest?.hasPrefix("closed") == true && fixture.hasEnded)
    }

    @Test func `a request is answered when it is read, after a pause`() {
        let fixture = Fixture()
        fixture.connection.pauseReading()
        let (first, second) = (fixture.receive("a"), fixture.receive("b"))
        expect(first.answers.all.isEmpty && fixture.log == ["opened 200"])
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expect(first.answers.all == ["200"] && second.answers.all == ["200"])
        expectEqual(fixture.log, ["opened 200", "received a", "received b"])
    }

    @Test func `a client that sends without end during a pause is given up`() {
        let fixture = Fixture()
        fixture.connection.pauseReading()
        let held = (0..<1_030).map { _ in fixture.receive("") }
        expect(fixture.newest == "closed tooLarge" && fixture.hasEnded)
        expect(held.allSatisfy { $0.answers.all == ["404"] || $0.answers.all == ["400"] })
    }

    @Test func `what precedes bad bytes is delivered, and the connection ends with their error`() {
        let fixture = Fixture()
        expectEqual(fixture.receive("a;bad;b").answers.all, ["400"])
        expect(fixture.log == ["opened 200", "received a", "closed protocolViolation"] && fixture.hasEnded)
    }

    @Test func `a client ends the connection with a message`() {
        let fixture = Fixture()
        let poll = fixture.wait()
        expectEqual(fixture.receive("a;end").answers.all, ["202"])
        expect(fixture.newest?.contains("over") == true && poll.answers.all == ["204"] && fixture.hasEnded)
    }

    @Test func `bodies keep the order in which their requests arrived, while the server decides about each`() {
        let fixture = Fixture()
        let (first, second, third) = (fixture.reserve("a"), fixture.reserve("b"), fixture.reserve("c"))
        let unreserved = fixture.receive("d")
        fixture.admit(third, "c")
        fixture.connection.refuse(second.id, HTTPResponse(status: 401))
        expect(second.responder.answers.all == ["401"] && fixture.log == ["opened 200"])
        fixture.admit(first, "a")
        expectEqual(fixture.log, ["opened 200", "received a", "received c", "received d"])
        for responder in [first.responder, third.responder, unreserved] { expectEqual(responder.answers.all, ["200"]) }
        expect(fixture.receive("e").answers.all == ["200"] && fixture.newest == "received e")
    }

    @Test func `a request without a decision is answered at the end, and its late decision has no effect`() {
        let fixture = Fixture()
        let (first, second) = (fixture.reserve("a"), fixture.reserve("b"))
        fixture.connection.abandon()
        fixture.admit(first, "a")
        fixture.connection.refuse(second.id, HTTPResponse(status: 401))
        expect(first.responder.answers.all == ["404"] && second.responder.answers.all == ["404"])
        expect(fixture.reserve("c").responder.answers.all == ["404"] && fixture.log == ["opened 200"])
    }

    @Test func `a client that sends without end while the server decides is given up`() {
        let fixture = Fixture()
        let places = (0..<1_030).map { _ in fixture.reserve("") }
        expect(fixture.newest == "closed tooLarge" && fixture.hasEnded)
        expect(places.allSatisfy { $0.responder.answers.all == ["404"] || $0.responder.answers.all == ["400"] })
    }

    @Test func `answers keep their order when a handler sends while messages are delivered`() {
        let fixture = Fixture()
        let poll = fixture.wait()
        fixture.events.react.withLock { react in
            react = { [weak fixture] text in fixture?.send("re: \(text)") }
        }
        fixture.receive("a")
        fixture.receive("b")
        expect(poll.answers.all == ["200 re: a;"] && fixture.wait().answers.all == ["200 re: b;"])
        fixture.events.react.withLock { $0 = nil }
    }

    // MARK: The end

    @Test func `closing sends what waits, and then the end`() {
        let polling = Fixture()
        polling.send("a")
        polling.connection.close(.goingAway, reason: "bye")
        polling.send("late")
        expect(polling.wait().answers.all == ["200 a;"] && polling.log == ["opened 200"])
        expectEqual(polling.wait().answers.all, ["204 end 1001 bye;"])
        expect(polling.log.count == 2 && polling.hasEnded)

        let streaming = Fixture(TextRules(isStream: true))
        let stream = streaming.wait()
        streaming.connection.close(.normal, reason: "")
        expect(stream.answers.all == ["begin 200", "prelude;", "end 1000 ;", "end"] && streaming.hasEnded)
    }

    @Test func `closing takes at most five seconds, and messages that arrive meanwhile are ignored`() {
        let fixture = Fixture()
        fixture.connection.close(.normal, reason: "")
        fixture.receive("late")
        fixture.clock.advance(by: .milliseconds(4_999))
        expectEqual(fixture.log, ["opened 200"])
        fixture.clock.advance(by: .milliseconds(1))
        expect(fixture.log.count == 2 && fixture.hasEnded)
    }

    @Test func `closing takes as long as the rules say, or until the owner ends it`() {
        let fixture = Fixture(TextRules(orphanTimeout: .seconds(60), closeTimeout: .seconds(30)))
        fixture.send("last")
        fixture.connection.endClosing()
        fixture.connection.close(.normal, reason: "")
        fixture.clock.advance(by: .seconds(29))
        expect(fixture.wait().answers.all == ["200 last;"] && fixture.log == ["opened 200"])
        fixture.clock.advance(by: .seconds(1))
        expect(fixture.newest == "closed \(CloseReason.requested)" && fixture.hasEnded)

        let ended = Fixture(TextRules(orphanTimeout: .seconds(60), closeTimeout: .seconds(30)))
        ended.connection.close(.normal, reason: "")
        ended.connection.endClosing()
        expect(ended.newest == "closed \(CloseReason.requested)" && ended.hasEnded)
    }

    @Test func `a client that doesn't come back while the connection closes isn't an error`() {
        let fixture = Fixture(TextRules(orphanTimeout: .seconds(2)))
        fixture.wait().disconnect()
        fixture.connection.close(.normal, reason: "")
        fixture.clock.advance(by: .seconds(2))
        expect(fixture.newest == "closed \(CloseReason.requested)" && fixture.hasEnded)
    }

    @Test func `a connection that was abandoned answers its requests, and has no events`() {
        let fixture = Fixture()
        let poll = fixture.wait()
        fixture.connection.pauseReading()
        let held = fixture.receive("a")
        fixture.connection.abandon()
        fixture.connection.flush()
        expect(poll.answers.all == ["404"] && held.answers.all == ["404"] && fixture.log == ["opened 200"] && fixture.hasEnded)
        expectEqual(fixture.wait().answers.all, ["404"])
    }

    @Test func `a connection that was abandoned before its opening was reported answers its requests`() {
        let fixture = Fixture(isStarted: false)
        let (poll, body) = (fixture.wait(), fixture.receive("a"))
        fixture.connection.abandon()
        expect(poll.answers.all == ["404"] && body.answers.all == ["200"] && fixture.hasEnded)
        fixture.connection.start(fixture.events)
        expect(fixture.log == [] && fixture.wait().answers.all == ["404"])
    }

    // MARK: Both halves

    @Test(arguments: [true, false])
    func `both halves carry messages in both directions through a network in memory`(isStream: Bool) async throws {
        let clock = ManualClock()
        let network = InMemoryNetwork(clock: clock)
        let echo = EchoHandler()
        let handler = FramedHTTPHandler(echo, time: clock.time)
        let address = try await network.listener().start(handler)
        let events = Events()
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/")
        let connection = FramedHTTPTransport(network.transports(), isStream: isStream).makeConnection(
            WebSocketRequest(endpoint), id: ConnectionID(rawValue: 1), events: events)
        connection.open()
        for number in 1...20 {
            connection.enqueue(.text("\(number)"))
            if number % 3 == 0 { connection.flush() }
        }
        connection.flush()
        let received = events.all.all.filter { $0.hasPrefix("received") }.map { $0.dropFirst("received ".count) }
        expectEqual(received.joined(separator: " "), (1...20).map { "\($0)" }.joined(separator: " "))
        expectEqual(handler.connectionCount, 1)
        connection.close(.normal, reason: "")
        expect(handler.connectionCount == 0 && events.all.all.last == "closed \(CloseReason.requested)")
        expectEqual(echo.ends.all, [.peer(.normal, "")])
        expectNil(clock.untilNextDeadline)
        network.cut()
    }

    @Test func `a fault injector drops and silences a connection over HTTP`() async throws {
        let clock = ManualClock()
        let injector = FaultInjector(time: clock.time, seed: 1)
        let served = ServedHTTPMessages(TextRules(), time: clock.time)
        let events = Events()
        served.start(events)
        let faulty = injector.intercept(served, id: served.id)
        var faults = ConnectionFaults()
        faults.delay = .seconds(2)
        injector.faults = faults
        let poll = Responder()
        served.wait(HTTPRequestHead(method: "GET", target: "/"), poll)
        faulty.enqueue(TransportMessage.text("late"))
        faulty.flush()
        expect(poll.answers.all.isEmpty)
        clock.advance(by: .seconds(2))
        expectEqual(poll.answers.all, ["200 late;"])
        faulty.abandon()
        injector.ended(served.id)
        expect(clock.untilNextDeadline == nil && events.all.all == ["opened 200"])
    }

    private final class EchoHandler: AcceptingHandler {
        let ends = EventRecorder<CloseReason>()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 404))
        }
        func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
            Echo(connection, self.ends)
        }

        private final class Echo: MessageEvents {
            private let connection: any MessageConnection
            private let ends: EventRecorder<CloseReason>

            init(_ connection: any MessageConnection, _ ends: EventRecorder<CloseReason>) {
                (self.connection, self.ends) = (connection, ends)
            }

            func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
            func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
                for message in batch.messages { self.connection.enqueue(message) }
                self.connection.flush()
            }
            func closed(_ id: ConnectionID, _ reason: CloseReason) { self.ends.record(reason) }
        }
    }
}

extension [UInt8] {
    /// Where the bytes are in memory. Copies that share it have the same one.
    fileprivate var address: UInt { self.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }
}

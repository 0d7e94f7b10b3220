import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Each byte is a small message, of which three are delivered in a turn. `.` ends the connection.
private struct ByteDivider: MessageDivider {
    func divides(_ kind: TransportMessage.Kind, byteCount: Int) -> Bool { kind == .text && byteCount > 3 }

    mutating func appendPart(
        of kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, from position: inout Int, to batch: inout MessageBatch
    ) -> CloseReason? {
        let end = min(position + 3, bytes.count)
        defer { position = end }
        for index in position..<end {
            if bytes[index] == UInt8(ascii: ".") { return .peer(.normal, "dot") }
            batch.append(kind, [bytes[index]])
        }
        return nil
    }
}

/// A connection that records calls, and whose peer waits for answers.
private final class AnsweringRecorder: AnsweringConnection {
    let calls = EventRecorder<String>()

    func open() {}
    func enqueue(_ message: TransportMessage) { self.calls.record("sent") }
    func flush() { self.calls.record("flushed") }
    func pauseReading() { self.calls.record("paused") }
    func resumeReading() { self.calls.record("resumed") }
    func close(_ code: CloseCode, reason: String) { self.calls.record("closing") }
    func abandon() { self.calls.record("abandoned") }
    func holdAnswers() { self.calls.record("holding") }
    func endHoldingAnswers() { self.calls.record("answering") }
}

private final class Owner: MessageEvents {
    let events = EventRecorder<String>()
    let react = Lock<(@Sendable () -> Void)?>(nil)

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events.record("opened") }
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        self.events.record(batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: " "))
        self.react.withLock { $0 }?()
    }
    func writing(_ id: ConnectionID, paused: Bool) { self.events.record(paused ? "writing paused" : "writing resumed") }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.events.record("closed \(reason)") }
}

@Suite struct DividedConnectionTests {
    private struct Fixture {
        let turns = TurnTime()
        let peer = AnsweringRecorder()
        let owner = Owner()
        let failures = EventRecorder<CloseReason>()
        let id = ConnectionID(rawValue: 1)
        let connection: DividedConnection

        init() {
            self.connection = DividedConnection(self.peer, self.id, ByteDivider(), time: self.turns) { [failures] in failures.record($0) }
            self.connection.start(self.owner)
        }

        func receive(_ texts: String...) { self.connection.received(self.id, MessageBatch(texts.map { .text($0) })) }

        /// The events of the owner, and the calls on the connection, since the last call.
        var changes: [String] { self.owner.events.take() + self.peer.calls.take() }
    }

    @Test func `small messages pass undivided, as they arrived`() {
        let test = Fixture()
        test.connection.opened(test.id, head: HTTPResponseHead(status: 101))
        test.receive("abc", "de")
        expectEqual(test.changes, ["opened", "abc de"])
        expect(!test.turns.take())
    }

    @Test func `each further part of a large message has a turn of its own, and reading resumes after the last one`() {
        let test = Fixture()
        test.receive("abcdefgh")
        expectEqual(test.changes, ["a b c", "paused", "holding"])
        expect(test.turns.take())
        expectEqual(test.changes, ["d e f"])
        expect(test.turns.take())
        expectEqual(test.changes, ["g h", "answering", "resumed", "flushed"])
        expect(!test.turns.take())
    }

    @Test func `a large message that is one part is delivered immediately`() {
        let test = Fixture()
        test.receive("a")
        test.receive("bcd.")
        expectEqual(test.changes, ["a", "b c d", "paused", "holding"])
        test.turns.take()
        expectEqual(test.failures.all, [.peer(.normal, "dot")])
        let other = Fixture()
        other.receive("ab.d")
        expectEqual(other.changes, ["a b"])
        expect(other.failures.all.count == 1 && !other.turns.take())
    }

    @Test func `what arrives meanwhile keeps its order, and the end comes last`() {
        let test = Fixture()
        test.receive("x", "abcd", "y")
        test.receive("z", "efgh")
        test.connection.closed(test.id, .peer(.normal, ""))
        var received = test.owner.events.take()
        while test.turns.take() { received += test.owner.events.take() }
        expectEqual(received, ["x", "a b c", "d", "y z", "e f g", "h", "closed \(CloseReason.peer(.normal, ""))"])
    }

    @Test func `nothing is delivered while the owner doesn't read, or the client doesn't read what it is sent`() {
        let test = Fixture()
        test.receive("abcdefgh")
        test.connection.pauseReading()
        _ = test.changes
        test.turns.take()
        expectEqual(test.changes, ["d e f"])
        expect(!test.turns.take())
        test.connection.writing(test.id, paused: true)
        test.connection.resumeReading()
        test.connection.flush()
        expectEqual(test.changes, ["writing paused", "flushed"])
        expect(!test.turns.take())
        test.connection.writing(test.id, paused: false)
        expectEqual(test.changes, ["writing resumed"])
        expect(test.turns.take())
        expectEqual(test.changes, ["g h", "answering", "resumed", "flushed"])
    }

    @Test func `an owner that pauses during the last part isn't read for, and the request is answered`() {
        let test = Fixture()
        test.receive("abcd")
        _ = test.changes
        test.owner.react.withLock { $0 = { test.connection.pauseReading() } }
        test.turns.take()
        expectEqual(test.changes, ["d", "paused", "answering", "flushed"])
        test.connection.resumeReading()
        test.connection.flush()
        expectEqual(test.changes, ["resumed", "flushed"])
        test.owner.react.withLock { $0 = nil }
    }

    @Test func `a large message that arrives while the owner doesn't read waits whole`() {
        let test = Fixture()
        test.connection.pauseReading()
        test.receive("abcdef")
        expectEqual(test.changes, ["paused", "paused", "holding"])
        test.connection.resumeReading()
        expect(!test.turns.take())
        test.connection.flush()
        expect(test.turns.take())
        expectEqual(test.changes, ["a b c", "flushed"])
        // What waits would keep the connection.
        while test.turns.take() {}
    }

    @Test func `the end of a client that doesn't read is reported after what it has sent`() {
        let test = Fixture()
        test.receive("abcd")
        test.connection.writing(test.id, paused: true)
        test.turns.take()
        test.connection.closed(test.id, .peer(.normal, ""))
        while test.turns.take() {}
        expectEqual(test.owner.events.all.last, "closed \(CloseReason.peer(.normal, ""))")
    }

    @Test func `after the owner has closed or given up the connection, nothing more is delivered`() {
        let test = Fixture()
        test.receive("abcdef")
        test.connection.close(.normal, reason: "")
        _ = test.changes
        test.turns.take()
        test.receive("g")
        expectEqual(test.owner.events.all.filter { $0.hasPrefix("d") }, [])
        test.connection.closed(test.id, .requested)
        expectEqual(test.owner.events.all.last, "closed \(CloseReason.requested)")
        let other = Fixture()
        other.receive("abcdef")
        other.connection.abandon()
        _ = other.changes
        other.turns.take()
        expect(other.owner.events.all.isEmpty)
    }

    @Test func `without a thread for turns, all parts are delivered immediately, however many`() {
        let peer = AnsweringRecorder()
        let owner = Owner()
        let connection = DividedConnection(peer, ConnectionID(rawValue: 1), ByteDivider(), time: RecordingTime())
        connection.start(owner)
        connection.received(ConnectionID(rawValue: 1), MessageBatch([.text(String(repeating: "abc", count: 50_000))]))
        expect(owner.events.all.count == 50_000 && owner.events.all.allSatisfy { $0 == "a b c" })
    }
}

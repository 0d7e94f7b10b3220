import RealtimeCore
import TestSupport
import Testing

/// Decodes a stream that arrives in parts.
private func decode(_ parts: some Sequence<some Sequence<UInt8>>, limit: Int = 1000) -> (events: [String], error: TransportError?) {
    var decoder = ServerSentEventDecoder(limit: limit)
    var events: [String] = []
    // Each batch contains a message already, as a batch does that is reused.
    for part in parts {
        var batch = MessageBatch([.text("before")])
        var failure: TransportError?
        do throws(TransportError) {
            try decoder.decode(Array(part), into: &batch)
        } catch {
            failure = error
        }
        let messages = batch.messages
        expect(messages.first == .text("before") && messages.allSatisfy { $0.kind == .text && String(validating: $0.bytes) != nil })
        expectEqual(batch.bytes.count, batch.entries.last?.range.upperBound, "what isn't complete must not stay in the batch")
        events += messages.dropFirst().map { String(decoding: $0.bytes, as: UTF8.self) }
        if let failure { return (events, failure) }
    }
    return (events, nil)
}

extension String {
    fileprivate init?(validating bytes: [UInt8]) {
        self.init(decoding: bytes, as: UTF8.self)
        guard Array(self.utf8) == bytes else { return nil }
    }
}

@Suite struct ServerSentEventDecoderTests {
    /// Streams and the data of their events.
    private static let streams: [(stream: String, events: [String])] = [
        ("", []),
        ("data: a\n\n", ["a"]),
        ("data: a\r\n\r\n", ["a"]),
        ("data: a\r\r", ["a"]),
        ("data: a\r\n\rdata: b\n\r\n", ["a", "b"]),
        ("data: a\n\r\n\r\ndata: b\r\r\n", ["a", "b"]),
        ("data: a\r\n\ndata: b\r\n\n", ["a", "b"]),
        // Examples of the standard.
        (
            ": this is a test stream\n\ndata: some text\n\ndata: another message\ndata: with two lines \n\n",
            ["some text", "another message\nwith two lines "]
        ),
        ("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n", ["73857293", "2153", "113411"]),
        ("data: YHOO\ndata: +2\ndata: 10\n\n", ["YHOO\n+2\n10"]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            ["first event", "second event", " third event"]
        ),
        ("data\n\ndata\ndata\n\ndata:", ["", "\n"]),
        ("data:test\n\ndata: test\n\n", ["test", "test"]),
        // Only one space is removed, and no other blank.
        ("data:\ta\n\ndata:  \n\ndata: \n\ndata:\n\n", ["\ta", " ", "", ""]),
        // Fields without data, unknown fields, names without a meaning, and comments.
        ("event: a\nid: 1\nretry: 5\n\n\n\n", []),
        ("retry: x\nid: \0\nunknown\n: data: no\n:\ndata: a\nDATA: b\n data: c\ndata : d\ndatas: e\ndat: f\ndataa\n\n", ["a"]),
        ("data: a\nevent: late\nid: 7\n:comment\ndata: b\n\n", ["a\nb"]),
        ("data: a: b\ndata::\n\n", ["a: b\n:"]),
        // An event whose end is missing is discarded.
        ("data: a\n\ndata: b\n", ["a"]),
        ("data: a\n\ndata: b", ["a"]),
        // One byte order mark at the beginning is ignored.
        ("\u{FEFF}data: a\n\n", ["a"]),
        ("\u{FEFF}\u{FEFF}data: a\n\ndata: b\n\n", ["b"]),
        ("\n\u{FEFF}data: a\n\ndata: \u{FEFF}\n\n", ["\u{FEFF}"]),
        ("\u{FEFF}\r\ndata: a\r\n\r\n", ["a"]),
        ("\u{FEFF}", []),
        // Characters that aren't line ends in this format.
        ("data: a\u{0B}b\u{0C}c\u{85}d\u{2028}e\u{1E}\0\n\n", ["a\u{0B}b\u{0C}c\u{85}d\u{2028}e\u{1E}\0"]),
        ("data: grüße 🎉\ndata: 漢\n\n", ["grüße 🎉\n漢"]),
    ]

    /// Streams that aren't valid UTF-8, and the data of their events.
    private static let invalid: [(stream: [UInt8], events: [String])] = [
        (Array("data: a".utf8) + [0xFF] + Array("b\n\n".utf8), ["a\u{FFFD}b"]),
        // A sequence ends at a line end.
        (Array("data: ".utf8) + [0xE2, 0x82] + Array("\ndata: ".utf8) + [0xAC] + Array("\n\n".utf8), ["\u{FFFD}\n\u{FFFD}"]),
        (Array("data: ".utf8) + [0xED, 0xA0, 0x80, 0xC0, 0x80] + Array("\n\n".utf8), [String(repeating: "\u{FFFD}", count: 5)]),
        // The beginning of a byte order mark is part of the first line.
        ([0xEF] + Array("data: a\n\ndata: b\n\n".utf8), ["b"]),
        ([0xEF, 0xBB] + Array("\ndata: b\n\n".utf8), ["b"]),
        ([0xEF, 0xBB], []),
        (Array("data".utf8) + [0xFF] + Array(": a\n\n".utf8), []),
    ]

    private static let all = Self.streams.map { (stream: Array($0.stream.utf8), events: $0.events) } + Self.invalid

    @Test(arguments: Self.all.indices)
    func `the events of a stream don't depend on how it is cut`(index: Int) {
        let (stream, events) = Self.all[index]
        let whole = decode([stream])
        expect(whole.events == events && whole.error == nil)
        expectEqual(decode(stream.map { [$0] }).events, events)
        for cut in 0...stream.count { expectEqual(decode([stream[..<cut], stream[cut...]]).events, events, "cut at \(cut)") }
        // With empty parts between all bytes.
        expectEqual(decode(stream.flatMap { [[], [$0]] }).events, events)
    }

    @Test(arguments: [
        // The limit of 10 is reached, and exceeded, by a line, by two lines, and by a comment.
        ("data: 1234567890\n\n", ["1234567890"], false),
        ("data:1234567890\n\ndata: 1\n\n", ["1234567890", "1"], false),
        ("data: a\n\ndata: 12345678901\n\n", ["a"], true),
        ("data: a\n\ndata:12345678901\n\n", ["a"], true),
        ("data: 1234\ndata: 56789\n\ndata: a\n\n", ["1234\n56789", "a"], false),
        ("data: 1234\ndata: 567890\n\n", [], true),
        ("data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n\n", [String(repeating: "\n", count: 9)], false),
        ("data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n\n", ["\n\n\n\n\n\n\n\n\n\n"], false),
        ("data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n\n", [], true),
        (":234567890123456\ndata: a\n\n", ["a"], false),
        (":2345678901234567\ndata: a\n\n", [], true),
        // A line that doesn't end.
        ("data: a\n\ndata: 12345678901", ["a"], true),
        (":2345678901234567", [], true),
        // Many small comments don't add up to a large event.
        (":234567890\n:234567890\n:234567890\ndata: a\n:234567890\n:234567890\n\n", ["a"], false),
    ])
    func `the size of an event and of a line is limited`(_ stream: String, _ events: [String], _ exceeds: Bool) {
        let bytes = Array(stream.utf8)
        for cut in 0...bytes.count {
            let result = decode([bytes[..<cut], bytes[cut...]], limit: 10)
            expect(result.events == events && (result.error != nil) == exceeds, "cut at \(cut)")
        }
        let result = decode(bytes.map { [$0] }, limit: 10)
        expect(result.events == events && result.error?.code == (exceeds ? .tooLarge : nil))
        if exceeds { expectEqual(result.error?.message.contains("10 bytes. Increase the message limit"), true) }
    }

    @Test func `a line that doesn't end fails at the limit, not at the end of memory`() {
        let part = [UInt8](repeating: 0x61, count: 1 << 10)
        for start in ["", "data: ", ": "] {
            let result = decode([Array(start.utf8)] + [[UInt8]](repeating: part, count: 12), limit: 10 << 10)
            expectEqual(result.error?.code, .tooLarge)
        }
    }
}

@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct ServerSentEventLinearCostTests {
    /// Streams of a number of items, and the size of the parts in which they arrive.
    private static let streams: [(name: String, part: Int, stream: @Sendable (Int) -> String)] = [
        ("events in one part", .max, { String(repeating: "data: 0123456789\r\n\r\n", count: $0) }),
        ("line feeds only", .max, { String(repeating: "data: 0123456789\n\n", count: $0) }),
        ("carriage returns only", .max, { String(repeating: "data: 0123456789\r\r", count: $0) }),
        ("carriage returns before line feeds", .max, { String(repeating: "data: 0123456789\r\r", count: $0) + "data:\n\n" }),
        ("an event of many lines", 1000, { String(repeating: "data: 0123456789\n", count: $0) + "\n" }),
        ("an event of one line", 100, { "data: " + String(repeating: "0123456789", count: $0) + "\n\n" }),
        ("byte by byte", 1, { String(repeating: "data: 0123456789\n", count: $0) + "\n" }),
    ]

    @Test(arguments: Self.streams.indices)
    func `the cost is linear in the size of a stream`(index: Int) async throws {
        let (_, size, stream) = Self.streams[index]
        try await expectLinearCost { count in
            let bytes = Array(stream(count).utf8)
            let parts = stride(from: 0, to: bytes.count, by: size == .max ? bytes.count : size).map { start in
                Array(bytes[start..<min(bytes.count, size == .max ? bytes.count : start + size)])
            }
            return {
                var decoder = ServerSentEventDecoder(limit: 1 << 30)
                var events = 0
                for part in parts {
                    var batch = MessageBatch()
                    try decoder.decode(part, into: &batch)
                    events += batch.entries.count
                }
                precondition(events > 0)
            }
        }
    }
}

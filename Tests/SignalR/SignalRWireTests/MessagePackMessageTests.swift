import RealtimeCore
import RealtimeCoding
import SignalRWire
import TestSupport
import Testing

func messagePack(_ bytes: UInt8...) -> HubPayload { HubPayload(.messagePack, bytes) }

/// A message in MessagePack with its length, which must be less than 128.
private func framed(_ message: [UInt8]) -> [UInt8] { [UInt8(message.count)] + message }

/// The only output for one message in MessagePack, without its length.
private func readMessagePack(_ message: [UInt8]) throws -> HubMessageReader.Output? {
    let outputs = try read([framed(message)], .messagePack)
    return outputs.count == 1 ? outputs[0] : nil
}

@Suite(.computes, .serialized) struct MessagePackMessageTests {
    private static func call(_ id: String?, _ arguments: HubPayload = messagePack(0x91, 0x2A), _ streamIDs: [String] = []) -> HubInvocation
    {
        HubInvocation(id: id, target: "method", arguments: arguments, streamIDs: streamIDs)
    }

    /// Messages and their bytes: the samples of the specification, and others.
    static let messages: [(HubMessage, String)] = [
        (.invocation(Self.call("xyz")), "96 01 80 a3 78 79 7a a6 6d 65 74 68 6f 64 91 2a 90"),
        (.invocation(Self.call(nil)), "96 01 80 c0 a6 6d 65 74 68 6f 64 91 2a 90"),
        (
            .invocation(Self.call("xyz", messagePack(0x90), ["1", "é"])),
            "96 01 80 a3 78 79 7a a6 6d 65 74 68 6f 64 90 92 a1 31 a2 c3 a9"
        ),
        (
            .invocation(HubInvocation(id: nil, target: "m", arguments: messagePack(0x90), headers: ["x": "y", "z": "z"])),
            "96 01 82 a1 78 a1 79 a1 7a a1 7a c0 a1 6d 90 90"
        ),
        (.streamInvocation(Self.call("xyz")), "96 04 80 a3 78 79 7a a6 6d 65 74 68 6f 64 91 2a 90"),
        (.streamItem(id: "xyz", messagePack(0x2A)), "94 02 80 a3 78 79 7a 2a"),
        (.streamItem(id: "xyz", messagePack(0xC0)), "94 02 80 a3 78 79 7a c0"),
        (.completion(id: "xyz", .error("Error")), "95 03 80 a3 78 79 7a 01 a5 45 72 72 6f 72"),
        (.completion(id: "xyz", .void), "94 03 80 a3 78 79 7a 02"),
        (.completion(id: "xyz", .result(messagePack(0x2A))), "95 03 80 a3 78 79 7a 03 2a"),
        (.completion(id: "xyz", .result(messagePack(0xC0))), "95 03 80 a3 78 79 7a 03 c0"),
        (.completion(id: "xyz", .result(messagePack(0x81, 0xA1, 0x61, 0x91, 0xC3))), "95 03 80 a3 78 79 7a 03 81 a1 61 91 c3"),
        (.cancelInvocation(id: "xyz"), "93 05 80 a3 78 79 7a"),
        (.ping, "91 06"),
        (.close(error: "xyz", allowReconnect: false), "92 07 a3 78 79 7a"),
        (.close(error: "xyz", allowReconnect: true), "93 07 a3 78 79 7a c3"),
        (.close(error: nil, allowReconnect: false), "92 07 c0"),
        (.close(error: nil, allowReconnect: true), "93 07 c0 c3"),
        (.ack(sequenceID: 36), "92 08 24"),
        (.sequence(sequenceID: 200), "92 09 cc c8"),
        (.sequence(sequenceID: UInt64(Int64.max)), "92 09 cf 7f ff ff ff ff ff ff ff"),
    ]

    @Test(arguments: Self.messages)
    func `each message has its bytes and survives writing and reading`(message: HubMessage, text: String) throws {
        let written = HubMessageWriter.message(message, .messagePack)
        expectEqual(written.kind, .binary)
        expectEqual(written.bytes, framed(hex(text)))
        try expectEqual(readMessagePack(hex(text)), .message(message))
        var appended: [UInt8] = [1, 2]
        HubMessageWriter.append(message, .messagePack, to: &appended)
        expectEqual(appended, [1, 2] + written.bytes)
    }

    @Test(arguments: [
        // Samples of the specification that have other forms of integers.
        ("92 08 cc 24", "92 08 24"), ("92 09 cc 13", "92 09 13"),
        // Without streams, as old peers and the TypeScript client send invocations.
        ("95 01 80 a3 78 79 7a a6 6d 65 74 68 6f 64 91 2a", "96 01 80 a3 78 79 7a a6 6d 65 74 68 6f 64 91 2a 90"),
        ("95 04 80 a3 78 79 7a a6 6d 65 74 68 6f 64 91 2a", "96 04 80 a3 78 79 7a a6 6d 65 74 68 6f 64 91 2a 90"),
        // Nil instead of empty values, and an empty ID for none.
        ("96 01 c0 a0 a6 6d 65 74 68 6f 64 91 2a c0", "96 01 80 c0 a6 6d 65 74 68 6f 64 91 2a 90"),
        ("94 02 c0 a1 78 2a", "94 02 80 a1 78 2a"), ("93 07 c0 c0", "92 07 c0"), ("93 07 c0 c2", "92 07 c0"), ("91 07", "92 07 c0"),
        // Headers.
        ("95 03 82 a1 78 a1 79 a1 7a a1 7a a1 78 03 2a", "95 03 80 a1 78 03 2a"), ("93 05 81 01 02 a1 78", "93 05 80 a1 78"),
        // Additional elements.
        ("97 01 80 c0 a1 6d 90 90 81 01 02", "96 01 80 c0 a1 6d 90 90"), ("95 02 80 a1 78 2a 90", "94 02 80 a1 78 2a"),
        ("96 03 80 a1 78 03 2a 2b", "95 03 80 a1 78 03 2a"), ("95 03 80 a1 78 02 2a", "94 03 80 a1 78 02"), ("92 06 80", "91 06"),
        ("94 05 80 a1 78 c0", "93 05 80 a1 78"), ("94 07 c0 c3 01", "93 07 c0 c3"), ("93 08 01 80", "92 08 01"),
        // Longer forms.
        ("dc 00 01 06", "91 06"), ("dd 00 00 00 01 d3 00 00 00 00 00 00 00 06", "91 06"), ("93 05 de 00 00 d9 01 78", "93 05 80 a1 78"),
    ])
    func `other forms of a message are read`(text: String, same: String) throws {
        try expectEqual(readMessagePack(hex(text)), readMessagePack(hex(same)), "\(text)")
        guard case .message = try readMessagePack(hex(text)) else {
            Issue.record("\(text): \(try readMessagePack(hex(text)) as Any)")
            return
        }
    }

    @Test(arguments: [("91 00", 0), ("91 0a", 10), ("93 63 c0 c1", 99), ("92 ff c1", -1), ("91 cd 03 e8", 1000)])
    func `unknown types are reported`(text: String, type: Int) throws {
        try expectEqual(readMessagePack(hex(text)), .unknown(type: type))
    }

    static let invalid: [(String, String, Int?, String?)] = [
        ("", "unexpected end", nil, nil),
        ("06", "unexpected type", nil, nil),
        ("80", "unexpected type", nil, nil),
        ("c1", "invalid format", nil, nil),
        ("90", "missing type", nil, nil),
        ("91", "unexpected end", nil, nil),
        ("91 a1 36", "invalid type", nil, nil),
        ("91 c0", "invalid type", nil, nil),
        ("91 cf ff ff ff ff ff ff ff ff", "invalid type", nil, nil),
        ("91 06 06", "unexpected content", 6, nil),
        ("91 01", "missing headers", 1, nil),
        ("92 01 90", "invalid headers", 1, nil),
        ("96 01 81 01 a1 78 a1 78 a1 6d 90 90", "invalid headers", 1, nil),
        ("96 01 81 a1 78 01 a1 78 a1 6d 90 90", "invalid headers", 1, nil),
        ("96 01 80 01 a1 6d 90 90", "invalid invocation ID", 1, nil),
        ("93 01 80 a1 78", "missing target", 1, "x"),
        ("96 01 80 a1 78 c0 90 90", "missing target", 1, "x"),
        ("96 01 80 a1 78 a0 90 90", "missing target", 1, "x"),
        ("96 01 80 a1 78 05 90 90", "invalid target", 1, "x"),
        ("94 01 80 a1 78 a1 6d", "missing arguments", 1, "x"),
        ("96 01 80 a1 78 a1 6d c0 90", "arguments must be an array", 1, "x"),
        ("96 01 80 a1 78 a1 6d 80 90", "arguments must be an array", 1, "x"),
        ("96 01 80 a1 78 a1 6d 91 c1 90", "invalid arguments", 1, "x"),
        ("96 01 80 a1 78 a1 6d 90 80", "invalid stream IDs", 1, "x"),
        ("96 01 80 a1 78 a1 6d 90 91 05", "invalid stream IDs", 1, "x"),
        ("96 04 80 c0 a1 6d 90 90", "missing invocation ID", 4, nil),
        ("96 04 80 a0 a1 6d 90 90", "missing invocation ID", 4, nil),
        ("94 02 80 c0 2a", "missing invocation ID", 2, nil),
        ("93 02 80 a1 78", "missing item", 2, "x"),
        ("94 02 80 a1 78", "invalid item", 2, "x"),
        ("94 02 80 a1 78 c1", "invalid item", 2, "x"),
        ("93 03 80 a1 78", "missing result kind", 3, "x"),
        ("94 03 80 a1 78 00", "unknown result kind 0", 3, "x"),
        ("94 03 80 a1 78 04", "unknown result kind 4", 3, "x"),
        ("94 03 80 a1 78 a1 31", "invalid result kind", 3, "x"),
        ("94 03 80 a1 78 01", "missing error", 3, "x"),
        ("95 03 80 a1 78 01 c0", "missing error", 3, "x"),
        ("95 03 80 a1 78 01 05", "invalid error", 3, "x"),
        ("94 03 80 a1 78 03", "missing result", 3, "x"),
        ("92 05 80", "missing invocation ID", 5, nil),
        ("92 07 05", "invalid error", 7, nil),
        ("93 07 c0 01", "invalid permission", 7, nil),
        ("91 08", "missing sequence ID", 8, nil),
        ("92 08 ff", "must not be negative", 8, nil),
        ("92 09 c0", "invalid sequence ID", 9, nil),
        ("92 08 a1 31", "invalid sequence ID", 8, nil),
        ("92 09 d3 80 00 00 00 00 00 00 00", "must not be negative", 9, nil),
        ("92 09 cb 3f f0 00 00 00 00 00 00", "invalid sequence ID", 9, nil),
        ("92 09 91 01", "invalid sequence ID", 9, nil),
        ("95 05 80 a1 78 c0", "invalid additional element", 5, "x"),
    ]

    @Test(arguments: Self.invalid)
    func `an invalid message is reported and doesn't affect its neighbors`(
        text: String, problem: String, type: Int?, id: String?
    ) throws {
        let outputs = try read([hex("02 91 06") + framed(hex(text)) + hex("02 91 06")], .messagePack)
        guard outputs.count == 3, outputs[0] == .message(.ping), outputs[2] == .message(.ping), case .invalid(let error) = outputs[1] else {
            Issue.record("\(text): \(outputs)")
            return
        }
        expect(error.problem.contains(problem), "\(text): \(error)")
        expect(error.type == type && error.invocationID == id, "\(text): \(error)")
    }

    @Test(arguments: Self.messages)
    func `a truncated message is invalid`(message: HubMessage, text: String) throws {
        let complete = hex(text)
        for end in 0..<complete.count {
            guard case .invalid = try readMessagePack(Array(complete[..<end])) else {
                Issue.record("\(text): \(end) bytes")
                continue
            }
        }
    }

    /// Arrays and strings that announce much more than there is, and values that are nested deeply.
    @Test(arguments: [
        "dd ff ff ff ff", "df ff ff ff ff", "db ff ff ff ff 61", "c6 ff ff ff ff", "c9 ff ff ff ff 01", "dc ff ff 91", "91 dd 7f ff ff ff",
    ])
    func `lengths beyond the end of the message are invalid`(text: String) throws {
        for prefix in ["94 02 80 a1 78", "95 01 80 a1 78 a1 6d", "93 05", "96 01 80 a1 78 a1 6d 90", ""] {
            guard case .invalid = try readMessagePack(hex(prefix) + hex(text)) else {
                Issue.record("\(prefix) \(text)")
                continue
            }
        }
    }

    @Test func `the ID of a result that is nested too deeply is known`() throws {
        let result = HubPayload(.messagePack, Array(repeating: 0x91, count: 100_000) + [0xC0])
        let message = HubMessage.completion(id: "1", .result(result))
        try expectEqual(read([HubMessageWriter.message(message, .messagePack).bytes], .messagePack), [.message(message)])
        #expect(throws: (any Error).self) { try HubValueCoder(.messagePack).decode(JSONValue.self, from: result) }
    }

    // MARK: Framing

    @Test(arguments: [
        (0x00, "00"), (0x01, "01"), (0x7F, "7f"), (0x80, "80 01"), (5248, "80 29"), (0x3FFF, "ff 7f"), (0x4000, "80 80 01"),
        (0x1FFFFF, "ff ff 7f"), (0x200000, "80 80 80 01"), (0xFFFFFFF, "ff ff ff 7f"), (0x10000000, "80 80 80 80 01"),
        (0x7FFFFFFF, "ff ff ff ff 07"),
    ])
    func `lengths have the bytes of the specification`(length: Int, text: String) throws {
        // A limit one below the length shows which length was read.
        if length > 0 { #expect(throws: HubFramingError.self) { try read([hex(text)], .messagePack, messageLimit: length - 1) } }
        try expectEqual(read(hex(text).map { [$0] }, .messagePack, messageLimit: length).count, (length == 0 ? 1 : 0))
        guard length > 20, length < 1 << 22 else { return }
        // The item of a message with this length.
        let item = [0xC6] + withUnsafeBytes(of: UInt32(length - 10).bigEndian) { Array($0) } + Array(repeating: 7, count: length - 10)
        let sized = HubMessageWriter.message(.streamItem(id: "a", HubPayload(.messagePack, item)), .messagePack).bytes
        expect(sized.count == hex(text).count + length && sized.starts(with: hex(text)))
    }

    @Test(arguments: ["ff ff ff ff 08", "ff ff ff ff ff", "80 80 80 80 80", "80 80 80 80 80 01", "80 80 80 80 10"])
    func `lengths above 2 GiB are errors`(text: String) {
        let error = #expect(throws: HubFramingError.self) { try read([hex(text)], .messagePack, messageLimit: .max) }
        expectEqual(error?.description.contains("2 GiB"), true)
    }

    @Test func `lengths in longer forms are read`() throws {
        try expectEqual(read([hex("82 80 80 80 00 91 06")], .messagePack), [.message(.ping)])
    }

    /// A connection's messages, of which some are invalid or unknown, and some are longer than 127 bytes.
    private static let connection: [UInt8] = {
        var bytes = Self.messages.flatMap { framed(hex($0.1)) } + hex("00 02 91 63 01 c1")
        for length in [100, 118, 119, 120, 300] {
            let item = HubPayload(
                .messagePack, [0xDA, 0, UInt8(truncatingIfNeeded: length)] + Array(repeating: 0x61, count: length & 0xFF))
            HubMessageWriter.append(.streamItem(id: "1", item), .messagePack, to: &bytes)
        }
        return bytes
    }()

    @Test func `a connection that is split at any position yields the same messages`() throws {
        let whole = try read([Self.connection], .messagePack)
        expectEqual(whole.count, Self.messages.count + 8)
        for position in 0...Self.connection.count {
            let parts = [Array(Self.connection[..<position]), Array(Self.connection[position...])]
            try expectEqual(read(parts, .messagePack), whole, "split at \(position)")
        }
        try expectEqual(read(Self.connection.map { [$0] }, .messagePack), whole)
    }

    @Test(arguments: seeds(200))
    func `a connection that is split at random positions yields the same messages`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let whole = try read([Self.connection], .messagePack)
        var rest = Self.connection[...]
        var parts: [[UInt8]] = []
        while !rest.isEmpty {
            let length = Int.random(in: 0...min(rest.count, 200), using: &random)
            parts.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        try expectEqual(read(parts, .messagePack), whole, "\(replay(seed))")
    }

    @Test func `a message over the limit is an error before it arrives`() throws {
        try expectEqual(read([hex("02 91 06")], .messagePack, messageLimit: 2), [.message(.ping)])
        var reader = HubMessageReader(.messagePack, messageLimit: 2)
        #expect(throws: HubFramingError.self) { try reader.read(hex("03")) }
        #expect(throws: HubFramingError.self) { try reader.read(hex("02 91 06")) }
    }
}

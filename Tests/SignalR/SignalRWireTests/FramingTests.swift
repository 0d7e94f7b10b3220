import RealtimeCore
import SignalRWire
import TestSupport
import Testing

@Suite(.computes, .serialized) struct FramingTests {
    /// A connection's messages, of which some are invalid or unknown.
    private static let json = bytes(
        JSONMessageTests.messages.map(\.1).joined(separator: "\u{1E}") + "\u{1E}\u{1E}{\"type\":77}\u{1E}{}\u{1E}[\u{1E}"
            + "{\"type\":1,\"target\":\"äöü€😀\",\"arguments\":[\"äöü€😀\"]}\u{1E}")

    @Test(arguments: HubFormat.allCases, [nil, "7"])
    func `an invocation that is encoded straight into its message is the same`(format: HubFormat, id: String?) throws {
        let coder = HubValueCoder(format)
        let message = try HubMessageWriter.invocation(of: "m", id: id, format) { try coder.appendArguments("héllo", 2, to: &$0) }
        let invocation = HubInvocation(id: id, target: "m", arguments: try coder.arguments("héllo", 2))
        expectEqual(message.kind, format.messageKind)
        expectEqual(message.bytes, HubMessageWriter.message(.invocation(invocation), format).bytes)
    }

    @Test func `several messages in one part are read in order`() throws {
        let outputs = try read([Self.json], .json)
        expectEqual(outputs.count, JSONMessageTests.messages.count + 4)
        expectEqual(outputs.prefix(JSONMessageTests.messages.count), JSONMessageTests.messages.map { .message($0.0) }[...])
    }

    @Test func `a connection that is split at any position yields the same messages`() throws {
        let whole = try read([Self.json], .json)
        for position in 0...Self.json.count {
            let parts = [Array(Self.json[..<position]), Array(Self.json[position...])]
            try expectEqual(read(parts, .json), whole, "split at \(position)")
        }
        try expectEqual(read(Self.json.map { [$0] }, .json), whole)
    }

    @Test(arguments: seeds(200))
    func `a connection that is split at random positions yields the same messages`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let whole = try read([Self.json], .json)
        var rest = Self.json[...]
        var parts: [[UInt8]] = []
        while !rest.isEmpty {
            let length = Int.random(in: 0...min(rest.count, 40), using: &random)
            parts.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        try expectEqual(read(parts, .json), whole, "\(replay(seed))")
    }

    @Test func `empty messages are ignored`() throws {
        try expectEqual(read([[0x1E, 0x1E], [], [0x1E]], .json), [])
    }

    @Test func `an incomplete message is kept, whether its bytes are known to be UTF-8 or not`() throws {
        for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
            var reader = HubMessageReader(.json, messageLimit: 100)
            try expectEqual(reader.read(bytes("{\"type\""), isUTF8: first), [])
            try expectEqual(reader.read(bytes(":6}\u{1E}{\"ty"), isUTF8: second), [.message(.ping)])
            try expectEqual(reader.read([], isUTF8: first), [])
            try expectEqual(reader.read(bytes("pe\":6}\u{1E}"), isUTF8: first), [.message(.ping)])
        }
    }

    // MARK: Limits

    @Test func `a message of the maximum size is read, however it arrives`() throws {
        let message = bytes(#"{"type":6}"#)
        for position in 0...message.count {
            let parts = [Array(message[..<position]), message[position...] + [0x1E]]
            try expectEqual(read(parts, .json, messageLimit: message.count), [.message(.ping)])
            #expect(throws: HubFramingError.self) { try read(parts, .json, messageLimit: message.count - 1) }
        }
    }

    @Test func `a message that doesn't end is an error at the limit`() throws {
        var reader = HubMessageReader(.json, messageLimit: 8)
        try expectEqual(reader.read(bytes("{\"type\":")), [])
        let error = #expect(throws: HubFramingError.self) { try reader.read(bytes("6")) }
        expectEqual(error?.description.contains("limit of 8 bytes"), true)
        // The connection can't be read any more.
        #expect(throws: HubFramingError.self) { try reader.read(bytes("\u{1E}{}\u{1E}")) }
    }

    @Test func `the messages before one that is too long are read`() throws {
        var reader = HubMessageReader(.json, messageLimit: 10)
        var outputs: [HubMessageReader.Output] = []
        let text = bytes("{\"type\":6}\u{1E}{\"type\":  6}\u{1E}{\"type\":6}\u{1E}")
        #expect(throws: HubFramingError.self) { try text.withUnsafeBytes { try reader.read($0) { outputs.append($0) } } }
        expectEqual(outputs, [.message(.ping)])
    }
}

/// The cost of what a peer decides.
///
/// The tests run one after the other, because they compute without waiting.
@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct WireLinearCostTests {
    private func read(_ bytes: [UInt8], _ format: HubFormat, partSize: Int) throws {
        var reader = HubMessageReader(format, messageLimit: .max)
        var outputs = 0
        try bytes.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count {
                let end = min(start + partSize, bytes.count)
                try reader.read(UnsafeRawBufferPointer(rebasing: bytes[start..<end])) { _ in outputs += 1 }
                start = end
            }
        }
        expect(outputs > 0)
    }

    private func invocation(_ format: HubFormat, _ count: Int) throws -> [UInt8] {
        let arguments = try HubValueCoder(format).arguments(Array(repeating: "0123456789", count: count))
        return HubMessageWriter.message(.invocation(HubInvocation(id: nil, target: "m", arguments: arguments)), format).bytes
    }

    @Test func `a long message arrives in small parts`() async throws {
        for format in HubFormat.allCases {
            try await expectLinearCost { count in
                let message = try self.invocation(format, count)
                return { try self.read(message, format, partSize: 10) }
            }
        }
    }

    @Test func `many messages arrive in one part`() async throws {
        for format in HubFormat.allCases {
            try await expectLinearCost { count in
                let messages = try (0..<count).flatMap { _ in try self.invocation(format, 1) }
                return { try self.read(messages, format, partSize: messages.count) }
            }
        }
    }

    @Test func `a message has many headers and streams`() async throws {
        for format in HubFormat.allCases {
            try await expectLinearCost { count in
                let invocation = HubInvocation(
                    id: "1", target: "m", arguments: try HubValueCoder(format).arguments(), streamIDs: (0..<count).map { "\($0)" },
                    headers: Dictionary(uniqueKeysWithValues: (0..<count).map { ("\($0)", "") }))
                let message = HubMessageWriter.message(.invocation(invocation), format).bytes
                return { try self.read(message, format, partSize: message.count) }
            }
        }
    }

    @Test func `an invocation has many arguments`() async throws {
        for format in HubFormat.allCases {
            try await expectLinearCost { count in
                let coder = HubValueCoder(format)
                let values = Array(repeating: 7, count: count)
                return {
                    var arguments = try coder.decodeArguments(coder.arguments(of: values))
                    var parsed = arguments
                    for _ in 0..<(try parsed.count()) {
                        _ = try arguments.next(Int.self)
                        _ = try parsed.next(Int.self)
                    }
                }
            }
        }
    }
}

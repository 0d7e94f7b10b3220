import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite struct WebSocketFrameDecoderTests {
    static let key: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]

    struct Stream: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var messages: [TransportMessage]
        var role = WebSocketRole.client
    }

    static let streams = [
        Stream(testDescription: "the RFC's Hello", bytes: [0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F], messages: [.text("Hello")]),
        Stream(
            testDescription: "the RFC's masked Hello", bytes: [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58],
            messages: [.text("Hello")], role: .server),
        Stream(
            testDescription: "the RFC's fragments", bytes: [0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F],
            messages: [.text("Hello")]),
        Stream(testDescription: "empty messages", bytes: frame(0x81) + frame(0x82), messages: [.text(""), .binary([])]),
        Stream(testDescription: "empty fragments", bytes: frame(0x01) + frame(0x00) + frame(0x80), messages: [.text("")]),
        Stream(
            testDescription: "an empty middle fragment", bytes: frame(0x02, [1, 2]) + frame(0x00) + frame(0x80, [3]),
            messages: [.binary([1, 2, 3])]),
        Stream(
            testDescription: "pings between fragments",
            bytes: frame(0x01, "he") + frame(0x89, "p1") + frame(0x00, "l") + frame(0x8A, "p2") + frame(0x89) + frame(0x80, "lo"),
            messages: [
                TransportMessage(.ping, Array("p1".utf8)), TransportMessage(.pong, Array("p2".utf8)), TransportMessage(.ping, []),
                .text("hello"),
            ]),
        Stream(
            testDescription: "characters split between fragments",
            bytes: frame(0x01, [0xCE]) + frame(0x00, [0xBA, 0xF0, 0x9F]) + frame(0x89, [0xFF]) + frame(0x80, [0x98, 0x80]),
            messages: [TransportMessage(.ping, [0xFF]), .text("κ😀")]),
        Stream(
            testDescription: "lengths around the limit of a short header",
            bytes: frame(0x82, [UInt8](repeating: 1, count: 125)) + frame(0x82, [UInt8](repeating: 2, count: 126))
                + frame(0x82, [UInt8](repeating: 3, count: 127)),
            messages: [125, 126, 127].enumerated().map { .binary([UInt8](repeating: UInt8($0.offset + 1), count: $0.element)) }),
        Stream(
            testDescription: "masked frames of all kinds",
            bytes: frame(0x81, "price", key: key) + frame(0x02, [9, 8, 7, 6, 5], key: [1, 2, 3, 4]) + frame(0x89, "?", key: [0, 0, 0, 0])
                + frame(0x80, [4, 3, 2], key: [255, 0, 255, 0]),
            messages: [.text("price"), TransportMessage(.ping, Array("?".utf8)), .binary([9, 8, 7, 6, 5, 4, 3, 2])], role: .server),
    ]

    @Test(arguments: streams) func `messages are decoded independently of how the input is split`(_ stream: Stream) {
        let expected = Decoded(messages: stream.messages)
        expectEqual(decode([stream.bytes], role: stream.role), expected)
        for pieces in everySplit(stream.bytes) { expectEqual(decode(pieces, role: stream.role), expected) }
    }

    struct Violation: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var code: CloseCode
        var role = WebSocketRole.client

        init(_ name: String, _ bytes: [UInt8], _ code: CloseCode = .protocolError, role: WebSocketRole = .client) {
            (self.testDescription, self.bytes, self.code, self.role) = (name, bytes, code, role)
        }
    }

    static let violations = [
        Violation("RSV1", frame(0xC1, "x")), Violation("RSV2", frame(0xA1, "x")), Violation("RSV3", frame(0x91, "x")),
        Violation("RSV on a ping", frame(0xC9)), Violation("RSV on a continuation", frame(0x01, "x") + frame(0xC0, "y")),
        Violation("opcode 3", frame(0x83)), Violation("opcode 7", frame(0x87, "x")), Violation("opcode 11", frame(0x8B)),
        Violation("opcode 15", frame(0x8F, "x")),
        Violation("a masked frame for a client", frame(0x81, "x", key: [1, 2, 3, 4])),
        Violation("an unmasked frame for a server", frame(0x81, "x"), role: .server),
        Violation("an empty unmasked frame for a server", frame(0x81), role: .server),
        Violation("a ping without FIN", frame(0x09, "x")), Violation("a close without FIN", frame(0x08)),
        Violation("a ping of 126 bytes", frame(0x89, [UInt8](repeating: 1, count: 126))),
        Violation("a close of 126 bytes", frame(0x88, [UInt8](repeating: 1, count: 126))),
        Violation("a continuation without a message", frame(0x80, "x")), Violation("a fragment without a message", frame(0x00, "x")),
        Violation("a continuation after a whole message", frame(0x81, "ok") + frame(0x80, "x")),
        Violation("a message inside a fragmented message", frame(0x01, "x") + frame(0x81, "y")),
        Violation("a first fragment inside a fragmented message", frame(0x01, "x") + frame(0x02, "y")),
        Violation("a short length in two bytes", frame(0x81, [UInt8](repeating: 0x61, count: 125), lengthBytes: 2)),
        Violation("an empty length in two bytes", frame(0x82, [], lengthBytes: 2)),
        Violation("a length of two bytes in eight", frame(0x81, [UInt8](repeating: 0x61, count: 300), lengthBytes: 8)),
        Violation("a length with its highest bit set", frame(0x82, lengthBytes: 8, claims: 1 << 63)),
        Violation("a close of one byte", frame(0x88, [3])),
        Violation("text that is not UTF-8", frame(0x81, [0x61, 0xFF]), .invalidPayload),
        Violation("masked text that is not UTF-8", frame(0x81, [0x61, 0xFF], key: [9, 8, 7, 6]), .invalidPayload, role: .server),
        Violation("text that ends inside a character", frame(0x81, [0x61, 0xC3]), .invalidPayload),
        Violation("fragments with an invalid byte", frame(0x01, [0xC3]) + frame(0x80, [0x41]), .invalidPayload),
        Violation("fragments that end inside a character", frame(0x01, "x") + frame(0x80, [0xF0, 0x9F]), .invalidPayload),
        Violation("a surrogate", frame(0x81, [0xED, 0xA0, 0x80]), .invalidPayload),
        Violation("a reason that is not UTF-8", frame(0x88, [0x03, 0xE8, 0xFF]), .invalidPayload),
        Violation("a reason that ends inside a character", frame(0x88, [0x03, 0xE8, 0xC3]), .invalidPayload),
    ]

    @Test(arguments: violations) func `a violation of the protocol ends the stream after the messages before it`(_ violation: Violation) {
        let before: [TransportMessage] = [.text("before"), .binary([1])]
        let key: [UInt8]? = violation.role == .server ? Self.key : nil
        let bytes = frame(0x81, "before", key: key) + frame(0x82, [1], key: key) + violation.bytes + frame(0x81, "after", key: key)
        let whole = decode([bytes], role: violation.role)
        expectEqual(whole.failure, violation.code)
        expectEqual(Array(whole.messages.prefix(2)), before)
        expect(!whole.messages.contains(.text("after")))
        for pieces in everySplit(bytes) { expectEqual(decode(pieces, role: violation.role), whole) }
    }

    @Test func `invalid text is detected before its frame is complete`() {
        let bytes = frame(0x01, [0x61, 0xED, 0xA0, 0x80], claims: 100)
        let decoded = decode(bytes.map { [$0] }.dropLast())
        expectEqual(decoded.failure, .invalidPayload)
    }

    @Test func `a frame over the limit is rejected by its header`() {
        expectEqual(decode([frame(0x82, claims: 101)], limit: 100).failure, .tooLarge)
        expectEqual(decode([frame(0x82, lengthBytes: 8, claims: UInt64(Int.max))], limit: 100).failure, .tooLarge)
        expectEqual(decode([frame(0x82, [UInt8](repeating: 1, count: 100))], limit: 100).messages.count, 1)
    }

    @Test func `a fragmented message over the limit is rejected by the header of the exceeding fragment`() {
        let first = frame(0x02, [UInt8](repeating: 1, count: 60)) + frame(0x00, [UInt8](repeating: 1, count: 40))
        expectEqual(decode([first + frame(0x80)], limit: 100).messages.count, 1)
        expectEqual(decode([first, frame(0x80, claims: 1)], limit: 100).failure, .tooLarge)
        expectEqual(decode([first + frame(0x89, "ping") + frame(0x80)], limit: 100).messages.count, 2)
    }

    @Test func `a limit of zero accepts control frames and empty messages`() {
        expectEqual(decode([frame(0x89, "x") + frame(0x81)], limit: 0).messages.count, 2)
    }

    @Test func `the result reports whether there is a ping`() {
        var decoder = FrameDecoder(role: .client, messageLimit: 100)
        var batch = MessageBatch()
        let bytes = frame(0x89, "one") + frame(0x81, "text") + frame(0x89, "two") + frame(0x8A, "pong")
        expect(bytes.withUnsafeBytes { decoder.decode($0, into: &batch) }.hasPing)
        let others = frame(0x81, "text") + frame(0x8A, "pong")
        expect(!others.withUnsafeBytes { decoder.decode($0, into: &batch) }.hasPing)
    }

    @Test func `a decoder takes less than 100 bytes`() {
        expect(MemoryLayout<FrameDecoder>.size < 100)
    }

    @Test func `an invalid frame leaves no bytes in the batch`() {
        var decoder = FrameDecoder(role: .client, messageLimit: 100)
        var batch = MessageBatch()
        _ = (frame(0x81, "good") + frame(0x81, [0xFF])).withUnsafeBytes { decoder.decode($0, into: &batch) }
        expectEqual(batch.bytes, Array("good".utf8))
        expectEqual(batch.entries.count, 1)
    }
}

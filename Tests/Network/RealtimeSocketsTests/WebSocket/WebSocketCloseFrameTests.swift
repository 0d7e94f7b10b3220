import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite struct WebSocketCloseFrameTests {
    @Test(arguments: [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999] as [UInt16])
    func `a valid close code is reported with its reason`(_ code: UInt16) {
        let bytes = closeFrame(code, "why")
        for pieces in everySplit(bytes) + [[bytes]] {
            expectEqual(decode(pieces), Decoded(end: .close(CloseCode(rawValue: code), "why")))
        }
    }

    @Test(arguments: [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] as [UInt16])
    func `an invalid close code is a violation`(_ code: UInt16) {
        expectEqual(decode([closeFrame(code, "why")]).failure, .protocolError)
        expect(!CloseCode(rawValue: code).mayBeSent)
    }

    @Test func `a close frame may be empty`() {
        expectEqual(decode([frame(0x88)]), Decoded(end: .close(.noStatus, "")))
    }

    @Test func `bytes after a close frame are ignored`() {
        let bytes = frame(0x81, "last") + closeFrame(1000) + frame(0x81, "ignored") + [0xFF, 0xFF]
        let expected = Decoded(messages: [.text("last")], end: .close(.normal, ""))
        expectEqual(decode([bytes]), expected)
        for pieces in everySplit(bytes) { expectEqual(decode(pieces), expected) }
    }

    @Test func `a close frame inside a fragmented message ends the stream`() {
        expectEqual(decode([frame(0x01, "half") + closeFrame(1001, "bye")]), Decoded(end: .close(.goingAway, "bye")))
    }

    @Test func `a reason of 123 bytes is sent in full`() {
        let reason = String(repeating: "r", count: 123)
        var output: [UInt8] = []
        FrameEncoder.appendClose(.normal, reason: reason, mask: nil, to: &output)
        expectEqual(output, closeFrame(1000, reason))
        expectEqual(decode([output]), Decoded(end: .close(.normal, reason)))
    }

    @Test func `a longer reason is truncated between characters`() {
        var output: [UInt8] = []
        FrameEncoder.appendClose(.normal, reason: String(repeating: "é", count: 100), mask: nil, to: &output)
        expectEqual(decode([output]), Decoded(end: .close(.normal, String(repeating: "é", count: 61))))
    }

    @Test(arguments: [0, 1005, 1006, 1015, 5000] as [UInt16]) func `a code that must not be sent is omitted along with its reason`(
        _ code: UInt16
    ) {
        var output: [UInt8] = []
        FrameEncoder.appendClose(CloseCode(rawValue: code), reason: "text", mask: nil, to: &output)
        expectEqual(output, frame(0x88))
    }
}

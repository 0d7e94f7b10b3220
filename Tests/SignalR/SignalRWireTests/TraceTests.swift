import RealtimeCore
import RealtimeCoding
import TestSupport
import Testing

@testable import SignalRWire

@Suite struct HubMessageTraceTests {
    private func text(_ message: TransportMessage) -> String { HubMessageTrace.text(message.kind, message.bytes[...]) }

    @Test(arguments: HubFormat.allCases)
    func `the messages of both formats are shown as JSON`(_ format: HubFormat) throws {
        let handshake = TransportMessage(format.messageKind, HubHandshake.request(format, version: 1))
        expectEqual(self.text(handshake), #"{"protocol":"\#(format.protocolName)","version":1}"#)
        let arguments = try HubValueCoder(format).arguments("a", 1)
        let invocation = HubMessage.invocation(HubInvocation(id: "1", target: "Add", arguments: arguments))
        var batch = HubMessageWriter.message(invocation, format)
        batch.bytes += HubMessageWriter.message(.ping, format).bytes
        let expected =
            format == .json
            ? #"{"type":1,"invocationId":"1","target":"Add","arguments":["a",1]} {"type":6}"# : #"[1,{},"1","Add",["a",1],[]] [6]"#
        expectEqual(self.text(batch), expected)
    }

    @Test func `what isn't a message is described by its size`() {
        expectEqual(self.text(.binary([0x05, 0x01])), "2 bytes")
        expectEqual(self.text(.binary([0xFF, 0xFF, 0xFF, 0xFF, 0xFF])), "5 bytes")
        expectEqual(self.text(.binary([0x01, 0xC1])), "2 bytes")
        expectEqual(self.text(.binary([])), "")
        expectEqual(self.text(TransportMessage(.ping, [1])), "ping of 1 bytes")
    }

    @Test func `a long message is cut`() {
        let text = self.text(.text(#"{"type":1,"target":"\#(String(repeating: "x", count: 10_000))"}"#))
        expect(text.utf8.count < 4_200 && text.hasSuffix("… (10022 bytes)"))
    }
}

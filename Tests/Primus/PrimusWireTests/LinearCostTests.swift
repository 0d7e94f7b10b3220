import PrimusWire
import RealtimeCore
import TestSupport
import Testing

@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct PrimusWireLinearCostTests {
    @Test func `reading a frame of SockJS costs as much as it has bytes`() async throws {
        try await expectLinearCost { count in
            let frame = TransportMessage.text("a[" + Array(repeating: #""\"x\"""#, count: count).joined(separator: ",") + "]")
            return { expectEqual(PrimusFraming.sockJS(.client).lines(frame).count, count) }
        }
    }

    @Test(arguments: EngineIOPayloadFormat.allCases)
    func `reading a body of engine io costs as much as it has bytes`(format: EngineIOPayloadFormat) async throws {
        try await expectLinearCost { count in
            let body = EngineIOPayload.encode(Array(repeating: TransportMessage.text("4x"), count: count)[...], format).body
            return { expectEqual(EngineIOPayload.decode(body, format).packets.count, count) }
        }
    }

    @Test func `reading a long packet of a body of bytes in pieces costs as much as it has bytes`() async throws {
        try await expectLinearCost { count in
            let packet = TransportMessage.text("4" + String(repeating: "é😀", count: count))
            let body = EngineIOPayload.encode([packet], .bytes).body
            return { expectEqual(EngineIOPayload.decode(body, .bytes, pieces: 100).packets, [packet]) }
        }
    }

    @Test(arguments: ParserTests.codings)
    func `decoding an object costs as much as it has members`(coding: PrimusCoding) async throws {
        try await expectLinearCost { count in
            let object = PrimusValue.Object((0..<count).map { (key: "key\($0)", value: PrimusValue.int(Int64($0))) })
            let packet = try coding.message(.object(object))
            return { () throws -> Void in try expectEqual(coding.value(of: packet).object?.count, count) }
        }
    }
}

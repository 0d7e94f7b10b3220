import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Packets of a client that cost a lot, that resemble packets of plugins or values of a parser, or that aren't valid.
@Suite(.timeLimit(.minutes(10))) struct PacketBadInputTests {
    struct Packet: Sendable, CustomTestStringConvertible {
        let parser: PrimusParserKind
        let testDescription: String
        let message: TransportMessage

        init(_ parser: PrimusParserKind, _ name: String, _ text: String) {
            (self.parser, self.testDescription, self.message) = (parser, "\(parser): \(name)", .text(text))
        }

        init(_ parser: PrimusParserKind, _ name: String, _ bytes: [UInt8]) {
            (self.parser, self.testDescription, self.message) = (parser, "\(parser): \(name)", .binary(bytes))
        }
    }

    private static func nested(_ start: String, _ depth: Int, _ end: String) -> String {
        String(repeating: start, count: depth) + "1" + String(repeating: end, count: depth)
    }

    private static func list(_ start: String, _ element: String, _ end: String) -> String {
        start + Array(repeating: element, count: 5_000).joined(separator: ",") + end
    }

    private static func bytes(_ start: [UInt8], _ count: Int, _ element: UInt8...) -> [UInt8] {
        var bytes = start
        for _ in 0..<count { bytes += element }
        return bytes
    }

    private static func texts(_ parser: PrimusParserKind) -> [Packet] {
        let arrays = Self.nested("[", 50_000, "]")
        let keys = (0..<5_000).map { "\"\($0)\":[]" }.joined(separator: ",")
        return [
            Packet(parser, "arrays in each other", arrays),
            Packet(parser, "objects in each other", Self.nested(#"{"a":"#, 50_000, "}")),
            Packet(parser, "an event of the emitter with arrays in each other", #"{"type":0,"data":["a",\#(arrays)]}"#),
            Packet(parser, "a message of a channel with arrays in each other", #"[0,"i","c",\#(arrays)]"#),
            Packet(parser, "many members of one key", Self.list("{", #""a":1"#, "}")),
            Packet(parser, "members of many keys", "{\(keys)}"), Packet(parser, "many arrays", Self.list("[", "[]", "]")),
            Packet(parser, "an acknowledgement without bounds", #"{"type":1,"id":1e300,"data":[]}"#),
            Packet(parser, "an acknowledgement that no caller waits for", #"{"type":1,"id":9007199254740993,"data":[]}"#),
            Packet(parser, "the end of an unknown channel", #"[2,"i","c"]"#),
            Packet(parser, "a request without an ID", #"{"plugin":"primus-responder"}"#),
            Packet(parser, "a response that no caller waits for", #"{"plugin":"primus-responder","responseId":"r","data":1}"#),
            Packet(parser, "the end of an unknown substream", #"{"substream":"s","args":"substream::end"}"#),
            Packet(parser, "the prototype of an object", #"{"__proto__":{"x":1},"constructor":null}"#),
            Packet(parser, "half of a surrogate pair", #"{"\ud800":"\udc00"}"#),
            Packet(parser, "a number without bounds", "[1e400,-1e400]"), Packet(parser, "no value", ""),
            Packet(parser, "no JSON", "<html>"),
        ]
    }

    private static let ejson = [
        Packet(.ejson, "a date without bounds", #"{"$date":1e300}"#),
        Packet(.ejson, "a date that is none", #"{"$date":{"$date":[]}}"#),
        Packet(.ejson, "dates in each other", Self.nested(#"{"$date":"#, 20_000, "}")),
        Packet(.ejson, "escapes in each other", Self.nested(#"{"$escape":"#, 20_000, "}")),
        Packet(.ejson, "types in each other", Self.nested(#"{"$type":"a","$value":"#, 20_000, "}")),
        Packet(.ejson, "types in each other, within the limit", Self.nested(#"{"$type":"a","$value":"#, 200, "}")),
        Packet(.ejson, "an expression", #"{"$regexp":"(a+)+$(","$flags":"gggg"}"#), Packet(.ejson, "no expression", #"{"$regexp":5}"#),
        Packet(.ejson, "no Base64", #"{"$binary":"%%%"}"#), Packet(.ejson, "half of Base64", #"{"$binary":"A"}"#),
        Packet(.ejson, "an infinite number that is none", #"{"$InfNaN":7}"#),
        Packet(.ejson, "a type without a name", #"{"$type":5,"$value":1}"#),
    ]

    private static func counts(_ parser: PrimusParserKind) -> [Packet] {
        [
            Packet(parser, "more elements than bytes", [0xDD, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0]),
            Packet(parser, "more members than bytes", [0xDF, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0]),
            Packet(parser, "a longer text than there is", [0xDB, 0xFF, 0xFF, 0xFF, 0xFF, 0x61]),
            Packet(parser, "many empty values", Self.bytes([0xDC, 0x40, 0x00], 0x4000, 0xC0)),
            Packet(parser, "many empty maps", Self.bytes([0xDC, 0x40, 0x00], 0x4000, 0x80)),
            Packet(parser, "arrays in each other", Self.bytes([], 50_000, 0x91) + [0xC0]),
            Packet(parser, "maps in each other", Self.bytes([], 50_000, 0x81, 0x01) + [0xC0]), Packet(parser, "no value", [UInt8]()),
            Packet(parser, "bytes behind the value", [0xC0, 0xC0]),
        ]
    }

    private static let messagePack = [
        Packet(.msgpack, "many members of one key", Self.bytes([0xDE, 0x10, 0x00], 0x1000, 0xA1, 0x61, 0xC0)),
        Packet(.msgpack, "a longer extension value than there is", [0xC9, 0x00, 0x7A, 0x12, 0x00, 0x05]),
        Packet(.msgpack, "a long extension value", Self.bytes([0xC8, 0xFF, 0xFF, 0x05], 0xFFFF, 0x07)),
        Packet(.msgpack, "a date that isn't a number", [0xC7, 0x09, 0x0D, 0xCB, 0x7F, 0xF8, 0, 0, 0, 0, 0, 0]),
        Packet(.msgpack, "a date that is a text", [0xD4, 0x0D, 0xA0]),
        Packet(.msgpack, "an expression without a pattern", [0xD4, 0x0A, 0x90]),
        Packet(.msgpack, "text that isn't UTF-8", [0xA2, 0xC3, 0x28]), Packet(.msgpack, "a format that doesn't exist", [0xC1]),
        Packet(.msgpack, "an event without a name", [0x82, 0xA4, 0x74, 0x79, 0x70, 0x65, 0x00, 0xA4, 0x64, 0x61, 0x74, 0x61, 0x91, 0xC0]),
    ]

    private static let packets: [Packet] = [
        Self.texts(.json), Self.texts(.ejson), Self.ejson, Self.counts(.msgpack), Self.counts(.binary), Self.messagePack,
    ].flatMap { $0 }

    private struct Members: Decodable { var a: [Int]? }

    @Test(arguments: Self.packets, [[], .all] as [PrimusServerPlugins])
    func `a packet concerns neither the packets around it nor other clients`(packet: Packet, plugins: PrimusServerPlugins) async throws {
        let test = try await ServerUnderTest { ($0.parser, $0.plugins, $0.pingInterval) = (packet.parser, plugins, nil) }
        let coding = try #require(PrimusCoding(packet.parser))
        let numbers = EventRecorder<Int>()
        let token = test.server.onMessage(on: CallbackExecutor { $0() }) { message in
            // An application that reads whatever it gets.
            _ = try? message.decode(as: Members.self)
            if let number = (try? message.value)?.int { numbers.record(number) }
        }
        let (client, neighbor) = (test.client(), test.client())
        client.socket.send([try coding.message(PrimusValue.int(1)), packet.message, packet.message, try coding.message(PrimusValue.int(2))])
        neighbor.socket.send([try coding.message(PrimusValue.int(3))])
        expectEqual(numbers.all, [1, 2, 3])
        expect(client.end == nil && neighbor.end == nil && test.server.sparks.count == 2)
        token.cancel()
    }
}

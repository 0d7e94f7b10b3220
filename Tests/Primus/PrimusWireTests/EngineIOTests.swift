import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import TestSupport
import Testing

@Suite struct EngineIOTests {
    private static let v3 = PrimusFraming.engineIO(.v3, .client)
    private static let v4 = PrimusFraming.engineIO(.v4, .client)

    // MARK: Over a WebSocket

    @Test(arguments: [Self.v3, Self.v4])
    func `packets of text are the same in both versions`(framing: PrimusFraming) {
        expectEqual(framing.lines(#"4"primus::id::""#), [#"packet "primus::id::""#])
        expect(framing.lines("4") == ["packet "] && framing.lines("2probe") == ["ping probe"] && framing.lines("3") == ["pong "])
        expect(framing.lines("1") == ["closed - "] && framing.lines("5").isEmpty && framing.lines("6").isEmpty)
        expectEqual(framing.lines(#"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#), ["opened a 25000 20000"])
    }

    @Test func `binary messages have a type in version 3 only`() {
        expect(Self.v4.lines(.binary([4, 1, 2])) == ["binary 040102"] && Self.v4.lines(.binary([])) == ["binary "])
        expectEqual(Self.v3.lines(.binary([4, 1, 2])), ["binary 0102"])
        expect(Self.v3.lines(.binary([9]))[0].hasPrefix("invalid") && Self.v3.lines(.binary([]))[0].hasPrefix("invalid"))
    }

    @Test(arguments: EngineIOVersion.allCases)
    func `a packet is the same after encoding and reading`(version: EngineIOVersion) {
        let client = PrimusFraming.engineIO(version, .client)
        let server = PrimusFraming.engineIO(version, .server)
        let messages = client.messages([.text("a"), .binary([1, 2]), .text("")])
        expectEqual(messages.flatMap { server.lines($0) }, ["packet a", "binary 0102", "packet "])
        expectEqual(client.ping("probe").map { server.lines($0) }, ["ping probe"])
        expectEqual(client.pong("x").map { server.lines($0) }, ["pong x"])
        expectEqual(server.opening(EngineIOHandshake(sid: "s")).map { client.lines($0) }, ["opened s 25000 20000"])
        expect(client.opening(EngineIOHandshake(sid: "s")) == nil && client.hasHandshake && !server.hasHandshake)
    }

    @Test func `a server ignores what only a server sends, and the close packet of a client`() {
        let server = PrimusFraming.engineIO(.v4, .server)
        for text in ["0", "1", "5", "6"] { expect(server.lines(text).isEmpty) }
    }

    @Test(arguments: ["", "7", "x", "/", "-1", "\u{1E}"])
    func `text without a type is invalid`(text: String) {
        expectEqual(Self.v4.lines(text).first?.hasPrefix("invalid A packet of engine.io"), true)
    }

    @Test(arguments: [
        ("0", "isn't JSON"), ("0{}", "no session ID"), (#"0{"sid":""}"#, "no session ID"),
        (#"0{"sid":"a","pingInterval":-1}"#, "\"pingInterval\""),
        (#"0{"sid":"a","pingTimeout":"1"}"#, "\"pingTimeout\""), (#"0{"sid":"a","maxPayload":1e99}"#, "\"maxPayload\""),
        (#"0{"sid":"a","pingInterval":1e300}"#, "\"pingInterval\""), (#"0{"sid":"a","pingInterval":2147483648}"#, "\"pingInterval\""),
        (#"0{"sid":"a","pingTimeout":0.5}"#, "\"pingTimeout\""), (#"0{"sid":"a","pingTimeout":null}"#, "\"pingTimeout\""),
        (#"0{"sid":"a","maxPayload":-1}"#, "\"maxPayload\""), (#"0{"sid":5}"#, "no session ID"), (#"0{"sid":["a"]}"#, "no session ID"),
        ("0null", "no session ID"), (#"0["a"]"#, "no session ID"), ("0{\"sid\":" + String(repeating: "[", count: 100_000), "isn't JSON"),
        ("0{\"sid\":\"\(String(repeating: "a", count: 100_000))\"}", "isn't JSON"),
    ])
    func `an invalid handshake says what is wrong`(text: String, problem: String) {
        let lines = Self.v4.lines(text)
        expect(lines.count == 1 && lines[0].hasPrefix("invalid") && lines[0].contains(problem), "\(lines)")
    }

    @Test func `a handshake keeps what it says, and has the defaults of the original`() throws {
        let text = #"{"sid":"a","upgrades":["websocket"],"pingInterval":1,"pingTimeout":2,"maxPayload":3}"#
        let handshake = try EngineIOHandshake(parsing: Array(text.utf8))
        expectEqual(handshake, EngineIOHandshake(sid: "a", upgrades: ["websocket"], pingInterval: 1, pingTimeout: 2, maxPayload: 3))
        expectEqual(handshake.json.description, text)
        try expectEqual(EngineIOHandshake(parsing: Array(#"{"sid":"a"}"#.utf8)), EngineIOHandshake(sid: "a"))
    }

    @Test(arguments: [
        (#""upgrades":{}"#, []), (#""upgrades":"websocket""#, []), (#""upgrades":[1,null,"websocket",["websocket"]]"#, ["websocket"]),
        (#""upgrades":["webtransport","\r\n"]"#, ["webtransport", "\r\n"]),
        (#""more":{"sid":"b"}"#, []), (#""pingInterval":0,"maxPayload":0"#, []),
    ])
    func `members of a handshake that can't be used have no effect on others`(members: String, upgrades: [String]) throws {
        let handshake = try EngineIOHandshake(parsing: Array(#"{"sid":"a",\#(members),"pingTimeout":7}"#.utf8))
        expect(handshake.sid == "a" && handshake.upgrades == upgrades && handshake.pingTimeout == 7 && handshake.maxPayload == nil)
    }

    @Test(arguments: EngineIOError.Refusal.allCases)
    func `refusals are recognized by their code or their text`(refusal: EngineIOError.Refusal) {
        expectEqual(EngineIOError(refusal: refusal.json.bytes)?.refusal, refusal)
        expectEqual(EngineIOError(refusal: Array(refusal.message.utf8))?.refusal, refusal)
        expectEqual(Self.v4.lines(refusal.message), ["invalid The server of engine.io refuses: \(refusal.message)."])
        expect(EngineIOError(refusal: Array("{}".utf8)) == nil && EngineIOError(refusal: Array(#"{"code":99}"#.utf8)) == nil)
    }

    // MARK: Bodies

    private static func packets(_ format: EngineIOPayloadFormat) -> [TransportMessage] {
        [
            EngineIOPacket(.message, #"{"a":"€😀"}"#), EngineIOPacket(.message, [1, 2, 3], isBinary: true), EngineIOPacket(.noop),
            EngineIOPacket(.message, ""), EngineIOPacket(.ping, "probe"),
        ].map { $0.transportMessage(format == .separated ? .v4 : .v3) }
    }

    @Test func `bodies have the forms of their versions`() {
        let v4 = EngineIOPayload.encode(Self.packets(.separated)[...], .separated)
        expect(v4.count == 5 && String(decoding: v4.body, as: UTF8.self) == "4{\"a\":\"€😀\"}\u{1E}bAQID\u{1E}6\u{1E}4\u{1E}2probe")
        let v3 = EngineIOPayload.encode(Self.packets(.counted)[...], .counted)
        expect(v3.count == 5 && String(decoding: v3.body, as: UTF8.self) == #"12:4{"a":"€😀"}6:b4AQID1:61:46:2probe"#)
        let bytes = EngineIOPayload.encode(Self.packets(.bytes)[...], .bytes)
        expect(
            bytes.count == 5
                && hex(bytes.body) == "000106ff347b2261223a22e282acf09f9880227d" + "0104ff04010203" + "0001ff36" + "0001ff34"
                    + "0006ff3270726f6265"
        )
    }

    @Test(arguments: EngineIOPayloadFormat.allCases)
    func `a body is the same after encoding and decoding in pieces of any size`(format: EngineIOPayloadFormat) {
        let body = EngineIOPayload.encode(Self.packets(format)[...], format).body
        for pieces in 1...body.count {
            let decoded = EngineIOPayload.decode(body, format, pieces: pieces)
            expect(decoded.packets == Self.packets(format) && decoded.error == nil, "\(pieces)")
        }
    }

    @Test(arguments: EngineIOVersion.allCases)
    func `the size of a packet in a body is known before it is encoded`(version: EngineIOVersion) {
        let long = [1, 2, 3, 9, 100].map {
            EngineIOPacket(.message, [UInt8](repeating: 7, count: $0), isBinary: true).transportMessage(version)
        }
        for packet in Self.packets(EngineIOPayloadFormat(version)) + long {
            let count = EngineIOPayload.encode([packet], EngineIOPayloadFormat(version)).body.count
            // The length of version 3 counts UTF-16 code units, which are fewer than bytes.
            expect(EngineIOPayload.size(of: packet, version) - count == 0 || version == .v3 && !packet.bytes.allSatisfy { $0 < 0x80 })
            expect(EngineIOPayload.size(of: packet, version) >= count)
        }
    }

    @Test(arguments: EngineIOPayloadFormat.allCases)
    func `a body takes as many packets as fit, and at least one`(format: EngineIOPayloadFormat) {
        let packets = Array(repeating: TransportMessage.text("412345678"), count: 10)
        for limit in 0..<60 {
            let (body, count) = EngineIOPayload.encode(packets[...], format, limit: limit)
            expect(count == 1 || body.count <= limit)
            let next = EngineIOPayload.encode(packets[..<(count + 1)], format).body
            expect(count == 10 || next.count > limit)
            expectEqual(EngineIOPayload.decode(body, format).packets.count, count)
        }
    }

    @Test(arguments: EngineIOPayloadFormat.allCases)
    func `a packet of a body has a maximum size, wherever the body is cut`(format: EngineIOPayloadFormat) {
        let packets = [TransportMessage.text("412345678"), .text("4123456789")]
        let body = EngineIOPayload.encode(packets[...], format).body
        for pieces in [1, 5, Int.max] {
            expectEqual(EngineIOPayload.decode(body, format, limit: 10, pieces: pieces).packets, packets)
            let decoded = EngineIOPayload.decode(body, format, limit: 9, pieces: pieces)
            expect(decoded.packets == [packets[0]] && decoded.error?.problem.contains("more than 9 bytes") == true)
        }
    }

    @Test(arguments: ["9", "4a\u{1E}\u{1E}4b", "4a\u{1E}bA", "4a\u{1E}b!!!!\u{1E}4b", "4a\u{1E}7"])
    func `an invalid packet of version 4 is passed on as it is, and harms no other`(body: String) {
        let decoded = EngineIOPayload.decode(Array(body.utf8), .separated)
        expectEqual(decoded.packets, body.split(separator: "\u{1E}", omittingEmptySubsequences: false).map { .text(String($0)) })
        expectNil(decoded.error)
    }

    @Test(arguments: [("2:4a2:9b", ["4a", "9b"]), ("2:4a1:b2:4b", ["4a", "b", "4b"]), ("3:b4!2:4b", ["b4!", "4b"]), ("0:0:", [])])
    func `an invalid packet of version 3 is passed on as it is, and harms no other`(body: String, packets: [String]) {
        let decoded = EngineIOPayload.decode(Array(body.utf8), .counted)
        expect(decoded.packets == packets.map { .text($0) } && decoded.error == nil)
    }

    @Test(arguments: [
        ("2:4a5:4b", 1), ("2:4a:4b", 1), ("2:4ax:4b", 1), ("2:4a-1:4b", 1), ("99999999999999:4", 0), ("2:4a3:b4", 1), ("2:4a2", 1),
        ("2:4😀", 0), ("4a", 0),
    ])
    func `after a wrong length, the rest of a body of version 3 can't be read`(body: String, count: Int) {
        for pieces in [1, 3, Int.max] {
            let decoded = EngineIOPayload.decode(Array(body.utf8), .counted, pieces: pieces)
            expect(decoded.packets.count == count && decoded.error != nil, "\(decoded)")
        }
    }

    @Test(arguments: [
        ("0001ff34 0002ff", 1), ("0001ff34 0002ff34", 1), ("0001ff34 00ff", 1), ("0001ff34 0201ff34", 1), ("000aff34", 0), ("00", 0),
        ("0001", 0), ("000000000000000000000000ff", 0), ("312c34", 0), ("0009090909090909090909ff34", 0),
    ])
    func `after a wrong length, the rest of a body of bytes can't be read`(body: String, count: Int) {
        let bytes = Hex.decode(body.filter { $0 != " " }) ?? []
        for pieces in [1, 3, Int.max] {
            let decoded = EngineIOPayload.decode(bytes, .bytes, pieces: pieces)
            expect(decoded.packets.count == count && decoded.error != nil, "\(decoded)")
        }
    }

    @Test(arguments: ["{\"a\":\"é😀\"}", "é", "a", "éé", "😀😀é"])
    func `lengths of a body of bytes may count UTF-16 code units, as before engine io-parser 1 0 5`(text: String) {
        let packet = Array("4\(text)".utf8)
        let digits = "\(text.utf16.count + 1)".utf8.map { $0 - 0x30 }
        let old = [0] + digits + [0xFF] + packet
        let binary: [UInt8] = [1, 2, 0xFF, 4, 200]
        for (body, expected) in [
            (old, [TransportMessage(.text, packet)]), (old + old, [.init(.text, packet), .init(.text, packet)]),
            (old + binary + old, [.init(.text, packet), .binary([4, 200]), .init(.text, packet)]),
        ] {
            for pieces in 1...body.count {
                let decoded = EngineIOPayload.decode(body, .bytes, pieces: pieces)
                expect(decoded.packets == expected && decoded.error == nil, "\(decoded)")
            }
        }
    }

    @Test(arguments: Vectors.lines("primus/polling-bodies-5.2.2.txt").filter { !$0.isEmpty })
    func `bodies of old servers are read in each of their forms`(line: String) throws {
        let fields = line.split(separator: "\t").map(String.init)
        let body = try #require(Hex.decode(fields[3]))
        let decoded = EngineIOPayload.decode(body, fields[2] == EngineIOPayloadFormat.octets ? .bytes : .counted)
        let sid = String(repeating: "S", count: 20)
        let handshake = #"0{"sid":"\#(sid)","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":60000}"#
        let packets =
            fields[1] == "handshake"
            ? [handshake]
            : [#"4{"greeting":"hello","s":"quote \" and \u2028 \u2029 back\\slash é 😀"}"#, #"4{"r":"é😀\u2028"}"#]
        expect(decoded.error == nil && decoded.packets.map { text($0).replacing(#","flashsocket""#, with: "") } == packets)
    }

    @Test func `empty packets of a body of bytes are ignored, and Base64 in one that is text is read`() {
        let bytes = Hex.decode("0000ff" + "0100ff" + "0006ff623441514944" + "0001ff39") ?? []
        for pieces in [1, 2, Int.max] {
            let decoded = EngineIOPayload.decode(bytes, .bytes, pieces: pieces)
            expect(decoded.packets == [TransportMessage.binary([4, 1, 2, 3]), .text("9")] && decoded.error == nil, "\(decoded)")
        }
    }

    @Test(arguments: EngineIOPayloadFormat.allCases)
    func `an empty body has no packets`(format: EngineIOPayloadFormat) {
        let decoded = EngineIOPayload.decode([], format)
        expect(decoded.packets.isEmpty && decoded.error == nil)
    }

    @Test func `invalid UTF-8 in a body is replaced`() {
        let decoded = EngineIOPayload.decode(Array("4a".utf8) + [0xFF, 0x1E] + Array("4b".utf8), .separated)
        expectEqual(decoded.packets, [.text("4a\u{FFFD}"), .text("4b")])
    }
}

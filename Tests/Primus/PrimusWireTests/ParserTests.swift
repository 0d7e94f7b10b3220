import Foundation
import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import TestSupport
import Testing

@Suite struct ParserTests {
    struct Reading: Codable, Equatable {
        var sensor: Int
        var celsius: Double
        var at: PrimusDate
        var raw: [UInt8]
        var tags: [String: String]
    }

    static let reading = Reading(
        sensor: 7, celsius: 21.5, at: PrimusDate(milliseconds: 1_700_000_000_123), raw: [1, 2, 255], tags: ["room": "ä\u{2028}"])
    static let codings: [PrimusCoding] = [.json, .ejson, .messagePack, .binary]

    private func error(_ coding: PrimusCoding, _ packet: TransportMessage, limits: CodingLimits = CodingLimits()) -> PrimusParserError? {
        do {
            _ = try coding.value(of: packet, limits: limits)
            return nil
        } catch {
            return error as? PrimusParserError
        }
    }

    // MARK: Types of the application

    @Test(arguments: Self.codings)
    func `a value of the application is the same after encoding and decoding`(coding: PrimusCoding) throws {
        let packet = try coding.message(encoding: Self.reading)
        expectEqual(packet.kind, coding.messageKind)
        try expectEqual(coding.decode(Reading.self, of: packet), Self.reading)
    }

    @Test(arguments: Self.codings)
    func `a value of the application is decoded from a tree, too`(coding: PrimusCoding) throws {
        let tree = try coding.value(of: coding.message(encoding: Self.reading))
        expect(tree["sensor"] == 7 && tree["tags"]?["room"]?.string == "ä\u{2028}")
        try expectEqual(tree.decode(as: Reading.self), Self.reading)
        try expectEqual(PrimusValue(encoding: Self.reading)["celsius"]?.double, 21.5)
    }

    @Test(arguments: Self.codings)
    func `a tree may be a part of a value of the application`(coding: PrimusCoding) throws {
        let value: [String: PrimusValue] = ["a": [1, nil, "x"], "b": ["c": 0.5]]
        try expectEqual(coding.decode([String: PrimusValue].self, of: coding.message(encoding: value)), value)
    }

    @Test func `what only some parsers carry is a part of a value of the application`() throws {
        let value: [String: PrimusValue] = ["e": .expression(pattern: "a", flags: "i"), "n": .double(.infinity), "b": .bytes([7])]
        for coding in [PrimusCoding.ejson, .messagePack] {
            try expectEqual(coding.decode([String: PrimusValue].self, of: coding.message(encoding: value)), value)
        }
    }

    @Test(arguments: Self.codings)
    func `a type that doesn't match is an error of the decoder`(coding: PrimusCoding) throws {
        let packet = try coding.message(encoding: ["sensor": "x"])
        #expect(throws: DecodingError.self) { try coding.decode(Reading.self, of: packet) }
    }

    @Test(arguments: Self.codings, [PrimusValue.null, true, 0, -1.5, "", "0", [], [:]] as [PrimusValue])
    func `a value of any kind may be at the top`(coding: PrimusCoding, value: PrimusValue) throws {
        try expectEqual(coding.value(of: coding.message(value)), value)
    }

    // MARK: JSON

    @Test func `line separators are escaped, as by the original`() throws {
        expectEqual(text(try PrimusCoding.json.message("a\u{2028}b\u{2029}c")), #""a\u2028b\u2029c""#)
        expectEqual(text(try PrimusCoding.ejson.message(encoding: ["\u{2028}"])), #"["\u2028"]"#)
        expectEqual(text(try PrimusCoding.json.message(encoding: ["\u{2027}\u{2030}€\u{2029}"])), "[\"\u{2027}\u{2030}€\\u2029\"]")
    }

    @Test func `a binary message is the value itself in JSON, and isn't decoded`() throws {
        try expectEqual(PrimusCoding.json.value(of: .binary([1, 2])), .bytes([1, 2]))
        try expectEqual(PrimusCoding.ejson.value(of: .binary([])), .bytes([]))
        try expectEqual(PrimusCoding.json.message(.bytes([1, 2])), .binary([1, 2]))
    }

    private struct File: Codable, Equatable {
        var name: String
        var content: Data
        var digest: [UInt8]?
    }

    @Test(arguments: [PrimusCoding.json, .ejson])
    func `a buffer of Node is decoded as data and as bytes of a type of the application`(coding: PrimusCoding) throws {
        let file = File(name: "a", content: Data([1, 2]), digest: [255])
        let text = #"{"name":"a","content":{"type":"Buffer","data":[1,2]},"digest":{ "data" : [255] , "type" : "Buffer" }}"#
        try expectEqual(coding.decode(File.self, of: .text(text)), file)
        try expectEqual(coding.decode([Data].self, of: .text(#"[{"type":"Buffer","data":[]},"AQI="]"#)), [Data(), Data([1, 2])])
        try expectEqual(coding.decode([UInt8].self, of: .text(#"{"type":"Buffer","data":[0,9]}"#)), [0, 9])
        try expectEqual(coding.decode([UInt8].self, of: .text("[0,9]")), [0, 9])
        for text in [
            #"{"type":"Buffer","data":[256]}"#, #"{"type":"Buffer","data":[[1]]}"#, #"{"type":"Bytes","data":[1]}"#,
            #"{"type":"Buffer","data":[1],"more":1}"#, #"{"type":"Buffer"}"#, #"{"type":"Buffer","data":"AQI="}"#,
        ] {
            #expect(throws: DecodingError.self) { try coding.decode(Data.self, of: .text(text)) }
            #expect(throws: DecodingError.self) { try coding.decode([UInt8].self, of: .text(text)) }
        }
        try expectEqual(coding.decode(File.self, of: coding.message(encoding: file)), file)
    }

    @Test func `the parser json sends data as PrimusValue sends bytes`() throws {
        let data = Data([1, 2])
        let buffer = #"{"type":"Buffer","data":[1,2]}"#
        for value in [PrimusValue.bytes([1, 2]), try PrimusValue(encoding: data)] {
            try expectEqual(PrimusCoding.json.message(value), .binary([1, 2]))
            try expectEqual(PrimusCoding.json.message(value, sendsBytes: false), .text(buffer))
        }
        try expectEqual(PrimusCoding.json.message(encoding: data), .binary([1, 2]))
        try expectEqual(PrimusCoding.json.message(encoding: data, sendsBytes: false), .text(buffer))
        expectEqual(PrimusCoding.nodeBuffer([1, 2]), buffer)
        try expectEqual(PrimusCoding.json.message(encoding: ["file": data]), .text(#"{"file":\#(buffer)}"#))
        // An object of the application that only looks like a buffer isn't one.
        let other = try PrimusCoding.json.message(encoding: ["type": "Buffer"])
        expectEqual(other, .text(#"{"type":"Buffer"}"#))
    }

    @Test func `a buffer of Node is bytes, and anything similar isn't`() throws {
        func value(_ text: String) throws -> PrimusValue { try PrimusCoding.json.value(Array(text.utf8)) }
        try expectEqual(value(#"{"type":"Buffer","data":[0,255]}"#), .bytes([0, 255]))
        try expectEqual(value(#"[{"data":[],"type":"Buffer"}]"#), [.bytes([])])
        for other in [
            #"{"type":"Buffer","data":[256]}"#, #"{"type":"Buffer","data":[0.5]}"#, #"{"type":"Buffer","data":"AQ=="}"#,
            #"{"type":"buffer","data":[1]}"#, #"{"type":"Buffer","data":[1],"x":0}"#,
        ] {
            try expect(value(other).object != nil, "\(other)")
        }
        expectEqual(text(try PrimusCoding.json.message(.bytes([1]), sendsBytes: false)), #"{"type":"Buffer","data":[1]}"#)
    }

    private static let refused: [(PrimusValue, String)] = [
        (PrimusValue.double(.nan), "infinite or not a number"), (.expression(pattern: "a", flags: ""), "regular expression"),
        (.typed(name: "Money", 1), "the type \"Money\""), (.extended(type: 9, []), "extension value of type 9"),
        (.date(PrimusDate(milliseconds: 1e300)), "can't represent the date"),
    ]

    @Test(arguments: Self.refused)
    func `JSON refuses the values that it can't carry, and says which parsers can`(value: PrimusValue, problem: String) {
        let error = #expect(throws: PrimusParserError.self) { try PrimusCoding.json.message([value]) }
        expect(error?.code == .unsupportedValue && error?.message.contains(problem) == true)
    }

    @Test(arguments: ["", "{", "nul", "[1,]", "\"a", "{\"a\":1}x", "\u{FEFF}1"])
    func `text that isn't JSON is an error that names the parser`(packet: String) {
        for coding in [PrimusCoding.json, .ejson] {
            let error = self.error(coding, .text(packet))
            expect(error?.code == .invalidPacket && error?.message.contains("the parser \(coding.kind)") == true)
        }
    }

    // MARK: EJSON

    private static let wrappers: [(String, PrimusValue)] = [
        (#"{"$date":1700000000123}"#, PrimusValue.date(PrimusDate(milliseconds: 1_700_000_000_123))),
        (#"{"$binary":"AQID"}"#, .bytes([1, 2, 3])), (#"{"$binary":""}"#, .bytes([])), (#"{"$InfNaN":1}"#, .double(.infinity)),
        (#"{"$InfNaN":-1}"#, .double(-.infinity)), (#"{"$regexp":"a\\d","$flags":"g"}"#, .expression(pattern: #"a\d"#, flags: "g")),
        (#"{"$type":"Money","$value":{"$date":0}}"#, .typed(name: "Money", .date(PrimusDate(milliseconds: 0)))),
        (#"{"$escape":{"$date":5}}"#, ["$date": 5]), (#"{"$escape":{"$date":{"$date":5}}}"#, ["$date": .date(PrimusDate(milliseconds: 5))]),
        (#"[{"a":{"$InfNaN":1}}]"#, [["a": .double(.infinity)]]), (#"{"$date":1,"x":2}"#, ["$date": 1, "x": 2]),
        (#"{"$date":8640000000000000}"#, .date(PrimusDate(milliseconds: 8.64e15))),
        // A date that is invalid in JavaScript.
        (#"{"$date":8640000000000001}"#, .null), (#"[{"$date":-1e300}]"#, [.null]),
        (#"{"$date":"1"}"#, ["$date": "1"]), (#"{"$InfNaN":2}"#, ["$InfNaN": 2]),
        (#"{"$flags":"","$regexp":"b"}"#, .expression(pattern: "b", flags: "")),
    ]

    @Test(arguments: Self.wrappers)
    func `the wrappers of EJSON are values, and similar objects aren't`(json: String, value: PrimusValue) throws {
        try expectEqual(PrimusCoding.ejson.value(Array(json.utf8)), value)
    }

    private static let wrapped: [(PrimusValue, String)] = [
        (PrimusValue.date(PrimusDate(milliseconds: 5)), #"{"$date":5}"#), (.bytes([1, 2, 3]), #"{"$binary":"AQID"}"#),
        (.double(-.infinity), #"{"$InfNaN":-1}"#), (["$date": 5], #"{"$escape":{"$date":5}}"#),
        (["$type": "a", "$value": 1], #"{"$escape":{"$type":"a","$value":1}}"#), (["$date": 5, "x": 1], #"{"$date":5,"x":1}"#),
        (.typed(name: "T", [.double(.infinity)]), #"{"$type":"T","$value":[{"$InfNaN":1}]}"#),
        (["$escape": [:]], #"{"$escape":{"$escape":{}}}"#),
    ]

    @Test(arguments: Self.wrapped)
    func `values of EJSON are wrapped, and objects that resemble wrappers are escaped`(value: PrimusValue, json: String) throws {
        let packet = try PrimusCoding.ejson.message(value)
        expectEqual(text(packet), json)
        try expectEqual(PrimusCoding.ejson.value(of: packet), value)
    }

    @Test func `a type of the application is decoded from wrappers of EJSON`() throws {
        let json = #"{"sensor":1,"celsius":2,"at":{"\u0024date":5},"raw":{"$binary":"AQ=="},"tags":{}}"#
        let reading = try PrimusCoding.ejson.decode(Reading.self, from: Array(json.utf8))
        expect(reading.at.milliseconds == 5 && reading.raw == [1])
    }

    // MARK: MessagePack

    private static let messagePack: [(String, PrimusValue)] = [
        // Dates that are invalid in JavaScript: `new Date(NaN)`, others that are infinite or far, and a timestamp that is.
        ("c7090dcb7ff8000000000000", PrimusValue.null), ("c7090dcbfff0000000000000", .null), ("c7090dcb7e37e43c8800759c", .null),
        ("c70cff000000007fffffffffffffff", .null),
        ("d40d00", PrimusValue.date(PrimusDate(milliseconds: 0))), ("d6ff00000001", .date(PrimusDate(milliseconds: 1000))),
        ("d412ff", .bytes([255])), ("d41b07", .bytes([7])), ("d41a07", .bytes([7])), ("d41907", .bytes([7])), ("d41d07", .bytes([7])),
        ("c7050ca474657874", "text"), ("d40bc3", true), ("d40f05", 5), ("c7070a92a2612ba26769", .expression(pattern: "a+", flags: "gi")),
        ("d40501", .extended(type: 5, [1])), ("d44201", .extended(type: 0x42, [1])), ("8105c3", ["5": true]), ("81c3c0", ["true": nil]),
        ("cfffffffffffffffff", .double(18_446_744_073_709_551_616)), ("cb4330000000000000", 4_503_599_627_370_496), ("ca3f000000", 0.5),
    ]

    @Test(arguments: Self.messagePack)
    func `MessagePack of msgpack-lite is decoded`(packet: String, value: PrimusValue) throws {
        try expectEqual(PrimusCoding.messagePack.value(try #require(Hex.decode(packet))), value)
    }

    private static let messagePackEncoded: [(PrimusValue, String)] = [
        (.int(2_147_483_647), "ce7fffffff"), (.int(2_147_483_648), "cb41e0000000000000"), (.int(4_294_967_296), "cb41f0000000000000"),
        (.int(-2_147_483_648), "d280000000"), (.int(-2_147_483_649), "cbc1e0000000200000"), (.date(PrimusDate(milliseconds: 0)), "d40d00"),
        (.date(PrimusDate(milliseconds: 1e12)), "c7090dcb426d1a94a2000000"), (.extended(type: 0x42, [1]), "d44201"),
    ]

    @Test(arguments: Self.messagePackEncoded)
    func `MessagePack is encoded as by msgpack-lite`(value: PrimusValue, packet: String) throws {
        expectEqual(hex(try PrimusCoding.messagePack.message(value).bytes), packet)
    }

    @Test func `a date in a type of the application has the form of msgpack-lite`() throws {
        expectEqual(hex(try PrimusCoding.messagePack.message(encoding: [PrimusDate(milliseconds: 0)]).bytes), "91d40d00")
    }

    @Test(arguments: ["d40da1", "d40ac0", "c7030a91a161", "d40dd4", "d4ff00", "8190c0", "c70000", "c7020dd40d"])
    func `an extension value or a key that isn't valid is an error`(packet: String) throws {
        let error = self.error(.messagePack, .binary(try #require(Hex.decode(packet))))
        // An empty extension value of an unknown type is valid.
        expectEqual((error?.code == .invalidPacket), (packet != "c70000"))
    }

    @Test func `MessagePack refuses the types of EJSON`() {
        let error = #expect(throws: PrimusParserError.self) { try PrimusCoding.messagePack.message(.typed(name: "T", 1)) }
        expectEqual(error?.code, .unsupportedValue)
    }

    @Test func `text for a parser of binary messages is an error that names another parser as the reason`() {
        for coding in [PrimusCoding.messagePack, .binary] {
            expectEqual(self.error(coding, .text("{}"))?.message.contains("another parser"), true)
        }
    }

    // MARK: Binary

    private static let binary: [(String, PrimusValue)] = [
        ("c1", PrimusValue.null), ("d3ffffffffffffffff", -1), ("cf0000000100000000", 4_294_967_296),
        ("cfffffffffffffffff", .double(18_446_744_073_709_551_616)), ("da0003010203", .bytes([1, 2, 3])), ("db0000000101", .bytes([1])),
        ("dc000101", [1]), ("dd0000000101", [1]), ("de0001b16101", ["a": 1]), ("df00000001b16101", ["a": 1]), ("8105c3", ["5": true]),
        ("ca3fc00000", 1.5), ("d0ff", -1), ("d1fffe", -2), ("d2fffffffd", -3), ("d90000000161", "a"),
    ]

    @Test(arguments: Self.binary)
    func `all forms of the parser binary are decoded`(packet: String, value: PrimusValue) throws {
        try expectEqual(PrimusCoding.binary.value(try #require(Hex.decode(packet))), value)
    }

    /// Objects with a member `a`, and what that member is.
    private static let members: [(String, PrimusValue)] =
        Self.binary.map { ("81b161" + $0.0, $0.1) } + [
            // Values after an array or an object, keys that aren't UTF-8 or that are numbers, and a key that is repeated.
            ("82b16192c09101b162c2", [nil, [1]]), ("82b16181b1629301c0d0ffb162c2", ["b": [1, nil, -1]]), ("82b1ffc0b16101", 1),
            ("8205c3b161b178", "x"), ("82b16101b16102", 2), ("81b161b1ff", "\u{FFFD}"), ("81b161cb4014000000000000", 5),
            ("81b161cb3fe0000000000000", 0.5), ("81b16180", [:]), ("81b16190", []),
        ]

    private struct Member: Decodable, Equatable {
        var a: PrimusValue?
    }

    @Test(arguments: Self.members)
    func `a type has the same values from a packet of the parser binary as from its tree`(packet: String, value: PrimusValue) throws {
        let bytes = try #require(Hex.decode(packet))
        let expected = Member(a: value.isNull ? PrimusValue?.none : value)
        try expectEqual(PrimusCoding.binary.value(bytes).decode(as: Member.self), expected)
        try expectEqual(PrimusCoding.binary.decode(Member.self, from: bytes), expected)
    }

    @Test(arguments: ["", "81b161", "81b162c0ff", "81c0c0", "81b161d8", "8191c0c0"])
    func `a type is decoded from no invalid packet of the parser binary`(packet: String) throws {
        let bytes = try #require(Hex.decode(packet))
        #expect(throws: PrimusParserError.self) { try PrimusCoding.binary.decode(Member.self, from: bytes) }
    }

    @Test(arguments: [
        ("c4", "begins with the byte 196"), ("81c001", "isn't a string"), ("0000", "bytes follow"), ("dd10000000", "cut off"),
    ])
    func `bytes that aren't valid for the parser binary are an error`(packet: String, problem: String) throws {
        let error = self.error(.binary, .binary(try #require(Hex.decode(packet))))
        expect(error?.code == .invalidPacket && error?.message.contains(problem) == true, "\(error?.message ?? "no error")")
    }

    @Test(arguments: [15, 16, 255, 256, 65_535, 65_536])
    func `lengths have the forms of all sizes`(count: Int) throws {
        let values: [PrimusValue] = [
            .string(String(repeating: "a", count: count)), .bytes(Array(repeating: 7, count: count)),
            .array(Array(repeating: 1, count: count)),
            .object(PrimusValue.Object((0..<count).map { (key: "\($0)", value: PrimusValue.null) })),
        ]
        for coding in [PrimusCoding.messagePack, .binary] {
            for value in values { try expectEqual(coding.value(of: coding.message(value)), value) }
        }
    }

    // MARK: Limits

    @Test(arguments: Self.codings)
    func `a value that is nested too deeply is an error, without a crash`(coding: PrimusCoding) throws {
        let depth = 100_000
        let packet: TransportMessage =
            switch coding.messageKind {
            case .text?: .text(String(repeating: "[", count: depth) + String(repeating: "]", count: depth))
            default: .binary(Array(repeating: 0x91, count: depth) + [0xC0])
            }
        expectEqual(self.error(coding, packet)?.code, .limitExceeded)
        #expect(throws: PrimusParserError.self) { try coding.decode([PrimusValue].self, of: packet) }
    }

    @Test(arguments: [0x0A, 0x0B, 0x0D, 0x0F, 0x70] as [UInt8])
    func `extension values in each other don't exhaust the stack`(type: UInt8) {
        // An array with an extension value whose data is such an array, and so on, from the inside.
        var reversed: [UInt8] = [0xC0]
        while reversed.count < 65_500 {
            let count = reversed.count
            reversed += [type, UInt8(truncatingIfNeeded: count), UInt8(count >> 8), 0xC8, 0x91]
        }
        let packet = TransportMessage.binary(reversed.reversed())
        let error = self.error(.messagePack, packet)
        // msgpack-lite doesn't know the last type.
        expectEqual(error?.code, (type == 0x70 ? nil : .invalidPacket))
        #expect(throws: (any Error).self) { try PrimusCoding.messagePack.decode([[Int]].self, of: packet) }
        _ = try? PrimusCoding.messagePack.decode([PrimusValue].self, of: packet)
    }

    @Test(arguments: Self.codings)
    func `a value at the limit of the depth is decoded`(coding: PrimusCoding) throws {
        var value: PrimusValue = 1
        for _ in 0..<8 { value = [value] }
        let packet = try coding.message(value)
        try expectEqual(coding.value(of: packet, limits: CodingLimits(depth: 8)), value)
        expectEqual(self.error(coding, packet, limits: CodingLimits(depth: 7))?.code, .limitExceeded)
        expectEqual(self.error(coding, packet, limits: CodingLimits(size: 3))?.code, .limitExceeded)
    }

    @Test func `a length that the packet doesn't have costs no memory`() throws {
        for packet in ["dd7fffffff", "df7fffffff", "d9ffffffff", "dbffffffff"] {
            for coding in [PrimusCoding.messagePack, .binary] {
                expect(self.error(coding, .binary(try #require(Hex.decode(packet)))) != nil)
            }
        }
    }

    @Test func `invalid UTF-8 and lone surrogates are replaced`() throws {
        try expectEqual(PrimusCoding.binary.value([0xB1, 0xFF]), "\u{FFFD}")
        try expectEqual(PrimusCoding.messagePack.value([0xA1, 0xFF]), "\u{FFFD}")
        try expectEqual(PrimusCoding.json.value(Array(#""\ud800""#.utf8)), "\u{FFFD}")
    }

    @Test func `numbers beyond the range of a double are infinite`() throws {
        try expectEqual(PrimusCoding.json.value(Array("1e999".utf8)), .double(.infinity))
        try expectEqual(PrimusCoding.json.value(Array("123456789012345678901234567890".utf8)).double, 1.2345678901234568e29)
    }

    // MARK: A parser of the application

    struct Lines: PrimusParser {
        let name = "lines"
        func encode(_ value: PrimusValue) throws -> TransportMessage { .text("line " + (value.string ?? "")) }
        func decode(_ packet: TransportMessage) throws -> PrimusValue {
            let text = String(decoding: packet.bytes, as: UTF8.self)
            guard text.hasPrefix("line ") else { throw PrimusParserError(.invalidPacket, "The packet isn't a line.") }
            return .string(String(text.dropFirst(5)))
        }
    }

    struct Pings: PrimusParser {
        let name = "pings"
        func encode(_ value: PrimusValue) throws -> TransportMessage { TransportMessage(.ping, []) }
        func decode(_ packet: TransportMessage) throws -> PrimusValue { .null }
    }

    @Test func `a parser of the application has the place of any other`() throws {
        let coding = PrimusCoding(Lines())
        expect(coding.kind == .custom("lines") && coding == PrimusCoding(Lines()) && coding != PrimusCoding(Pings()))
        expectEqual(text(try coding.message(encoding: "a")), "line a")
        try expectEqual(coding.decode(String.self, of: .text("line b")), "b")
        expectEqual(self.error(coding, .text("x"))?.message, "The packet isn't a line.")
        let pong = try PrimusProtocolMessage.pong("5").message(coding)
        expectEqual(text(pong), "line primus::pong::5")
        expectEqual(pong.bytes.withUnsafeBytes { PrimusProtocolMessage($0, .text, coding) }, .pong("5"))
        #expect(throws: PrimusParserError.self) { try PrimusCoding(Pings()).message(1) }
    }

    @Test func `names of parsers and transformers are those of the specification`() {
        expect(PrimusParserKind(name: "JSON") == .json && PrimusParserKind(name: "bson") == .custom("bson"))
        expectEqual(PrimusParserKind.builtIn.map(\.description), ["json", "ejson", "msgpack", "binary"])
        expect(PrimusTransformerKind(name: "Engine.IO") == .engineIO && PrimusTransformerKind(name: "x") == .custom("x"))
        expectEqual(
            PrimusTransformerKind.builtIn.map(\.description), ["websockets", "faye", "uws", "sockjs", "engine.io", "browserchannel"])
    }

    @Test func `transformers that carry text only refuse binary parsers`() {
        for parser in PrimusParserKind.builtIn {
            let isBinary = parser == .msgpack || parser == .binary
            expectEqual((PrimusTransformerKind.sockjs.rejection(of: parser) != nil), isBinary)
            for transformer in [PrimusTransformerKind.websockets, .faye, .uws, .engineIO] {
                expectNil(transformer.rejection(of: parser))
            }
        }
    }
}

import Foundation
import RealtimeCoding
import SignalRWire
import TestSupport
import Testing

@Suite struct ValueTests {
    enum Color: String, Codable { case red, green }
    enum Level: Int, Codable { case low, high }

    struct Item: Codable, Equatable {
        var id: UUID
        var name: String
        var level: Level
        var link: URL?
    }

    private let coder = HubValueCoder(.json)

    private func text<Value: Encodable>(_ value: Value) throws -> String {
        let payload = try self.coder.payload(value)
        expectEqual(payload.format, .json)
        return String(decoding: payload.bytes, as: UTF8.self)
    }

    private func expectRoundTrip<Value: Codable & Equatable>(
        _ value: Value, _ expected: String, location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(try self.text(value) == expected, sourceLocation: location)
        #expect(try self.coder.decode(Value.self, from: json(expected)) == value, sourceLocation: location)
    }

    @Test func `values have the forms of .NET, also on their own`() throws {
        let id = try #require(UUID(uuidString: "11111111-2222-3333-4444-55555555ABCD"))
        try self.expectRoundTrip(7, "7")
        try self.expectRoundTrip("a\"b", #""a\"b""#)
        try self.expectRoundTrip(true, "true")
        try self.expectRoundTrip(1.5, "1.5")
        try self.expectRoundTrip(Int?.none, "null")
        try self.expectRoundTrip([Int?](arrayLiteral: 1, nil), "[1,null]")
        try self.expectRoundTrip(["a": 1], #"{"a":1}"#)
        try self.expectRoundTrip(id, #""11111111-2222-3333-4444-55555555ABCD""#)
        try self.expectRoundTrip(URL(string: "https://example.com/a?b=c")!, #""https://example.com/a?b=c""#)
        try self.expectRoundTrip(Data([0, 1, 255]), #""AAH/""#)
        try self.expectRoundTrip(Decimal(string: "79228162514264337593543950335")!, "79228162514264337593543950335")
        try self.expectRoundTrip(Color.green, #""green""#)
        try self.expectRoundTrip(Level.high, "1")
        try self.expectRoundTrip(JSONValue.object(["x": [1, nil]]), #"{"x":[1,null]}"#)
        try self.expectRoundTrip(
            Item(id: id, name: "n", level: .high, link: nil), #"{"id":"11111111-2222-3333-4444-55555555ABCD","name":"n","level":1}"#)
        // .NET writes IDs in lower case.
        try expectEqual(self.coder.decode(UUID.self, from: json(#""11111111-2222-3333-4444-55555555abcd""#)), id)
    }

    // MARK: Dates

    @Test(arguments: [
        (0.0, "2001-01-01T00:00:00Z"), (0.5, "2001-01-01T00:00:00.5Z"), (-0.5, "2000-12-31T23:59:59.5Z"),
        (700_000_000.125, "2023-03-08T20:26:40.125Z"), (815_000_000.1, "2026-10-29T20:53:20.1Z"),
        (815_000_000.15, "2026-10-29T20:53:20.15Z"),
        (815_000_000.1234567, "2026-10-29T20:53:20.1234567Z"), (815_000_000.999, "2026-10-29T20:53:20.999Z"),
        (0.99999999, "2001-01-01T00:00:00.9999999Z"), (1e-9, "2001-01-01T00:00:00Z"),
    ])
    func `dates are written in UTC with the digits that they need`(seconds: Double, text: String) throws {
        try expectEqual(self.text(Date(timeIntervalSinceReferenceDate: seconds)), "\"\(text)\"")
        try expectEqual(self.text([Date(timeIntervalSinceReferenceDate: seconds)]), "[\"\(text)\"]")
    }

    @Test(arguments: [
        ("2026-10-29T20:53:20.1234567Z", 815_000_000.1234567), ("2026-10-29T20:53:20.12Z", 815_000_000.12),
        ("2026-10-29T22:53:20.1234567+02:00", 815_000_000.1234567), ("2026-10-29T15:23:20-05:30", 815_000_000),
        ("2026-10-29T20:53:20.1234567", 815_000_000.1234567), ("2026-10-29T20:53:20", 815_000_000), ("2001-01-02", 86400),
        ("0001-01-01T00:00:00", -63_113_904_000), ("9999-12-31T23:59:59.9999999", 252_423_993_599.9999999),
    ])
    func `dates are read with any offset, or with none as UTC`(text: String, seconds: Double) throws {
        let date = try self.coder.decode(Date.self, from: json("\"\(text)\""))
        expectEqual(date.timeIntervalSinceReferenceDate, seconds)
    }

    @Test(arguments: [
        "2026-10-29T", "2026-10-29T20", "2026-10-29T20:53", "2026-10-29T20:53:20.", "2026-10-29T20:53:20+", "2026-02-30", "", "20261029",
    ])
    func `incomplete dates are errors`(text: String) {
        #expect(throws: DecodingError.self) { try self.coder.decode(Date.self, from: json("\"\(text)\"")) }
    }

    @Test func `a recent date survives writing and reading`() throws {
        var date = 815_000_000.0
        for _ in 0..<1000 {
            date = date.nextUp + 12.3456789
            let value = Date(timeIntervalSinceReferenceDate: date)
            try expectEqual(self.coder.decode(Date.self, from: self.coder.payload(value)), value)
        }
    }

    @Test func `numbers that aren't finite are errors`() {
        for value in [Double.nan, .infinity] { #expect(throws: EncodingError.self) { try self.coder.payload(value) } }
    }

    @Test func `a value in another format is an error`() {
        #expect(throws: HubValueError.self) { try self.coder.decode(Int.self, from: HubPayload(.messagePack, [7])) }
        #expect(throws: HubValueError.self) { try self.coder.decodeArguments(HubPayload(.messagePack, [0x90])) }
    }

    @Test func `null is a value`() throws {
        expect(HubPayload.null(.json).isNull && !json("0").isNull)
        expect(HubPayload.null(.messagePack).isNull && !HubPayload(.messagePack, [0]).isNull)
        try expectNil(self.coder.decode(Int?.self, from: .null(.json)))
        #expect(throws: DecodingError.self) { try self.coder.decode(Int.self, from: .null(.json)) }
    }

    // MARK: Arguments

    @Test func `arguments are encoded as an array, from a pack or a list`() throws {
        try expectEqual(self.coder.arguments(), json("[]"))
        try expectEqual(self.coder.arguments(1, "a", [true], Int?.none), json(#"[1,"a",[true],null]"#))
        try expectEqual(self.coder.arguments([1, 2]), json("[[1,2]]"))
        try expectEqual(self.coder.arguments(of: []), json("[]"))
        let values: [any Encodable] = [1, "a", [true], Int?.none, Date(timeIntervalSinceReferenceDate: 0)]
        try expectEqual(self.coder.arguments(of: values), json(#"[1,"a",[true],null,"2001-01-01T00:00:00Z"]"#))
    }

    @Test func `an argument that can't be encoded is named`() {
        let error = #expect(throws: HubValueError.self) { try self.coder.arguments("a", ["x": [1, Double.nan]]) }
        expect(
            error?.argument == 1
                && error?.problem.contains("Argument 2 of 2 (Dictionary<String, Array<Double>>) can't be encoded: ") == true)
        expect(error?.underlying is EncodingError)
        let other = #expect(throws: HubValueError.self) { try self.coder.arguments(of: [Double.infinity]) }
        expect(other?.argument == 0 && other?.problem.contains("Argument 1 of 1 (Double)") == true)
    }

    @Test(arguments: HubFormat.allCases)
    func `arguments are decoded one at a time, in order`(format: HubFormat) throws {
        let coder = HubValueCoder(format)
        let date = Date(timeIntervalSinceReferenceDate: 0)
        let values: [any Encodable] = [1, "é\n", true, 1.5, [true], Int?.none, date, ["x": 1]]
        var arguments = try coder.decodeArguments(coder.arguments(of: values))
        var other = arguments
        try expectEqual(arguments.count(), 8)
        for _ in 0..<2 {
            // The first time, all are parsed already.
            try expectEqual(arguments.next(Int.self), 1)
            try expectEqual(arguments.next(String.self), "é\n")
            try expect(arguments.next(Bool.self))
            try expectEqual(arguments.next(Double.self), 1.5)
            var copy = arguments
            try expectEqual(copy.next([Bool].self), [true])
            try expectEqual(arguments.next([Bool].self), [true])
            try expectNil(arguments.next(Int?.self))
            try expectEqual(arguments.next(Date.self), date)
            try expectEqual(arguments.next([String: Int].self), ["x": 1])
            #expect(throws: HubValueError.self) { try arguments.next(Int.self) }
            swap(&arguments, &other)
        }
    }

    /// A scalar is converted where it is, or from the parsed array, with the same result.
    @Test(
        arguments: [
            "1", "-0", "1.0", "1e2", "1.5", "9223372036854775807", "9223372036854775808", "1e400", "1e-400", "true", "false", "null",
            #""a""#, #""a\"b""#, #""\ud800""#, #""\u00e9""#, "[]", "{}", #"{"a":1}"#, "",
        ])
    func `a scalar is the same from an array that was parsed`(text: String) throws {
        func expectSame<Value: Decodable & Equatable>(_ type: Value.Type) throws {
            for (text, position) in [("[\(text)]", 0), (" [ 7 ,\n\(text) ] ", 1)] {
                var direct = try self.coder.decodeArguments(json(text))
                var parsed = direct
                _ = try? parsed.count()
                for index in 0...position {
                    let (first, second) = (Result { try direct.next(type) }, Result { try parsed.next(type) })
                    expectEqual((try? first.get()), (try? second.get()), "\(text) at \(index)")
                    if case (.failure(let first), .failure(let second)) = (first, second) { expectEqual("\(first)", "\(second)") }
                }
            }
        }
        try expectSame(Int.self)
        try expectSame(Double.self)
        try expectSame(Bool.self)
        try expectSame(String.self)
        try expectSame(Int?.self)
        try expectSame(Int8.self)
    }

    @Test func `arguments are decoded as a tuple`() throws {
        let arguments = try self.coder.decodeArguments(json(#"[1,"a",null]"#))
        let (number, text, nothing) = try arguments.decode(Int.self, String.self, Bool?.self)
        expect(number == 1 && text == "a" && nothing == nil)
        let (first, second) = try arguments.decode(Int.self, String.self, ignoresMore: true)
        expect(first == 1 && second == "a")
        try expectEqual(arguments.decode(Int.self, ignoresMore: true), 1)
        try self.coder.decodeArguments(json("[]")).decode()
    }

    @Test func `errors of arguments name the position, the type and the number of arguments`() throws {
        let arguments = try self.coder.decodeArguments(json(#"[1,"a",{"x":[true]}]"#))
        func problem(_ body: () throws -> Void) -> String? { #expect(throws: HubValueError.self, performing: body)?.problem }
        expectEqual(
            problem { _ = try arguments.decode(Int.self, Int.self, ignoresMore: true) },
            "Argument 2 of 3 can't be decoded as Int: a value at [1] isn't of type Int.")
        expectEqual(
            problem { _ = try arguments.decode(Int.self, String.self, JSONValue.self, Int.self, ignoresMore: true) },
            "Expected argument 4 of type Int, received 3 arguments.")
        expectEqual(
            problem { _ = try arguments.decode(Int.self, String.self, [String: [Int]].self, ignoresMore: true) }?.contains(
                "Argument 3 of 3 can't be decoded as Dictionary<String, Array<Int>>: "), true)
        expectEqual(problem { _ = try arguments.decode(Int.self, String.self) }, "Expected 2 arguments (Int, String), received 3.")
        expectEqual(problem { _ = try arguments.decode(Int.self) }, "Expected 1 argument (Int), received 3.")
        expectEqual(problem { try arguments.decode() }, "Expected 0 arguments, received 3.")
        expectEqual(problem { _ = try arguments.decode(Int.self, Int.self, JSONValue.self) }?.contains("Argument 2 of 3"), true)
    }

    /// Values and the texts of errors that the application throws may be secrets.
    @Test func `errors contain no values and no texts of other errors`() throws {
        enum Suit: String, Codable { case hearts }
        struct Talkative: Codable {
            struct Failed: Error, CustomStringConvertible { var description: String { "secret" } }
            init() {}
            init(from decoder: any Decoder) throws { throw Failed() }
            func encode(to encoder: any Encoder) throws { throw Failed() }
        }
        struct Corrupted: Decodable {
            init(from decoder: any Decoder) throws {
                throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "secret"))
            }
        }
        let arguments = try self.coder.decodeArguments(json(#"["secret",{"a":["secret"]}]"#))
        let problems = [
            #expect(throws: HubValueError.self) { try arguments.decode(Suit.self, ignoresMore: true) }?.problem,
            #expect(throws: HubValueError.self) { try arguments.decode(String.self, [String: [Int]].self) }?.problem,
            #expect(throws: HubValueError.self) { try arguments.decode(Talkative.self, ignoresMore: true) }?.problem,
            #expect(throws: HubValueError.self) { try arguments.decode(Corrupted.self, ignoresMore: true) }?.problem,
            #expect(throws: HubValueError.self) { try self.coder.arguments(Talkative()) }?.problem,
        ]
        expectEqual(
            problems,
            [
                "Argument 1 of 2 can't be decoded as Suit: a value at [0] is invalid.",
                "Argument 2 of 2 can't be decoded as Dictionary<String, Array<Int>>: a value at [1].a[0] isn't of type Int.",
                "Argument 1 of 2 can't be decoded as Talkative: it threw an error of type Failed.",
                "Argument 1 of 2 can't be decoded as Corrupted: a value at [0] is invalid.",
                "Argument 1 of 1 (Talkative) can't be encoded: it threw an error of type Failed.",
            ])
    }

    @Test(arguments: ["", "{}", "1", "[1", "[1,]", "[1]x"])
    func `arguments that aren't an array are an error`(text: String) {
        let error = #expect(throws: HubValueError.self) { try self.coder.decodeArguments(json(text)).decode(Int.self) }
        expect(error?.problem.contains("The arguments can't be read: ") == true && error?.argument == nil)
    }

    // MARK: MessagePack

    private let packed = HubValueCoder(.messagePack)

    private func expectRoundTrip<Value: Codable & Equatable>(
        _ value: Value, packed expected: String, location: SourceLocation = #_sourceLocation
    ) throws {
        let payload = try self.packed.payload(value)
        #expect(payload == HubPayload(.messagePack, hex(expected)), sourceLocation: location)
        #expect(try self.packed.decode(Value.self, from: payload) == value, sourceLocation: location)
    }

    struct Person: Codable, Equatable {
        var userName: String
        var `super`: [String: Int]?
    }

    @Test func `in MessagePack, values have the forms of .NET`() throws {
        try self.expectRoundTrip(7, packed: "07")
        try self.expectRoundTrip(-1, packed: "ff")
        try self.expectRoundTrip("é", packed: "a2 c3 a9")
        try self.expectRoundTrip(1.5, packed: "cb 3f f8 00 00 00 00 00 00")
        try self.expectRoundTrip(Int?.none, packed: "c0")
        try self.expectRoundTrip([true, false], packed: "92 c3 c2")
        try self.expectRoundTrip(Data([1, 2]), packed: "c4 02 01 02")
        try self.expectRoundTrip(Date(timeIntervalSince1970: 1), packed: "d6 ff 00 00 00 01")
        try self.expectRoundTrip(Date(timeIntervalSince1970: 1.5), packed: "d7 ff 77 35 94 00 00 00 00 01")
        try self.expectRoundTrip(Decimal(string: "1.25")!, packed: "a4 31 2e 32 35")
        try self.expectRoundTrip(URL(string: "a:b")!, packed: "a3 61 3a 62")
        try self.expectRoundTrip([1: "a"], packed: "81 01 a1 61")
        try self.expectRoundTrip(Color.red, packed: "a3 72 65 64")
        try self.expectRoundTrip(Level.high, packed: "01")
        try expectEqual(self.packed.decode(Double.self, from: messagePack(3)), 3)
        try expect(self.packed.payload(UUID()).bytes.starts(with: [0xD9, 36]))
        try expectEqual(self.packed.payload(Double.infinity).bytes, hex("cb 7f f0 00 00 00 00 00 00"))
    }

    /// .NET ignores properties with other names without an error.
    @Test func `in MessagePack, the names of properties begin with a capital letter`() throws {
        let person = Person(userName: "n", super: ["theKey": 1])
        try self.expectRoundTrip(
            person, packed: "82 a8 55 73 65 72 4e 61 6d 65 a1 6e a5 53 75 70 65 72 81 a6 74 68 65 4b 65 79 01")
        let lower = try HubValueCoder(MessagePackEncoder(), MessagePackDecoder()).payload(person)
        expect(lower.bytes.starts(with: hex("82 a8 75 73 65 72")))
        try expectEqual(self.packed.decode(Person.self, from: lower), person)
    }

    @Test func `in MessagePack, arguments are encoded as an array and decoded one at a time`() throws {
        try expectEqual(self.packed.arguments(), messagePack(0x90))
        let values: [any Encodable] = [1, "a", [true], Int?.none]
        let payload = messagePack(0x94, 1, 0xA1, 0x61, 0x91, 0xC3, 0xC0)
        try expectEqual(self.packed.arguments(of: values), payload)
        try expectEqual(self.packed.arguments(1, "a", [true], Int?.none), payload)
        try expectEqual(self.packed.arguments(of: Array(repeating: 1, count: 20)).bytes, hex("dc 00 14") + Array(repeating: 1, count: 20))
        let arguments = try self.packed.decodeArguments(payload)
        let (number, text, list, nothing) = try arguments.decode(Int.self, String.self, [Bool].self, Int?.self)
        expect(number == 1 && text == "a" && list == [true] && nothing == nil)
        let error = #expect(throws: HubValueError.self) { try arguments.decode(Int.self, Int.self, ignoresMore: true) }
        expect(
            error?.argument == 1 && error?.problem.contains("Argument 2 of 4 can't be decoded as Int: a value") == true)
        #expect(throws: HubValueError.self) { try arguments.decode(Int.self) }
        for bytes in [[], [0x91], [0x80], [0x90, 0x01], [0x92, 0x01], [0x91, 0xC1]] as [[UInt8]] {
            #expect(throws: HubValueError.self) { try self.packed.decodeArguments(HubPayload(.messagePack, bytes)).decode() }
        }
    }

    // MARK: Other coders

    /// Foundation's coders, with dates as milliseconds.
    struct FoundationCoder: HubValueCoding {
        func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
            let encoder = JSONEncoder()
            encoder.dateEncodingStrategy = .millisecondsSince1970
            encoder.outputFormatting = .prettyPrinted
            return Array(try encoder.encode(value))
        }

        func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = .millisecondsSince1970
            return try decoder.decode(type, from: Data(bytes))
        }
    }

    @Test func `other coders encode and decode each value`() throws {
        let coder = HubValueCoder(.json, custom: FoundationCoder())
        let date = Date(timeIntervalSince1970: 1)
        try expectEqual(coder.payload(date), json("1000"))
        try expectEqual(coder.decode(Date.self, from: json(" 1000")), date)
        let payload = try coder.arguments(date, ["a": "]"], "x,[")
        let arguments = try coder.decodeArguments(payload)
        let values = try arguments.decode(Date.self, [String: String].self, String.self)
        expect(values.0 == date && values.1 == ["a": "]"] && values.2 == "x,[")
        #expect(throws: HubValueError.self) { try arguments.decode(Date.self, [String: String].self, Int.self) }
        #expect(throws: HubValueError.self) { try arguments.decode(Date.self) }
        try coder.decodeArguments(json(" [ ] ")).decode()
        try expectEqual(coder.decodeArguments(coder.arguments(of: [date, 2])).decode(Date.self, Int.self).1, 2)
        for text in ["", "{}", "[1", "[1,]", "[1]x", "[1 2]"] {
            #expect(throws: HubValueError.self, "\(text)") { try coder.decodeArguments(json(text)) }
        }
    }

    /// A coder that writes a text that would end the message.
    struct BrokenCoder: HubValueCoding {
        func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { [0x31, 0x1E] }
        func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw CancellationError() }
    }

    @Test func `what another coder encodes is validated`() {
        let coder = HubValueCoder(.json, custom: BrokenCoder())
        #expect(throws: JSONError.self) { try coder.payload(1) }
        #expect(throws: HubValueError.self) { try coder.arguments(1) }
        let packed = HubValueCoder(.messagePack, custom: BrokenCoder())
        #expect(throws: MessagePackError.self) { try packed.payload(1) }
        #expect(throws: HubValueError.self) { try packed.arguments(1) }
    }
}

import Foundation
import RealtimeCore
import RealtimeCoding
import TestSupport
import Testing

@Suite struct MessagePackFoundationTypesTests {
    typealias All = JSONFoundationTypesTests.All

    private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
        try MessagePackDecoder().decode(Value.self, from: MessagePackEncoder().encode(value))
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ value: MessagePackValue) throws -> Value {
        try MessagePackDecoder().decode(type, from: value)
    }

    @Test func `Foundation types have their own forms, at every position`() throws {
        let all = JSONFoundationTypesTests.all
        try expectEqual(self.roundTrip(all), all)
        try expectEqual(self.roundTrip([all.date: all.data]), [all.date: all.data])
        try expectEqual(self.roundTrip(all.date), all.date)
        try expectEqual(self.roundTrip(all.data), all.data)
        try expectEqual(self.roundTrip(all.url), all.url)
        try expectEqual(self.roundTrip(all.decimal), all.decimal)
        let value = try MessagePackEncoder().encodeToValue(all)
        expectEqual(value["date"], .timestamp(MessagePackTimestamp(seconds: 1_678_307_200, nanoseconds: 125_000_000)))
        expectEqual(value["data"], .binary([0, 1, 254, 255]))
        expectEqual(value["url"], "https://example.com/a?b=c#d")
        expectEqual(value["decimal"], "-1234567890.0987654321")
        expectEqual(value["maybe"], [nil, .timestamp(MessagePackTimestamp(seconds: 978_307_199))])
        expectEqual(value["named"], ["x": "5"])
    }

    @Test func `a UUID is its text`() throws {
        let uuid = UUID()
        try expectEqual(MessagePackEncoder().encodeToValue([uuid]), [.string(uuid.uuidString)])
        try expectEqual(MessagePackEncoder().encode(uuid).count, 38)
        try expectEqual(self.roundTrip([uuid: uuid]), [uuid: uuid])
        try expectEqual(self.decode(UUID.self, .string(uuid.uuidString.lowercased())), uuid)
        #expect(throws: DecodingError.self) { try self.decode(UUID.self, "x") }
    }

    @Test func `dates keep their nanoseconds`() throws {
        for seed in seeds(2000) {
            var random = SplitMix64(seed: seed)
            // Near 2001, the fraction of a Date has more digits than a timestamp.
            let seconds = Double.random(in: 2e7...3e11, using: &random) * (random.next() % 2 == 0 ? 1 : -1)
            let date = Date(timeIntervalSinceReferenceDate: seconds)
            try expectEqual(self.roundTrip(date), date, "\(replay(seed))")
        }
        try expectEqual(
            MessagePackEncoder().encodeToValue(Date(timeIntervalSinceReferenceDate: 0.999_999_999_9)),
            .timestamp(MessagePackTimestamp(seconds: 978_307_201)))
        try expectEqual(
            MessagePackEncoder().encodeToValue(Date(timeIntervalSinceReferenceDate: -0.25)),
            .timestamp(MessagePackTimestamp(seconds: 978_307_199, nanoseconds: 750_000_000)))
        try expectEqual(self.roundTrip(Date.distantPast), .distantPast)
        try expectEqual(self.roundTrip(Date.distantFuture), .distantFuture)
        for seconds in [Double.nan, .infinity, -.infinity, 1e19, -1e19] {
            #expect(throws: EncodingError.self) {
                try MessagePackEncoder().encode([Date(timeIntervalSinceReferenceDate: seconds)])
            }
        }
    }

    @Test func `dates decode from timestamps, texts and the array of a DateTimeOffset`() throws {
        let date = Date(timeIntervalSince1970: 1_700_000_000)
        try expectEqual(self.decode(Date.self, .timestamp(MessagePackTimestamp(seconds: 1_700_000_000))), date)
        // Some encoders write the longest form in any case.
        try expectEqual(self.decode(Date.self, .ext(-1, [0, 0, 0, 0, 0, 0, 0, 0, 0x65, 0x53, 0xF1, 0])), date)
        try expectEqual(self.decode(Date.self, "2023-11-14T22:13:20Z"), date)
        let local = MessagePackValue.timestamp(MessagePackTimestamp(seconds: 1_700_000_000 + 5400))
        try expectEqual(self.decode(Date.self, [local, 90]), date)
        try expectEqual(self.decode([Date].self, [[local, 90]]), [date])
        let invalid: [MessagePackValue] = [
            1, 1.5, nil, "2023", .ext(1, [0, 0, 0, 0]), .ext(-1, [0]), .ext(-1, []), .ext(-1, [UInt8](repeating: 0xFF, count: 8)),
            .ext(-1, [0xFF, 0xFF, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 8)), [local], [local, "x"], [1, local], [local, 90, 1],
        ]
        for value in invalid { #expect(throws: DecodingError.self, "\(value)") { try self.decode(Date.self, value) } }
        // A time whose difference from 2001 doesn't fit into an integer.
        try expect(self.decode(Date.self, .timestamp(MessagePackTimestamp(seconds: .min))).timeIntervalSince1970 < -9e18)
    }

    @Test func `bytes decode from binary values, strings and arrays of numbers`() throws {
        for value in [.binary([1, 2]), "\u{1}\u{2}", [1, 2]] as [MessagePackValue] {
            try expectEqual(self.decode(Data.self, value), Data([1, 2]))
            try expectEqual(self.decode([UInt8].self, value), [1, 2])
            try expectEqual(self.decode([[UInt8]].self, [value]), [[1, 2]])
        }
        for value in [1, nil, [256], ["x"], [:], .ext(1, [1])] as [MessagePackValue] {
            #expect(throws: DecodingError.self) { try self.decode(Data.self, value) }
            #expect(throws: DecodingError.self) { try self.decode([UInt8].self, value) }
        }
        // A string that isn't UTF-8 keeps its bytes.
        try expectEqual(MessagePackDecoder().decode(Data.self, from: [0xA2, 0xFF, 0xFE]), Data([0xFF, 0xFE]))
        try expectEqual(self.roundTrip(Data(repeating: 1, count: 70_000)).count, 70_000)
        // A slice of Data begins at another index.
        try expectEqual(MessagePackEncoder().encodeToValue(Data([1, 2, 3])[1...]), .binary([2, 3]))
    }

    @Test func `decimals decode from texts and numbers`() throws {
        try expectEqual(self.decode(Decimal.self, "-12.50"), Decimal(string: "-12.50"))
        try expectEqual(self.decode(Decimal.self, "79228162514264337593543950335"), Decimal(string: "79228162514264337593543950335"))
        try expectEqual(self.decode(Decimal.self, 5), 5)
        try expectEqual(self.decode(Decimal.self, .uint(.max)), Decimal(UInt64.max))
        try expectEqual(self.decode(Decimal.self, 0.1), Decimal(string: "0.1"))
        try expectEqual(self.decode(Decimal.self, .float(0.1)), Decimal(string: "0.1"))
        try expectEqual(self.decode(Decimal.self, 1e20), Decimal(string: "100000000000000000000"))
        for value in [
            "", "x", "1x", "1.", ".5", "+1", " 1", "1 ", "NaN", "0x1", .double(.nan), .double(.infinity), true, nil, [1], .binary([]),
        ]
            as [MessagePackValue]
        {
            #expect(throws: DecodingError.self, "\(value)") { try self.decode(Decimal.self, value) }
        }
        #expect(throws: EncodingError.self) { try MessagePackEncoder().encode([Decimal.nan]) }
        for seed in seeds(1000) {
            var random = SplitMix64(seed: seed)
            let decimal = Decimal(
                sign: random.next() % 2 == 0 ? .plus : .minus, exponent: Int.random(in: -100...90, using: &random),
                significand: Decimal(random.next()))
            try expectEqual(self.roundTrip([decimal]), [decimal], "\(replay(seed))")
        }
    }

    @Test func `URLs are their text`() throws {
        let relative = try #require(URL(string: "b?c", relativeTo: URL(string: "https://example.com/a")))
        try expectEqual(MessagePackEncoder().encodeToValue(relative), "https://example.com/b?c")
        try expect(self.decode(URL.self, "https://example.com/é").absoluteString.hasPrefix("https://example.com/"))
        #expect(throws: DecodingError.self) { try self.decode(URL.self, 1) }
        #expect(throws: DecodingError.self) { try self.decode(URL.self, "") }
    }
}

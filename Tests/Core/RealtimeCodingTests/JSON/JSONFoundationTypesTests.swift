import RealtimeCoding
import Foundation
import RealtimeCore
import TestSupport
import Testing

/// Compares the encoding of `Date`, `Data`, `URL` and `Decimal` with that of Foundation's coders.
@Suite(.computes, .serialized) struct JSONFoundationTypesTests {
    struct All: Codable, Equatable {
        var date: Date
        var data: Data
        var url: URL
        var decimal: Decimal
        var maybe: [Date?]
        var named: [String: Decimal]
    }

    static let all = All(
        date: Date(timeIntervalSinceReferenceDate: 700_000_000.125), data: Data([0, 1, 254, 255]),
        url: URL(string: "https://example.com/a?b=c#d")!,
        decimal: Decimal(string: "-1234567890.0987654321")!, maybe: [nil, Date(timeIntervalSinceReferenceDate: -1)], named: ["x": 5])

    func decodeBoth<Value: Decodable & Equatable>(
        _ type: Value.Type, _ text: String, _ own: JSONValueDecoder = JSONValueDecoder(), _ foundation: JSONDecoder = JSONDecoder(),
        location: SourceLocation = #_sourceLocation
    ) {
        let own = Result { try own.decode([Value].self, from: "[\(text)]") }
        let foundation = Result { try foundation.decode([Value].self, from: Data("[\(text)]".utf8)) }
        switch (own, foundation) {
        case (.success(let own), .success(let foundation)): #expect(own == foundation, "\(text)", sourceLocation: location)
        case (.failure(let own), .failure(let foundation)):
            #expect(
                JSONDecodingTests.Fault(own)?.kind == JSONDecodingTests.Fault(foundation)?.kind, "\(text): \(own) / \(foundation)",
                sourceLocation: location)
            #expect(JSONDecodingTests.Fault(own)?.path == ["0"], "\(text)", sourceLocation: location)
        default: Issue.record("\(text): \(own) / \(foundation)", sourceLocation: location)
        }
    }

    func encodeBoth<Value: Encodable>(
        _ value: Value, _ own: JSONValueEncoder = JSONValueEncoder(), _ foundation: JSONEncoder = JSONEncoder(),
        location: SourceLocation = #_sourceLocation
    ) throws {
        foundation.outputFormatting = .withoutEscapingSlashes
        let expected = String(decoding: try foundation.encode([value]), as: UTF8.self)
        #expect(try own.encodeToString([value]) == expected, sourceLocation: location)
    }

    @Test func `Foundation types survive any combination of encoder and decoder`() throws {
        let text = try JSONValueEncoder().encode(Self.all)
        try expectEqual(JSONDecoder().decode(All.self, from: Data(text)), Self.all)
        try expectEqual(JSONValueDecoder().decode(All.self, from: text), Self.all)
        try expectEqual(JSONValueDecoder().decode(All.self, from: Array(JSONEncoder().encode(Self.all))), Self.all)
        try expectEqual(JSONValueDecoder().decode(Date.self, from: JSONValueEncoder().encode(Self.all.date)), Self.all.date)
        try expectEqual(JSONValueDecoder().decode(URL.self, from: JSONValueEncoder().encode(Self.all.url)), Self.all.url)
        try expectEqual(JSONValueDecoder().decode(Data.self, from: JSONValueEncoder().encode(Self.all.data)), Self.all.data)
        try expectEqual(JSONValueDecoder().decode(Decimal.self, from: JSONValueEncoder().encode(Self.all.decimal)), Self.all.decimal)
    }

    @Test(arguments: ["0", "1.5", "-1e9", "700000000.123456", "null", "\"2001\"", "true", "1e400", "{}"])
    func `dates in seconds and milliseconds decode as with Foundation`(
        _ text: String
    ) {
        self.decodeBoth(Date.self, text)
        var own = JSONValueDecoder()
        let foundation = JSONDecoder()
        own.dates = .secondsSince1970
        foundation.dateDecodingStrategy = .secondsSince1970
        self.decodeBoth(Date.self, text, own, foundation)
        own.dates = .millisecondsSince1970
        foundation.dateDecodingStrategy = .millisecondsSince1970
        self.decodeBoth(Date.self, text, own, foundation)
    }

    @Test(arguments: [
        "2001-01-01T00:00:00Z", "2026-11-21T12:34:56Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2000-02-29T23:59:59Z",
        "2001-01-01T00:00:00.5Z",
        "2001-01-01T00:00:00+01:00", "2001-01-01T00:00:00-0130", "2001-01-01T00:00:00-08", "1600-03-01T00:00:00Z", "9999-12-31T23:59:59Z",
        "2001-01-01T23:59:60Z",
        "1900-02-28T00:00:00Z", "2001-01-01T24:00:00Z", "2001-13-01T00:00:00Z", "2001-00-01T00:00:00Z", "2001-01-01",
        "2001-01-01 00:00:00Z", "2001-01-01T00:00Z",
        "2001-01-01T00:00:00", "", "x", "2001-01-00T00:00:00Z", "20010101T000000Z",
    ])
    func `ISO 8601 dates decode as with Foundation`(_ text: String) {
        var own = JSONValueDecoder()
        own.dates = .iso8601
        let foundation = JSONDecoder()
        foundation.dateDecodingStrategy = .iso8601
        self.decodeBoth(Date.self, "\"\(text)\"", own, foundation)
    }

    @Test(arguments: [
        "2001-02-30T00:00:00Z", "1900-02-29T00:00:00Z", "2001-04-31T00:00:00Z", "2001-01-01T25:00:00Z", "2001-01-01T24:00:01Z",
        "2001-01-01T00:60:00Z", "2001-01-01T00:00:61Z",
        "2001-01-01T00:00:00ZZ", "2001-01-01T00:00:00Z ", "2001-01-01T00:00:00.Z", "2001-01-01T00:00:00+1:00",
        "2001-01-01T00:00:00+24:00", "2001-01-01T00:00:00+01:60",
        "2001-1-1T00:00:00Z", "02001-01-01T00:00:00Z", "2001-01-01T00:00:00UTC",
    ])
    func `invalid ISO 8601 dates are rejected`(_ text: String) {
        var own = JSONValueDecoder()
        own.dates = .iso8601
        #expect(throws: DecodingError.self) { try own.decode(Date.self, from: "\"\(text)\"") }
    }

    @Test(
        arguments: [
            ("2001-01-01", 0), ("2001-01-01T00:00:01", 1), ("2001-01-01T00:00:01.25", 1.25), ("2001-01-01T01:00:01+01:00", 1),
            ("2001-01-01T00:00:01Z", 1), ("2000-02-29", -26_524_800),
        ] as [(String, Double)])
    func `a date without a time zone or a time is read as UTC on request`(_ text: String, seconds: Double) throws {
        var decoder = JSONValueDecoder()
        decoder.dates = .iso8601
        decoder.assumesUTC = true
        try expectEqual(decoder.decode(Date.self, from: "\"\(text)\"").timeIntervalSinceReferenceDate, seconds)
        decoder.assumesUTC = false
        let isComplete = text.contains("Z") || text.contains("+")
        expectEqual(((try? decoder.decode(Date.self, from: "\"\(text)\"")) != nil), isComplete)
    }

    @Test func `a date is written with the shortest fraction that reads back as the same date`() throws {
        var encoder = JSONValueEncoder()
        encoder.dates = .iso8601
        var decoder = JSONValueDecoder()
        decoder.dates = .iso8601
        for seed in seeds(2000) {
            var random = SplitMix64(seed: seed)
            let digits = Int.random(in: 0...6, using: &random)
            let fraction = Int.random(in: 0..<1_000_000, using: &random) / [1_000_000, 100_000, 10_000, 1000, 100, 10, 1][digits]
            let text = digits == 0 ? "" : "." + String(repeating: "0", count: digits - "\(fraction)".count) + "\(fraction)"
            let day = String(Int.random(in: 10...28, using: &random))
            let expected = "\"20\(Int.random(in: 10...30, using: &random))-11-\(day)T12:34:56\(text)Z\""
            let date = try decoder.decode(Date.self, from: expected)
            encoder.dateFractionDigits = 7
            let written = try encoder.encodeToString(date)
            try expect(decoder.decode(Date.self, from: written) == date && written.count <= expected.count, "\(replay(seed))")
            // From 2018, dates are coarser than a fraction of seven digits.
            let other = Date(timeIntervalSinceReferenceDate: Double.random(in: 537_000_000...1_000_000_000, using: &random))
            try expectEqual(decoder.decode(Date.self, from: encoder.encode(other)), other, "\(replay(seed))")
            encoder.dateFractionDigits = 3
            let rounded = try decoder.decode(Date.self, from: encoder.encode(other))
            expect(abs(rounded.timeIntervalSince(other)) <= 0.001, "\(replay(seed))")
        }
    }

    @Test func `dates encode as with Foundation`() throws {
        var own = JSONValueEncoder()
        let foundation = JSONEncoder()
        var seconds = [0, 0.999, -0.5, -1.5, 1.25, 1e9, -1e9, 252_423_993_599, -12_000_000_000]
        for seed in seeds(2000) {
            var random = SplitMix64(seed: seed)
            seconds.append(Double.random(in: -1.2e10...2.5e11, using: &random).rounded())
        }
        for second in seconds {
            let date = Date(timeIntervalSinceReferenceDate: second)
            for (strategy, other) in [
                (.deferredToDate, .deferredToDate), (.secondsSince1970, .secondsSince1970),
                (.millisecondsSince1970, .millisecondsSince1970), (.iso8601, .iso8601),
            ] as [(JSONValueDecoder.DateStrategy, JSONEncoder.DateEncodingStrategy)] {
                own.dates = strategy
                foundation.dateEncodingStrategy = other
                try self.encodeBoth(date, own, foundation)
            }
            var decoder = JSONValueDecoder()
            decoder.dates = .iso8601
            own.dates = .iso8601
            try expectEqual(decoder.decode(Date.self, from: own.encode(date)).timeIntervalSinceReferenceDate, second.rounded(.down))
        }
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode([Date(timeIntervalSinceReferenceDate: .nan)]) }
    }

    @Test(arguments: [
        "", "AQID", "AQI=", "AQ==", "AR==", "AQI", "A", "AQ=", "AQ==\\n", " AQID", "AQ-_", "AQIDAQ==AQID", "AQ==AQ==", "+/+/", "=AQI",
        "A=I=", "é===",
    ])
    func `Base64 data decodes as with Foundation`(_ text: String) {
        self.decodeBoth(Data.self, "\"\(text)\"")
    }

    @Test func `data of any length encodes as with Foundation`() throws {
        for length in 0..<70 {
            let data = Data((0..<length).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ length) })
            try self.encodeBoth(data)
            try expectEqual(JSONValueDecoder().decode(Data.self, from: JSONValueEncoder().encode(data)), data)
        }
        for text in ["null", "1", "[1,2]", "{}"] { self.decodeBoth(Data.self, text) }
    }

    @Test func `data can be encoded as an array`() throws {
        var own = JSONValueEncoder()
        own.data = .deferredToData
        let foundation = JSONEncoder()
        foundation.dataEncodingStrategy = .deferredToData
        try self.encodeBoth(Data([1, 2, 255]), own, foundation)
        var decoder = JSONValueDecoder()
        decoder.data = .deferredToData
        let other = JSONDecoder()
        other.dataDecodingStrategy = .deferredToData
        for text in ["[]", "[1,2,255]", "null", "\"AQID\""] {
            let own = try? decoder.decode([Data].self, from: "[\(text)]")
            expectEqual(own, (try? other.decode([Data].self, from: Data("[\(text)]".utf8))))
        }
        #expect(throws: DecodingError.self) { try decoder.decode(Data.self, from: "[256]") }
    }

    @Test(arguments: [
        "http://example.com/a?b#c", "a", "", "http://a b", "http://[", "%%", "http://é.com/ü", "/x/y", "mailto:a@b", "?q",
        "http://ex.com:99999999999/",
    ])
    func `URLs are encoded as strings`(_ text: String) throws {
        self.decodeBoth(URL.self, "\"\(text)\"")
        if let url = URL(string: text) { try self.encodeBoth(url) }
    }

    @Test func `relative URLs are encoded as absolute URLs`() throws {
        let bases = ["http://a/b/c/d;p?q", "http://a", "http://a/", "http://a/b/", "http://a/b?x#y", "file:///a/b"]
        let references = [
            "g:h", "g", "./g", "g/", "/g", "//g", "?y", "g?y", "#s", "g#s", "g?y#s", ";x", "g;x", "g;x?y#s", ".", "./", "..", "../",
            "../g", "../..", "../../", "../../g", "../../../g",
            "/./g", "/../g", "g.", ".g", "g..", "..g", "./../g", "./g/.", "g/./h", "g/../h", "g?y/./x", "g#s/../x",
        ]
        for base in bases {
            for reference in references {
                let url = try #require(URL(string: reference, relativeTo: URL(string: base)))
                try self.encodeBoth(url)
            }
        }
    }

    @Test func `values of other kinds do not decode as URLs`() {
        for text in ["null", "5", "{}", "[]"] { self.decodeBoth(URL.self, text) }
    }

    @Test(arguments: [
        "0", "-0", "1", "0.1", "1.10", "100", "1e5", "1e-5", "1e127", "1e128", "1e-128", "1e-129", "10e127", "255e127", "1e165", "0e1000",
        "0.00e500", "-1.5E+3",
        "123456789012345678901234567890123456789", "1234567890123456789012345678901234567890", "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "0.123456789012345678901234567890123456789012345", "99999999999999999999999999999999999999999",
        "12345678901234567890123456789012345678e-150", "-79228162514264337593543950335",
        "1e1000000000000000000000", "null", "\"1\"", "true", "{}", "18446744073709551616", "65536", "-0.5",
    ])
    func `decimals decode as with Foundation`(_ text: String) {
        self.decodeBoth(Decimal.self, text)
    }

    @Test func `random decimals decode and encode as with Foundation`() throws {
        for seed in seeds(5000) {
            var random = JSONRandom(seed: seed)
            let whole = String((0..<Int.random(in: 0...20, using: &random.random)).map { _ in random.pick(Array("0123456789")) })
            let part = String((0..<Int.random(in: 1...25, using: &random.random)).map { _ in random.pick(Array("0123456789")) })
            let exponent = random.chance(50) ? "e\(Int.random(in: -140...140, using: &random.random))" : ""
            let text = (random.chance(50) ? "-" : "") + "1\(whole)" + (random.chance(50) ? ".\(part)" : "") + exponent
            self.decodeBoth(Decimal.self, text)
            if let decimal = try? JSONValueDecoder().decode(Decimal.self, from: text) { try self.encodeBoth(decimal) }
        }
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode([Decimal.nan]) }
    }
}

import RealtimeCoding
import Testing

/// The examples in the documentation of `RealtimeCoding`.
@Suite struct JSONSnippets {
    private struct Price: Codable, Equatable {
        var symbol: String
        var value: Double
    }

    @Test func `a JSON value is parsed`() throws {
        // snippet:json-value
        let event = try JSONValue(parsing: #"{"name":"price","values":[12.5,13]}"#)
        let first = event["values"]?[0]?.double
        // end
        #expect(first == 12.5)
    }

    @Test func `a value is decoded`() throws {
        // snippet:json-decoder
        let decoder = JSONValueDecoder()
        let price = try decoder.decode(Price.self, from: #"{"symbol":"ABC","value":12.5}"#)
        // end
        #expect(price == Price(symbol: "ABC", value: 12.5))
    }

    @Test func `a value is encoded`() throws {
        // snippet:json-encoder
        let encoder = JSONValueEncoder()
        let text = try encoder.encodeToString(Price(symbol: "ABC", value: 12.5))
        // end
        #expect(text == #"{"symbol":"ABC","value":12.5}"#)
    }
}

import RealtimeCoding
import Testing

/// The examples of MessagePack in the documentation of `RealtimeCoding`.
@Suite struct MessagePackSnippets {
    private struct Price: Codable, Equatable {
        var symbol: String
        var value: Double
    }

    @Test func `a MessagePack value is parsed`() throws {
        let bytes = try MessagePackEncoder().encode(["values": [12.5, 13]])
        // snippet:messagepack-value
        let event = try MessagePackValue(parsing: bytes)
        let first = event["values"]?[0]?.double
        // end
        #expect(first == 12.5)
    }

    @Test func `a value is encoded and decoded`() throws {
        // snippet:messagepack-encoder
        let encoder = MessagePackEncoder()
        let bytes = try encoder.encode(Price(symbol: "ABC", value: 12.5))
        // end
        // snippet:messagepack-decoder
        let decoder = MessagePackDecoder()
        let price = try decoder.decode(Price.self, from: bytes)
        // end
        #expect(price == Price(symbol: "ABC", value: 12.5))
    }
}

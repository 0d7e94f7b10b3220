import RealtimeEncoding
import RealtimeCrypto
import Testing

@Suite struct TextCodingTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
    func `Base64 follows the RFC`(_ plain: String, _ coded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == coded)
        #expect(Base64.decode(coded) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Z===", "====", "=", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm9-", "Zm9_", "Zg=A",
        "\u{e9}AA", "Zm9v====",
    ])
    func `Base64 that is not exact is refused`(_ text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test func `every byte survives both codings`() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        #expect(Hex.decode(Hex.encode(bytes)) == bytes)
        #expect(Hex.decode(Hex.encode(bytes).uppercased()) == bytes)
    }

    @Test(arguments: ["0", "0g", " 0", "0x", "00 ", "\u{ff10}0"]) func `hex that is not exact is refused`(_ text: String) {
        #expect(Hex.decode(text) == nil)
    }
}

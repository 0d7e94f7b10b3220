import RealtimeEncoding
import RealtimeCrypto
import Testing

@Suite struct TextCodingTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
    func base64FollowsTheRFC(_ plain: String, _ coded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == coded)
        #expect(Base64.decode(coded) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Z===", "====", "=", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm9-", "Zm9_", "Zg=A",
        "\u{e9}AA", "Zm9v====",
    ])
    func base64ThatIsNotExactIsRefused(_ text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test func everyByteSurvivesBothCodings() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        #expect(Hex.decode(Hex.encode(bytes)) == bytes)
        #expect(Hex.decode(Hex.encode(bytes).uppercased()) == bytes)
    }

    @Test(arguments: ["0", "0g", " 0", "0x", "00 ", "\u{ff10}0"]) func hexThatIsNotExactIsRefused(_ text: String) {
        #expect(Hex.decode(text) == nil)
    }
}

import RealtimeEncoding
import Testing

@Suite struct TextCodingTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
    func `Base64 matches the test vectors of RFC 4648`(_ plain: String, _ coded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == coded)
        #expect(Base64.decode(coded) == Array(plain.utf8))
        #expect(Base64.decode(coded, ignoresPadBits: true) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Z===", "====", "=", "Zg==Zg==", "Zm 9v", "Zm9v\n", "Zm9-", "Zm9_", "Zg=A", "Z=g=", "\u{e9}AA", "Zm9v====",
    ])
    func `invalid Base64 is rejected`(_ text: String) {
        #expect(Base64.decode(text) == nil)
        #expect(Base64.decode(text, ignoresPadBits: true) == nil)
    }

    @Test(arguments: [("Zh==", "f"), ("Zv==", "f"), ("Zm9=", "fo"), ("Zm+=", "fo"), ("Zm9vYn==", "foob")])
    func `Base64 with pad bits that are not zero is rejected unless they are ignored`(_ text: String, _ plain: String) {
        #expect(Base64.decode(text) == nil)
        #expect(Base64.decode(text, ignoresPadBits: true) == Array(plain.utf8))
    }

    @Test func `Base64 is appended to existing output`() {
        var output = Array("data:".utf8)
        Base64.append(Array("foob".utf8), to: &output)
        Base64.append([], to: &output)
        Base64.append([0xFF], to: &output)
        #expect(String(decoding: output, as: UTF8.self) == "data:Zm9vYg==/w==")
    }

    @Test func `every byte survives Base64 and hex`() {
        let bytes = Array(UInt8.min...UInt8.max)
        for count in 0...bytes.count {
            #expect(Base64.decode(Base64.encode(Array(bytes.suffix(count)))) == bytes.suffix(count))
        }
        #expect(Hex.decode(Hex.encode(bytes)) == bytes)
        #expect(Hex.decode(Hex.encode(bytes).uppercased()) == bytes)
    }

    @Test(arguments: ["0", "0g", " 0", "0x", "00 ", "\u{ff10}0"]) func `invalid hex is rejected`(_ text: String) {
        #expect(Hex.decode(text) == nil)
    }
}

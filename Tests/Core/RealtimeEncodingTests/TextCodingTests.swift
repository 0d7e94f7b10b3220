import RealtimeEncoding
import TestSupport
import Testing

@Suite struct TextCodingTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
    func `Base64 matches the test vectors of RFC 4648`(_ plain: String, _ coded: String) {
        expectEqual(Base64.encode(Array(plain.utf8)), coded)
        expectEqual(Base64.decode(coded), Array(plain.utf8))
        expectEqual(Base64.decode(coded, ignoresPadBits: true), Array(plain.utf8))
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Z===", "====", "=", "Zg==Zg==", "Zm 9v", "Zm9v\n", "Zm9-", "Zm9_", "Zg=A", "Z=g=", "\u{e9}AA", "Zm9v====",
    ])
    func `invalid Base64 is rejected`(_ text: String) {
        expectNil(Base64.decode(text))
        expectNil(Base64.decode(text, ignoresPadBits: true))
    }

    @Test(arguments: [("Zh==", "f"), ("Zv==", "f"), ("Zm9=", "fo"), ("Zm+=", "fo"), ("Zm9vYn==", "foob")])
    func `Base64 with pad bits that are not zero is rejected unless they are ignored`(_ text: String, _ plain: String) {
        expectNil(Base64.decode(text))
        expectEqual(Base64.decode(text, ignoresPadBits: true), Array(plain.utf8))
    }

    @Test func `Base64 is appended to existing output`() {
        var output = Array("data:".utf8)
        Base64.append(Array("foob".utf8), to: &output)
        Base64.append([], to: &output)
        Base64.append([0xFF], to: &output)
        expectEqual(String(decoding: output, as: UTF8.self), "data:Zm9vYg==/w==")
    }

    @Test func `every byte survives Base64 and hex`() {
        let bytes = Array(UInt8.min...UInt8.max)
        for count in 0...bytes.count {
            expectEqual(Base64.decode(Base64.encode(Array(bytes.suffix(count)))), bytes.suffix(count))
        }
        expectEqual(Hex.decode(Hex.encode(bytes)), bytes)
        expectEqual(Hex.decode(Hex.encode(bytes).uppercased()), bytes)
    }

    @Test(arguments: ["0", "0g", " 0", "0x", "00 ", "\u{ff10}0"]) func `invalid hex is rejected`(_ text: String) {
        expectNil(Hex.decode(text))
    }
}

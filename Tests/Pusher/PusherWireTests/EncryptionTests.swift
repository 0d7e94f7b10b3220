import Foundation
import PusherWire
import RealtimeEncoding
import RealtimeCoding
import TestSupport
import Testing

@Suite struct EncryptionTests {
    private static func vectors(_ name: String) throws -> [JSONValue] {
        let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: Vectors.path("pusher/\(name).json"))))
        return try #require(try JSONValue(parsing: bytes).array)
    }

    private static func parsed(_ data: String) throws(EncryptionError) -> EncryptedPayload {
        try EncryptedPayload(parsing: Array(data.utf8))
    }

    private static func key(_ byte: UInt8 = 7) throws -> EncryptionKey { try EncryptionKey([UInt8](repeating: byte, count: 32)) }

    private static let nonce = (0..<24).map { UInt8($0) }

    @Test func `the shared secret of a channel follows from the master key`() throws {
        let vectors = try Self.vectors("shared-secrets")
        expectEqual(vectors.count, 8)
        for vector in vectors {
            let key = try EncryptionKey(base64: try #require(vector["masterKey"]?.string))
            let channel = try #require(vector["channel"]?.string)
            expectEqual(key.sharedSecret(of: channel).base64, vector["sharedSecret"]?.string, "\(channel)")
        }
    }

    @Test func `encrypted data matches other implementations`() throws {
        let vectors = try Self.vectors("encrypted-payloads")
        expectEqual(vectors.count, 6)
        for vector in vectors {
            let (nonce, ciphertext) = (try #require(vector["nonce"]?.string), try #require(vector["ciphertext"]?.string))
            let (key, text) = (try EncryptionKey(base64: try #require(vector["key"]?.string)), try #require(vector["text"]?.string))
            let data = #"{"nonce":"\#(nonce)","ciphertext":"\#(ciphertext)"}"#
            let payload = try Self.parsed(data)
            try expectEqual(payload.decrypt(key: key), text)
            expectEqual(payload.json, data)
            try expectEqual(EncryptedPayload(encrypting: text, key: key, nonce: payload.nonce), payload)
        }
    }

    @Test(arguments: ["", "{}", "ä😀\u{2028}\u{0}", "\u{FFFD}", String(repeating: "long ", count: 2_000)])
    func `encrypted text is decrypted with the same key only`(text: String) throws {
        let nonce = EncryptedPayload.nonce()
        let data = try EncryptedPayload(encrypting: text, key: Self.key(), nonce: nonce).json
        expect(!data.contains("long"))
        let payload = try Self.parsed(data)
        expectEqual(payload.nonce, nonce)
        try expectEqual(payload.decrypt(key: Self.key()), text)
        #expect(throws: EncryptionError.wrongKey) { try payload.decrypt(key: Self.key(8)) }
        #expect(throws: EncryptionError.wrongKey) { try payload.decrypt(key: Self.key().sharedSecret(of: "private-encrypted-a")) }
    }

    @Test func `a nonce has 24 random bytes`() {
        let nonces = (0..<100).map { _ in EncryptedPayload.nonce() }
        expect(Set(nonces).count == 100 && nonces.allSatisfy { $0.count == 24 })
        #expect(throws: EncryptionError.nonceLength(8)) {
            try EncryptedPayload(encrypting: "a", key: Self.key(), nonce: [UInt8](repeating: 0, count: 8))
        }
    }

    /// Some encoders escape slashes, add members, or repeat them.
    @Test func `data is decrypted in every form of its JSON`() throws {
        let payload = try EncryptedPayload(encrypting: "text", key: Self.key(), nonce: [UInt8](repeating: 0xFF, count: 24))
        let (nonce, ciphertext) = (Base64.encode(payload.nonce), Base64.encode(payload.ciphertext))
        expect(nonce.contains("/"))
        for data in [
            payload.json, payload.json.replacing("/", with: #"\/"#), #" {"ciphertext" : "\#(ciphertext)" , "nonce":"\#(nonce)"} "#,
            #"{"version":[1],"nonce":"\#(nonce)","ciphertext":"\#(ciphertext)"}"#,
            #"{"nonce":1,"nonce":"\#(nonce)","ciphertext":"\#(ciphertext)"}"#,
        ] {
            try expectEqual(Self.parsed(data).decrypt(key: Self.key()), "text", "\(data)")
        }
    }

    @Test(
        arguments: [
            ("", .notAnObject), ("text", .notAnObject), ("[]", .notAnObject), (#""{}""#, .notAnObject), ("null", .notAnObject),
            ("{", .notAnObject), ("{} {}", .notAnObject),
            ("{}", .missing("nonce")), (#"{"ciphertext":"AAAA"}"#, .missing("nonce")), (#"{"nonce":null}"#, .missing("nonce")),
            (#"{"nonce":"AAAA"}"#, .missing("ciphertext")), (#"{"nonce":"","ciphertext":{}}"#, .missing("ciphertext")),
            (#"{"nonce":"AAA","ciphertext":"AAAA"}"#, .invalidBase64("nonce")),
            (#"{"nonce":"AA-_","ciphertext":"AAAA"}"#, .invalidBase64("nonce")),
            (#"{"nonce":"","ciphertext":"AAAA"}"#, .nonceLength(0)), (#"{"nonce":"AAAA","ciphertext":"AAAA"}"#, .nonceLength(3)),
            (#"{"nonce":"\#(String(repeating: "A", count: 32))","ciphertext":"A AA"}"#, .invalidBase64("ciphertext")),
            (#"{"nonce":"\#(String(repeating: "A", count: 32))","ciphertext":""}"#, .ciphertextLength(0)),
            (
                #"{"nonce":"\#(String(repeating: "A", count: 32))","ciphertext":"\#(String(repeating: "A", count: 20))"}"#,
                .ciphertextLength(15)
            ),
        ] as [(String, EncryptionError)])
    func `the error for invalid data says what is wrong`(data: String, error: EncryptionError) {
        #expect(throws: error) { try Self.parsed(data) }
    }

    @Test func `data that isn't text is not decrypted`() throws {
        // The ciphertext of four bytes of which the first is not UTF-8: PyNaCl, with the key and the nonce of these tests.
        let payload = try Self.parsed(#"{"nonce":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYX","ciphertext":"4Ex+fzNdXs+c+xoOOXR6bWV/iyw="}"#)
        #expect(throws: EncryptionError.notText) { try payload.decrypt(key: Self.key()) }
    }

    @Test(
        arguments: [
            ("", .keyLength(0)), ("AAAA", .keyLength(3)), (String(repeating: "A", count: 44), .keyLength(33)), ("A", .invalidBase64("key")),
            (String(repeating: "-", count: 44), .invalidBase64("key")),
        ] as [(String, EncryptionError)])
    func `a key is Base64 of 32 bytes`(text: String, error: EncryptionError) {
        #expect(throws: error) { try EncryptionKey(base64: text) }
    }

    @Test func `two keys are equal if their bytes are`() throws {
        try expectEqual(Self.key(), Self.key())
        try expect(Self.key() != Self.key(8))
        try expectEqual(EncryptionKey(base64: Self.key().base64), Self.key())
    }

    @Test func `the text of a key contains no part of it`() throws {
        let key = try EncryptionKey(Array("a key with 32 letters: secret-01".utf8))
        for text in PrintedText.texts(of: key) + PrintedText.texts(of: ["key": key]) {
            expect(!text.contains("secret") && !text.contains(key.base64) && !text.contains("115, 101, 99"), "\(text)")
        }
        expectEqual("\(key)", "EncryptionKey(bytes: <redacted>)")
    }

    @Test func `errors describe what is wrong`() {
        expectEqual("\(EncryptionError.keyLength(3))", "the key has 3 bytes; expected 32")
        expectEqual("\(EncryptionError.wrongKey)", "the data was encrypted with another key, or changed")
    }
}

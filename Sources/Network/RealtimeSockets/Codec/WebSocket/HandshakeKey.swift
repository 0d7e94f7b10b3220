import RealtimeEncoding
private import RealtimeCrypto

/// Key and answer of the opening handshake (RFC 6455 section 1.3).
enum HandshakeKey {
    static let nonceBytes = 16

    static func encode(_ nonce: [UInt8]) -> String { Base64.encode(nonce) }

    /// Whether it is Base64 of 16 bytes.
    static func isValid(_ key: String) -> Bool { Base64.decode(key)?.count == Self.nonceBytes }

    /// What a server answers to a key: it shows that it knows WebSockets and that the answer is no cached one.
    static func accept(_ key: String) -> String {
        Base64.encode(SHA1.hash(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    }
}

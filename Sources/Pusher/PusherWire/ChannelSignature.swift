import RealtimeEncoding
import RealtimeCrypto

/// How an application's server signs a subscription.
package enum ChannelSignature {
    /// `key:signature` over the socket ID, the channel and, for presence channels, the user.
    package static func token(key: String, secret: String, socketID: String, channel: String, channelData: String? = nil) -> String {
        let text = channelData.map { "\(socketID):\(channel):\($0)" } ?? "\(socketID):\(channel)"
        return "\(key):\(self.hex(of: text, secret: secret))"
    }

    /// In lower-case hexadecimal digits, as the service writes it.
    package static func hex(of text: String, secret: String) -> String {
        Hex.encode(HMACSHA256.code(for: Array(text.utf8), key: Array(secret.utf8)))
    }

    /// In a time that does not tell where they differ.
    package static func isEqual(_ lhs: String, _ rhs: String) -> Bool { constantTimeEqual(Array(lhs.utf8), Array(rhs.utf8)) }
}

import RealtimeCrypto

/// How an application's server signs a subscription.
package enum ChannelSignature {
    /// `key:signature` over the socket ID, the channel and, for presence channels, the user.
    package static func token(key: String, secret: String, socketID: String, channel: String, channelData: String? = nil) -> String {
        let text = channelData.map { "\(socketID):\(channel):\($0)" } ?? "\(socketID):\(channel)"
        return "\(key):\(HMACSHA256.hex(key: secret, text))"
    }
}

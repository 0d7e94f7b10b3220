import RealtimeEncoding
import RealtimeCore
import RealtimeCrypto
import RealtimeCoding
import RealtimeSystem

/// The signature with which an application server authorizes a subscription.
package enum ChannelSignature {
    /// Returns `key:signature`, where the signature covers the socket ID, the channel and, for presence channels, the user.
    package static func token(key: String, secret: String, socketID: String, channel: String, channelData: String? = nil) -> String {
        let text = channelData.map { "\(socketID):\(channel):\($0)" } ?? "\(socketID):\(channel)"
        return "\(key):\(self.hex(of: text, secret: secret))"
    }

    /// Signs a subscription the way an application server does.
    ///
    /// - Parameter user: The user, who is a part of the signature for a presence channel and ignored for others.
    /// - Returns: The token, and the user as JSON for a presence channel.
    package static func authorize(
        socketID: String, channel: String, user: PresenceUser, key: String, secret: String
    ) -> (auth: String, channelData: String?) {
        let channelData = ChannelName.kind(of: channel).isPresence ? user.json : nil
        return (self.token(key: key, secret: secret, socketID: socketID, channel: channel, channelData: channelData), channelData)
    }

    /// Returns the HMAC-SHA256 of a text in lowercase hexadecimal digits.
    package static func hex(of text: String, secret: String) -> String { self.hex(of: Array(text.utf8), secret: secret) }

    fileprivate static func hex(of bytes: [UInt8], secret: String) -> String {
        Hex.encode(HMACSHA256.code(for: bytes, key: Array(secret.utf8)))
    }

    /// Whether a text has the form of a socket ID: two numbers with a dot between them.
    package static func isSocketID(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy { (0x30...0x39).contains($0) } }
    }
}

/// The signature with which an application server signs a user in.
package enum UserSignature {
    /// Returns `key:signature`, where the signature covers the socket ID and the user as JSON text.
    package static func token(key: String, secret: String, socketID: String, userData: String) -> String {
        "\(key):\(ChannelSignature.hex(of: "\(socketID)::user::\(userData)", secret: secret))"
    }

    /// Signs a user in the way an application server does.
    ///
    /// - Returns: The token, and the user as JSON.
    package static func authenticate(
        socketID: String, user: PresenceUser, watchlist: [String], key: String, secret: String
    ) -> (auth: String, userData: String) {
        var data: JSONObject = ["id": .string(user.id)]
        data["user_info"] = user.info
        if !watchlist.isEmpty { data["watchlist"] = .array(watchlist.map { .string($0) }) }
        let userData = JSONValue.object(data).description
        return (self.token(key: key, secret: secret, socketID: socketID, userData: userData), userData)
    }
}

/// The signature of a webhook, in the header field `X-Pusher-Signature`.
package enum WebhookSignature {
    package static let keyField = "X-Pusher-Key"
    package static let signatureField = "X-Pusher-Signature"

    /// Returns the signature of a body.
    package static func hex(of body: [UInt8], secret: String) -> String { ChannelSignature.hex(of: body, secret: secret) }
}

/// The signature of a request to the service's HTTP API.
///
/// It covers the method, the path as sent, and the query fields, sorted by lowercased name and without percent-encoding. The body
/// is covered by its MD5 hash, which is one of the query fields.
///
/// - Source: the section on authentication in the reference of the HTTP API.
package enum RequestSignature {
    /// The largest accepted difference between the clocks of client and server, in seconds.
    package static let tolerance: Int64 = 600

    /// Returns the request target: the path with the signed query.
    ///
    /// - Parameter query: The fields of the request itself, without percent-encoding.
    package static func sign(
        method: String, path: String, query: [(name: String, value: String)] = [], body: [UInt8], key: String, secret: String,
        unixTime: Int64
    ) -> String {
        var fields = query.map { ($0.name, $0.value) }
        fields += [("auth_key", key), ("auth_timestamp", "\(unixTime)"), ("auth_version", "1.0")]
        if !body.isEmpty { fields.append(("body_md5", Hex.encode(MD5.hash(body)))) }
        fields.append(("auth_signature", self.signature(method, path, fields, secret)))
        return path + "?" + fields.map { "\($0.0)=\(PercentEncoding.encode($0.1))" }.joined(separator: "&")
    }

    /// Returns a message that says why the signature of a request is invalid, or `nil` if it is valid.
    package static func validationError(
        method: String, target: String, body: [UInt8], key: String, secret: String, unixTime: Int64
    ) -> String? {
        let head = HTTPRequestHead(method: method, target: target)
        guard let fields = PercentEncoding.fields(head.query) else { return "The query contains an invalid percent-encoding." }
        func value(_ name: String) -> ByteString? { fields.first { $0.name == name }.map { ByteString($0.value) } }
        guard value("auth_key") == ByteString(key) else { return "Missing or unknown auth_key." }
        guard value("auth_version") == ByteString("1.0") else { return "Missing or unsupported auth_version; expected 1.0." }
        guard let timestamp = value("auth_timestamp") else { return "Missing auth_timestamp." }
        // `Int64` would also accept a plus sign.
        guard let timestamp = Int64(timestamp.string), ByteString(timestamp.description) == value("auth_timestamp") else {
            return "Invalid auth_timestamp: expected seconds since 1970."
        }
        guard timestamp >= unixTime - self.tolerance, timestamp <= unixTime + self.tolerance else {
            return "The auth_timestamp differs from the server's clock by more than \(self.tolerance) seconds; check both clocks."
        }
        guard body.isEmpty || value("body_md5") != nil else { return "Missing body_md5, the hash of the body." }
        guard let signature = value("auth_signature") else { return "Missing auth_signature." }
        let signed = fields.filter { $0.name != "auth_signature" }.map { ($0.name, $0.value) }
        guard constantTimeEqual(signature.string, self.signature(method, String(head.path), signed, secret)) else {
            return "Invalid auth_signature. Check the secret, and sign the path and the query exactly as they are sent."
        }
        // Last, because hashing a large body takes time: only for a sender who knows the secret.
        if let hash = value("body_md5"), hash != ByteString(Hex.encode(MD5.hash(body))) { return "The body_md5 does not match the body." }
        return nil
    }

    private static func signature(_ method: String, _ path: String, _ fields: [(String, String)], _ secret: String) -> String {
        let sorted = fields.map { (name: ByteString($0.0.lowercased()), value: $0.1) }.sorted { $0.name < $1.name }
        let query = sorted.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        return ChannelSignature.hex(of: "\(method)\n\(path)\n\(query)", secret: secret)
    }
}

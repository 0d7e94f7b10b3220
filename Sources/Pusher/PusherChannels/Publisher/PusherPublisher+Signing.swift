import RealtimeCore
import RealtimeCoding
import PusherWire

/// Signing users in, and verifying webhooks.
extension PusherPublisher {
    /// Signs a user in.
    ///
    /// Call this method in your backend, after you have authenticated the user, and send the result to the client as JSON: it is
    /// `Encodable` in the form that all clients expect. The method only computes the signature; it sends no request.
    ///
    /// - Parameters:
    ///   - socketID: The socket ID of the client, from the field `socket_id` of its request.
    ///   - user: The user, with information that the service passes on to watchers and to presence channels.
    ///   - watchlist: The IDs of users about whom the client is notified when they come online and go offline. The service regards the first
    ///     100.
    /// - Returns: The authentication, which is valid for this connection of the client.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidSocketID`` if the socket ID doesn't consist of two numbers with a dot between them, such as `123.456`,
    ///   - ``PusherError/Code/invalidUser`` if the ID of the user is empty, has more than 128 characters, or contains characters other than
    ///     letters, digits and `_ - = @ , . ;`.
    public func authenticateUser(
        socketID: String, user: PusherMember, watchlist: [String] = []
    ) throws(PusherError) -> PusherUserAuthentication {
        try Self.check(socketID: socketID)
        return try PusherUserAuthentication(
            signing: user, watchlist: watchlist, socketID: socketID, key: self.key, secret: self.secret)
    }

    /// Checks a socket ID. Without the check, a client could have a text signed that is valid for something else.
    static func check(socketID: String) throws(PusherError) {
        guard ChannelSignature.isSocketID(socketID) else {
            throw PusherError(.invalidSocketID, "Invalid socket ID: expected two numbers with a dot between them, such as 123.456.")
        }
    }

    /// Verifies and parses a webhook of the app.
    ///
    /// ```swift
    /// let webhook = try publisher.webhook(
    ///     key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body)
    /// for event in webhook.events {
    ///     if case .channelVacated(let channel) = event { print(channel, "is empty") }
    /// }
    /// ```
    /// For a webhook that can be of several apps, or signed with one of several keys, use ``PusherWebhook/init(key:signature:body:secrets:)``.
    ///
    /// - Parameters:
    ///   - key: The value of the header field `X-Pusher-Key`, or `nil` if it is missing.
    ///   - signature: The value of the header field `X-Pusher-Signature`, or `nil` if it is missing.
    ///   - body: The body of the request, byte by byte as it was received.
    /// - Returns: The webhook.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidSignature`` if the key or the signature is missing or wrong,
    ///   - ``PusherError/Code/invalidWebhook`` if the body isn't a webhook.
    public func webhook(key: String?, signature: String?, body: some Sequence<UInt8>) throws(PusherError) -> PusherWebhook {
        try PusherWebhook(key: key, signature: signature, body: body, secrets: [self.key: self.secret])
    }
}

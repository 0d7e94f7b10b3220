import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeCrypto
import RealtimeSystem

/// A client's request to subscribe to a channel, and whether it is valid.
struct SubscriptionRequest: Sendable {
    typealias Subscription = PusherServerMachine.Subscription

    /// The state of the client when it sends the request.
    struct Client: Sendable {
        let connection: ConnectionID
        let socketID: String
        /// Whether the client uses version 2 of the protocol.
        var isVersion2 = false
        /// The number of its subscriptions, also of those that await a hook.
        var subscriptionCount = 0
        /// The subscription to the channel of the request.
        var existing: Subscription?
        /// The user as whom the client is signed in.
        var user: PresenceUser?
    }

    /// A subscription that the protocol allows.
    struct Attempt: Sendable {
        var connection: ConnectionID
        var channel: ByteString
        var user: PresenceUser?
        var filter: PusherFilter?
        /// The subscription that the client has already.
        var existing: Subscription?
    }

    struct Rejection: Error, Hashable {
        var code: Int?
        var message: String
        /// A message that repeats the signature, for a profile that does so.
        var quotation: String?
        /// The limit that the client has exceeded, for the log.
        var limit: String?

        init(_ message: String, code: CloseCode? = nil, quotation: String? = nil, limit: String? = nil) {
            (self.code, self.message) = (code.map { Int($0.rawValue) }, Excerpt.message(message))
            (self.quotation, self.limit) = (quotation.map(Excerpt.message), limit)
        }
    }

    let channel: String
    private let auth: String?
    private let channelData: String?
    private let filter: JSONValue?

    /// Reads the data of a frame.
    init(_ data: JSONValue) throws(PusherFrameError) {
        guard let channel = data["channel"]?.string else { throw .missing("channel") }
        self.channel = channel
        self.auth = data["auth"]?.string
        self.channelData = data["channel_data"]?.string
        // A literal `nil` could be a JSON value.
        if let filter = data["filter"] ?? data["tags_filter"], filter != .null { self.filter = filter } else { self.filter = .none }
    }

    /// Returns the subscription that the request asks for.
    ///
    /// - Throws: The reason why the protocol or a limit of the app doesn't allow it.
    func validated(for client: Client, _ app: PusherApp) throws(Rejection) -> Attempt {
        try self.validateName(app)
        try self.validateRepetition(of: client, app)
        let user = try self.member(client, app)
        if let userID = UserID.user(ofChannel: self.channel), client.user.map({ ByteString($0.id) }) != ByteString(userID) {
            let message = "The connection is not signed in as \(userID), so it cannot subscribe to the user's events"
            throw Rejection(message, code: PusherCloseCode.unauthorized)
        }
        let filter = client.isVersion2 ? try self.validFilter(app) : nil
        return Attempt(
            connection: client.connection, channel: ByteString(self.channel), user: user, filter: filter, existing: client.existing)
    }

    private func validateName(_ app: PusherApp) throws(Rejection) {
        let limit = app.channelNameLimit
        guard let message = app.validationError(channel: self.channel, allowsUsers: true) else { return }
        throw Rejection(message, limit: self.channel.utf8.count > limit ? "\(limit) bytes of a channel's name" : nil)
    }

    private func validateRepetition(of client: Client, _ app: PusherApp) throws(Rejection) {
        switch client.existing {
        // With version 2, another subscription replaces the filter, as sockudo does it.
        case .subscribed, .filtered, .member:
            if app.profile.confirmsRepeatedSubscriptions || client.isVersion2 { return }
            fallthrough
        case .awaitingHook: throw Rejection("Existing subscription to channel \(self.channel)")
        case nil: break
        }
        guard client.subscriptionCount < app.channelLimit else {
            let message = "The connection has \(app.channelLimit) channels, which is the limit; unsubscribe from one first"
            throw Rejection(message, limit: "\(app.channelLimit) channels")
        }
    }

    /// The data that the signature covers: servers check it over what was sent.
    ///
    /// - Source: Reverb (`InteractsWithPrivateChannels.php`), slanger (`subscription.rb`); soketi and sockudo only have the data of presence channels in
    ///   the signature.
    private func signedData(_ app: PusherApp) -> String? {
        if ChannelName.kind(of: self.channel).isPresence { return self.channelData }
        return app.profile.signsAllChannelData && self.channelData?.isEmpty == false ? self.channelData : nil
    }

    /// Checks the signature, and returns the member of a presence channel.
    private func member(_ client: Client, _ app: PusherApp) throws(Rejection) -> PresenceUser? {
        let kind = ChannelName.kind(of: self.channel)
        guard kind.needsAuthorization else { return nil }
        let expected = ChannelSignature.token(
            key: app.key, secret: app.secret, socketID: client.socketID, channel: self.channel, channelData: self.signedData(app))
        guard let auth, constantTimeEqual(auth, expected) else { throw self.invalidSignature(client, app) }
        guard kind.isPresence else { return nil }
        if self.channelData == nil, let user = client.user { return user }
        guard let channelData, let json = try? JSONValue(parsing: channelData), let user = try? PresenceUser(json) else {
            throw Rejection("Presence channels require channel_data with a user_id")
        }
        if let rejection = Self.rejection(of: user, app) { throw rejection }
        return user
    }

    private func invalidSignature(_ client: Client, _ app: PusherApp) -> Rejection {
        // slanger leaves out the data, which the signature covers.
        let signed = "\(client.socketID):\(self.channel)"
        let quotation = "Invalid signature: Expected HMAC SHA256 hex digest of \(signed), but got \(self.auth ?? "")"
        let purpose = app.profile.errorsNameChannel ? " to subscribe to \(self.channel)" : ""
        return Rejection(
            "The connection is not authorized\(purpose): missing or invalid signature", code: PusherCloseCode.unauthorized,
            quotation: app.profile.quotesSignatures ? quotation : nil)
    }

    private func validFilter(_ app: PusherApp) throws(Rejection) -> PusherFilter? {
        guard let filter else { return nil }
        guard app.allowsFilters else { throw Rejection("Filters are not enabled") }
        guard !ChannelName.kind(of: self.channel).isPresence else { throw Rejection("Presence channels have no filters") }
        do throws(PusherFilter.Invalid) {
            return try PusherFilter(filter)
        } catch {
            throw Rejection("Invalid tags filter: \(error.message)")
        }
    }

    /// Returns why a user cannot be a member or sign in, or `nil` if it can.
    static func rejection(of user: PresenceUser, _ app: PusherApp) -> Rejection? {
        app.violation(by: user).map { Rejection($0.message, limit: $0.limit) }
    }
}

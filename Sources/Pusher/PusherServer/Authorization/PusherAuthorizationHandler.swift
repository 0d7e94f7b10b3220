import PusherWire
public import RealtimeCore
import RealtimeEncoding
public import RealtimeCoding

/// A handler that authorizes the subscriptions of an app's clients, like the authorization endpoint of an application server.
///
/// ```swift
/// let authorization = PusherAuthorizationHandler(app: server.app) { attempt in
///     attempt.request.headers["Authorization"] == "Bearer token" ? .accept(userID: "anna") : .reject()
/// }
/// let router = ListenerRouter([.exactPath("/pusher/auth", authorization), .path("/", server.listenerHandler)])
/// let address = try await listener.start(router)
/// ```
/// It handles the requests that Pusher clients send to authorize a channel: a `POST` of a form with the fields `socket_id` and
/// `channel_name`. The response to a request that is accepted contains the signature, the user for a presence channel, and the key for an
/// encrypted channel. The path isn't checked, so the handler can also be the only one of a listener.
///
/// It also handles the requests with up to 100 channels of `PusherAuthorizer.batchEndpoint(_:)`: forms with the fields `channel_name[0]`,
/// `channel_name[1]` and so on. The closure is called for each channel, concurrently. The response contains a status for each channel, so
/// that a channel that is invalid or rejected doesn't affect the others.
///
/// With the closure `authenticateUser`, it also handles the requests that clients send to authenticate their user: a form with the field
/// `socket_id`, and without a channel. The response contains the signature and the user.
///
/// Requests of clients that aren't valid receive a response that says why, without a call of a closure: with status 405 if the method
/// isn't `POST`, 400 if the form is incomplete, its values are invalid or the channel is public, and 501 if the channel is encrypted and
/// the app has no valid ``PusherApp/encryptionMasterKey``. The status is also 400 if the user whom a closure returns exceeds the limits of
/// the app, such as ``PusherApp/userIDLimit``, or if the ID is empty or contains a control character. A body that is larger than a form can
/// be isn't read, and has the status 413; see ``bodyLimit(for:)``.
///
/// The handler is for tests and development. It knows the secret of the app, and so should only run where the application server could.
public final class PusherAuthorizationHandler: ListenerHandler {
    private typealias Decide = @Sendable (PusherAuthorizationAttempt) async -> PusherAuthorizationDecision
    private typealias AuthenticateUser = @Sendable (PusherUserAuthenticationAttempt) async -> PusherUserAuthenticationDecision

    /// The app whose subscriptions are signed.
    public let app: PusherApp
    private let origins: [String]
    private let decide: Decide
    private let authenticateUser: AuthenticateUser?

    /// Creates a handler that accepts what closures accept.
    ///
    /// - Parameters:
    ///   - app: The app whose subscriptions are signed.
    ///   - origins: The origins of web pages that may use the endpoint, such as `https://example.org`, or `*` for all. For these, the
    ///     handler adds the header fields of cross-origin resource sharing and responds to preflight requests. Pages of the listed origins,
    ///     but not those that only `*` allows, may send cookies. Requests from other programs don't have an origin and are always handled.
    ///   - decide: A closure that decides about each request to authorize a subscription. It runs in a task of its own, which is cancelled
    ///     when the client disconnects.
    ///   - authenticateUser: A closure that decides, in the same way, about each request to authenticate a user. If it is `nil`, a form
    ///     without a channel is incomplete.
    public init(
        app: PusherApp, origins: [String] = [],
        decide: @escaping @Sendable (PusherAuthorizationAttempt) async -> PusherAuthorizationDecision,
        authenticateUser: (@Sendable (PusherUserAuthenticationAttempt) async -> PusherUserAuthenticationDecision)? = nil
    ) {
        self.app = app
        self.origins = origins
        self.decide = decide
        self.authenticateUser = authenticateUser
    }

    /// Creates a handler that accepts all subscriptions, and authenticates no users. On presence channels, the socket ID is the ID of the
    /// user.
    ///
    /// - Parameters:
    ///   - app: The app whose subscriptions are signed.
    ///   - origins: The origins of web pages that may use the endpoint; see ``init(app:origins:decide:authenticateUser:)``.
    public convenience init(app: PusherApp, origins: [String] = []) {
        self.init(app: app, origins: origins) { _ in .accept() }
    }

    /// Returns the limit of a form: enough for 100 channels, percent-encoded, whose names have the maximum length of the app, but at most 1 KiB
    /// on average, and for 64 KiB of other fields. The body of another request may have 64 KiB.
    public func bodyLimit(for request: HTTPRequestHead) -> Int? {
        guard request.method == "POST" else { return bodyLimitWithoutMessages }
        return PusherAuthorizationForm.channelBytes(nameLimit: self.app.channelNameLimit) + bodyLimitWithoutMessages
    }

    /// Responds to a request, after a closure has decided.
    public func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        let corsFields = self.corsFields(for: request)
        let respond = { @Sendable (response: HTTPResponse) in
            var response = response
            for field in corsFields { response.head.headers.add(field.name, field.value) }
            responder.respond(response)
        }
        if request.method == "OPTIONS" { return respond(Self.preflightResponse(to: request, isAllowed: !corsFields.fields.isEmpty)) }
        let decision: @Sendable () async -> HTTPResponse
        do throws(Rejection) {
            decision = try self.decision(about: try PusherAuthorizationForm(request, body: body))
        } catch {
            return respond(error.response)
        }
        let pending = PendingDecision<HTTPResponse>(respond)
        pending.begin(decision)
        responder.onDisconnect { pending.cancel() }
    }

    /// Checks a form, and returns a closure that decides about it and returns the response.
    private func decision(about form: PusherAuthorizationForm) throws(Rejection) -> @Sendable () async -> HTTPResponse {
        if !form.batch.isEmpty { return { await self.response(toBatch: form) } }
        if form.channel == nil, let authenticateUser = self.authenticateUser {
            let attempt = PusherUserAuthenticationAttempt(form)
            return { [app] in
                switch await authenticateUser(attempt) {
                case .accept(let userID, let userInfo, let watchlist):
                    let user = PresenceUser(id: userID, info: userInfo)
                    return Self.response(to: attempt, user: user, watchlist: watchlist, app: app)
                case .reject(let message): return Rejection(status: 403, message).response
                }
            }
        }
        guard let channel = form.channel else { throw PusherAuthorizationForm.incomplete }
        let attempt = try self.attempt(form, channel)
        return {
            do throws(Rejection) { return Self.success(try await self.authorization(attempt)) } catch { return error.response }
        }
    }

    /// Checks the channel of a form.
    private func attempt(_ form: PusherAuthorizationForm, _ channel: String) throws(Rejection) -> PusherAuthorizationAttempt {
        let attempt = try PusherAuthorizationAttempt(form, channel: channel, self.app)
        guard self.app.masterKey != nil || !ChannelName.kind(of: channel).isEncrypted else {
            let message = "\(channel) is an encrypted channel; set the encryptionMasterKey of the app to 32 bytes in Base64."
            throw Rejection(status: 501, message)
        }
        return attempt
    }

    /// Lets the closure decide, and signs what it accepts.
    private func authorization(_ attempt: PusherAuthorizationAttempt) async throws(Rejection) -> JSONObject {
        switch await self.decide(attempt) {
        case .accept(let userID, let userInfo):
            return try Self.authorization(
                of: attempt, user: PresenceUser(id: userID ?? attempt.socketID, info: userInfo), app: self.app)
        case .reject(let message): throw Rejection(status: 403, message)
        }
    }

    /// Decides about all channels of a form, and returns a response with a status for each.
    private func response(toBatch form: PusherAuthorizationForm) async -> HTTPResponse {
        var response = JSONObject()
        await withTaskGroup(of: (String, JSONValue).self) { group in
            for channel in form.batch {
                group.addTask {
                    do throws(Rejection) {
                        return (channel, ["status": 200, "data": .object(try await self.authorization(try self.attempt(form, channel)))])
                    } catch {
                        return (channel, ["status": .number(JSONNumber(error.status)), "error": .string(error.message)])
                    }
                }
            }
            for await (channel, result) in group { response[channel] = result }
        }
        return Self.success(response)
    }

    /// Rejects all upgrades.
    public func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        .reject(Rejection(status: 404, "The authorization endpoint accepts no WebSockets.").response)
    }

    private static func authorization(
        of attempt: PusherAuthorizationAttempt, user: PresenceUser, app: PusherApp
    ) throws(Rejection) -> JSONObject {
        if ChannelName.kind(of: attempt.channel).isPresence { try self.validate(user, app) }
        let signed = ChannelSignature.authorize(
            socketID: attempt.socketID, channel: attempt.channel, user: user, key: app.key, secret: app.secret)
        var response: JSONObject = ["auth": .string(signed.auth)]
        if ChannelName.kind(of: attempt.channel).isEncrypted {
            response["shared_secret"] = app.masterKey.map { .string($0.sharedSecret(of: attempt.channel).base64) }
        }
        if let channelData = signed.channelData { response["channel_data"] = .string(channelData) }
        return response
    }

    /// Checks the member of a presence channel. The server doesn't accept what is refused here, or couldn't show it.
    private static func validate(_ user: PresenceUser, _ app: PusherApp) throws(Rejection) {
        if user.id.isEmpty { throw Rejection(status: 400, "The user of a presence channel must have an ID.") }
        if user.id.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
            throw Rejection(status: 400, "The user_id contains a control character, such as a line break. Remove it.")
        }
        if let violation = app.violation(by: user) {
            throw Rejection(status: 400, "\(violation.message). Use a shorter value.")
        }
    }

    private static func response(
        to attempt: PusherUserAuthenticationAttempt, user: PresenceUser, watchlist: [String], app: PusherApp
    ) -> HTTPResponse {
        if let message = app.validationError(userID: user.id) { return Rejection(status: 400, message).response }
        if let violation = app.violation(by: user) {
            return Rejection(status: 400, "\(violation.message). Use a shorter value.").response
        }
        let signed = UserSignature.authenticate(
            socketID: attempt.socketID, user: user, watchlist: watchlist, key: app.key, secret: app.secret)
        return Self.success(["auth": .string(signed.auth), "user_data": .string(signed.userData)])
    }

    private static func success(_ json: JSONObject) -> HTTPResponse {
        let head = HTTPResponseHead(status: 200, headers: ["Content-Type": "application/json", "Cache-Control": "no-store"])
        return HTTPResponse(head, body: Array(JSONValue.object(json).description.utf8))
    }

    // MARK: Web pages

    /// The fields that let a web page read the response; empty if the request isn't from a web page, or its origin isn't allowed.
    private func corsFields(for request: HTTPRequestHead) -> HTTPHeaders {
        guard let origin = request.headers["Origin"] else { return [:] }
        if self.origins.contains(origin) {
            return ["Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", "Vary": "Origin"]
        }
        return self.origins.contains("*") ? ["Access-Control-Allow-Origin": "*"] : [:]
    }

    /// Responds to the request with which a browser asks whether it may send another one.
    private static func preflightResponse(to request: HTTPRequestHead, isAllowed: Bool) -> HTTPResponse {
        guard isAllowed else {
            let origin = request.headers["Origin"].map { "the origin \(Excerpt.of($0, limit: 200))" } ?? "requests without an origin"
            return Rejection(
                status: 403, "The authorization endpoint does not allow \(origin). Add the page's origin to those of the handler."
            ).response
        }
        var headers: HTTPHeaders = ["Access-Control-Allow-Methods": "POST", "Access-Control-Max-Age": "600"]
        headers["Access-Control-Allow-Headers"] = request.headers["Access-Control-Request-Headers"]
        return HTTPResponse(HTTPResponseHead(status: 204, headers: headers))
    }

    /// A response to a request that isn't authorized.
    struct Rejection: Error {
        let status: Int
        let message: String
        private let headers: HTTPHeaders

        init(status: Int, headers: HTTPHeaders = [:], _ message: String) {
            self.status = status
            self.message = Excerpt.message(message)
            self.headers = headers
        }

        var response: HTTPResponse {
            var headers = self.headers
            headers["Content-Type"] = "text/plain; charset=utf-8"
            return HTTPResponse(status: self.status, headers: headers, text: self.message + "\n")
        }
    }
}

/// A client's request to authorize a subscription.
public struct PusherAuthorizationAttempt: Sendable {
    /// The socket ID of the client's connection.
    public let socketID: String
    /// The name of the channel, which isn't public.
    public let channel: String
    /// The other fields of the form, by their names.
    public let parameters: [String: String]
    /// The request, with its path, query and header fields, such as `Authorization` and `Cookie`.
    public let request: HTTPRequestHead

    /// Creates an attempt, for a test of a closure that decides about it.
    ///
    /// - Parameters:
    ///   - socketID: The socket ID of the client's connection.
    ///   - channel: The name of the channel.
    ///   - parameters: The other fields of the form.
    ///   - request: The request.
    public init(
        socketID: String, channel: String, parameters: [String: String] = [:],
        request: HTTPRequestHead = HTTPRequestHead(method: "POST", target: "/pusher/auth")
    ) {
        self.socketID = socketID
        self.channel = channel
        self.parameters = parameters
        self.request = request
    }

    init(_ form: PusherAuthorizationForm, channel: String, _ app: PusherApp) throws(PusherAuthorizationHandler.Rejection) {
        if let message = app.validationError(channel: channel) { throw .init(status: 400, message) }
        let kind = ChannelName.kind(of: channel)
        guard kind.needsAuthorization else {
            throw .init(status: 400, "\(channel) is a public channel, which requires no authorization.")
        }
        self.socketID = form.socketID
        self.channel = channel
        self.parameters = form.parameters
        self.request = form.request
    }
}

/// The form of a request to authorize one or several subscriptions or, without a channel, to authenticate a user.
struct PusherAuthorizationForm {
    typealias Rejection = PusherAuthorizationHandler.Rejection

    static let incomplete = Rejection(status: 400, "Invalid body: it must be a form with the fields socket_id and channel_name.")

    /// How many channels a form may have.
    static let batchLimit = 100

    /// How many bytes the channels of a form may need, with the names of their fields.
    static func channelBytes(nameLimit: Int) -> Int {
        // Percent-encoding writes three bytes for each byte of a name. Some servers don't limit names: one of them may be longer then.
        Self.batchLimit * (3 * min(max(0, nameLimit), 1024) + "channel_name%5B99%5D=&".utf8.count)
    }

    let socketID: String
    let channel: String?
    /// The channels of a request for several.
    let batch: [String]
    /// The other fields.
    let parameters: [String: String]
    let request: HTTPRequestHead

    init(_ request: HTTPRequestHead, body: [UInt8]) throws(Rejection) {
        guard request.method == "POST" else {
            let message = "Unsupported method \(Excerpt.of(request.method, limit: 20)). To authorize a subscription, use POST."
            throw Rejection(status: 405, headers: ["Allow": "POST"], message)
        }
        guard let text = String(validUTF8: body), let fields = PercentEncoding.fields(text, plusIsSpace: true) else {
            throw Rejection(status: 400, "Invalid body: it must be a form, with names and values in percent-encoded UTF-8.")
        }
        var parameters = Dictionary(fields.map { ($0.name, $0.value) }) { first, _ in first }
        guard let socketID = parameters.removeValue(forKey: "socket_id") else { throw Self.incomplete }
        // Signing other text could produce a signature that is valid elsewhere.
        guard ChannelSignature.isSocketID(socketID) else {
            throw Rejection(status: 400, "Invalid socket_id: it must consist of two numbers with a dot in between.")
        }
        let batch = fields.filter { Self.isBatchField($0.name) }
        guard batch.count <= Self.batchLimit else {
            throw Rejection(status: 400, "Too many channels: \(batch.count) instead of at most \(Self.batchLimit). Use several requests.")
        }
        for field in batch { parameters[field.name] = nil }
        self.socketID = socketID
        self.channel = parameters.removeValue(forKey: "channel_name")
        self.batch = batch.map(\.value)
        self.parameters = parameters
        self.request = request
    }

    /// Returns whether a field is one of several channels: `channel_name[]`, or with a number between the brackets.
    private static func isBatchField(_ name: String) -> Bool {
        guard name.hasPrefix("channel_name["), name.hasSuffix("]") else { return false }
        return name.dropFirst("channel_name[".count).dropLast().utf8.allSatisfy { (0x30...0x39).contains($0) }
    }
}

/// The decision about a client's request to authorize a subscription.
public enum PusherAuthorizationDecision: Sendable, Hashable {
    /// Authorizes the subscription.
    ///
    /// The user is the member of a presence channel, and without meaning for a private channel. If the ID is `nil`, the user has the socket
    /// ID as its ID. The information about the user is passed to all members of the channel.
    case accept(userID: String? = nil, userInfo: JSONValue? = nil)
    /// Refuses the authorization: the client receives a response with status 403 and the message.
    case reject(message: String = "The subscription is not authorized.")
}

extension PusherAuthorizationHandler: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("app", self.app), ("origins", self.origins)] }
}

extension PusherAuthorizationAttempt: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("socketID", self.socketID), ("channel", self.channel), ("parameters", self.parameters.mapValues { _ in Redacted.secret }),
            ("request", self.request),
        ]
    }
}

import PusherWire
public import RealtimeCore
import RealtimeEncoding
public import RealtimeJSON

/// A handler that authorizes the subscriptions of an app's clients, like the authorization endpoint of an application server.
///
/// ```swift
/// let authorization = PusherAuthorizationHandler(app: server.app) { attempt in
///     attempt.request.headers["Authorization"] == "Bearer token" ? .accept(userID: "anna") : .reject()
/// }
/// let router = ListenerRouter([.path("/pusher/auth", authorization), .path("/", server.listenerHandler)])
/// let address = try await listener.start(router)
/// ```
/// It handles the requests that Pusher clients send to authorize a channel: a `POST` of a form with the fields `socket_id` and
/// `channel_name`. The response to a request that is accepted contains the signature, and the user for a presence channel. The path isn't
/// checked, so the handler can also be the only one of a listener.
///
/// Requests of clients that aren't valid receive a response that says why, without a call of the closure: with status 405 if the method
/// isn't `POST`, 400 if the form is incomplete, its values are invalid or the channel is public, and 501 if the channel is encrypted, which
/// isn't supported.
///
/// The handler is for tests and development. It knows the secret of the app, and so should only run where the application server could.
public final class PusherAuthorizationHandler: ListenerHandler {
    private typealias Decide = @Sendable (PusherAuthorizationAttempt) async -> PusherAuthorizationDecision

    /// The app whose subscriptions are signed.
    public let app: PusherApp
    private let origins: [String]
    private let decide: Decide

    /// Creates a handler that accepts what a closure accepts.
    ///
    /// - Parameters:
    ///   - app: The app whose subscriptions are signed.
    ///   - origins: The origins of web pages that may use the endpoint, such as `https://example.org`, or `*` for all. For these, the
    ///     handler adds the header fields of cross-origin resource sharing and responds to preflight requests. Pages of the listed origins,
    ///     but not those that only `*` allows, may send cookies. Requests from other programs don't have an origin and are always handled.
    ///   - decide: A closure that decides about each request. It runs in a task of its own, which is cancelled when the client disconnects.
    public init(
        app: PusherApp, origins: [String] = [],
        decide: @escaping @Sendable (PusherAuthorizationAttempt) async -> PusherAuthorizationDecision
    ) {
        self.app = app
        self.origins = origins
        self.decide = decide
    }

    /// Creates a handler that accepts all requests. On presence channels, the socket ID is the ID of the user.
    ///
    /// - Parameters:
    ///   - app: The app whose subscriptions are signed.
    ///   - origins: The origins of web pages that may use the endpoint; see ``init(app:origins:decide:)``.
    public convenience init(app: PusherApp, origins: [String] = []) {
        self.init(app: app, origins: origins) { _ in .accept() }
    }

    /// Responds to a request, after the closure has decided.
    public func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        let corsFields = self.corsFields(for: request)
        let respond = { @Sendable (response: HTTPResponse) in
            var response = response
            for field in corsFields { response.head.headers.add(field.name, field.value) }
            responder.respond(response)
        }
        if request.method == "OPTIONS" { return respond(Self.preflightResponse(to: request, isAllowed: !corsFields.fields.isEmpty)) }
        let attempt: PusherAuthorizationAttempt
        do throws(Rejection) {
            attempt = try PusherAuthorizationAttempt(request, body: body, channelNameLimit: self.app.channelNameLimit)
        } catch {
            return respond(error.response)
        }
        // The closure is asynchronous and needs a task to run in. The task ends when the closure returns.
        let task = Task { [decide, app] in
            switch await decide(attempt) {
            case .accept(let userID, let userInfo):
                let user = PresenceUser(id: userID ?? attempt.socketID, info: userInfo)
                respond(Self.response(to: attempt, user: user, app: app))
            case .reject(let message): respond(Rejection(status: 403, message).response)
            }
        }
        responder.onDisconnect { task.cancel() }
    }

    /// Rejects all upgrades.
    public func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        .reject(Rejection(status: 404, "The authorization endpoint accepts no WebSockets.").response)
    }

    /// Closes the connection. Not called, because all upgrades are rejected.
    public func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        ListenerRouter([]).accepted(connection, id: id, request: request)
    }

    private static func response(to attempt: PusherAuthorizationAttempt, user: PresenceUser, app: PusherApp) -> HTTPResponse {
        guard !user.id.isEmpty || ChannelName.kind(of: attempt.channel) != .presence else {
            return Rejection(status: 403, "The user of a presence channel must have an ID.").response
        }
        let signed = ChannelSignature.authorize(
            socketID: attempt.socketID, channel: attempt.channel, user: user, key: app.key, secret: app.secret)
        var response: JSONObject = ["auth": .string(signed.auth)]
        if let channelData = signed.channelData { response["channel_data"] = .string(channelData) }
        let head = HTTPResponseHead(status: 200, headers: ["Content-Type": "application/json", "Cache-Control": "no-store"])
        return HTTPResponse(head, body: Array(JSONValue.object(response).description.utf8))
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
            return Rejection(status: 403, "The authorization endpoint does not allow \(origin).").response
        }
        var headers: HTTPHeaders = ["Access-Control-Allow-Methods": "POST", "Access-Control-Max-Age": "600"]
        headers["Access-Control-Allow-Headers"] = request.headers["Access-Control-Request-Headers"]
        return HTTPResponse(HTTPResponseHead(status: 204, headers: headers))
    }

    /// A response to a request that isn't authorized.
    struct Rejection: Error {
        let response: HTTPResponse

        init(status: Int, headers: HTTPHeaders = [:], _ message: String) {
            var headers = headers
            headers["Content-Type"] = "text/plain; charset=utf-8"
            self.response = HTTPResponse(status: status, headers: headers, text: message + "\n")
        }
    }
}

/// A client's request to authorize a subscription.
public struct PusherAuthorizationAttempt: Sendable {
    /// The socket ID of the client's connection.
    public let socketID: String
    /// The name of the channel, which is a private or a presence channel.
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

    init(_ request: HTTPRequestHead, body: [UInt8], channelNameLimit: Int) throws(PusherAuthorizationHandler.Rejection) {
        guard request.method == "POST" else {
            let message = "Unsupported method \(Excerpt.of(request.method, limit: 20)). To authorize a subscription, use POST."
            throw .init(status: 405, headers: ["Allow": "POST"], message)
        }
        guard let text = String(validUTF8: body), let fields = PercentEncoding.fields(text, plusIsSpace: true) else {
            throw .init(status: 400, "Invalid body: it must be a form, with names and values in percent-encoded UTF-8.")
        }
        var parameters = Dictionary(fields.map { ($0.name, $0.value) }) { first, _ in first }
        guard let socketID = parameters.removeValue(forKey: "socket_id"), let channel = parameters.removeValue(forKey: "channel_name")
        else {
            throw .init(status: 400, "Invalid body: it must be a form with the fields socket_id and channel_name.")
        }
        // Of any other text, a signature could be valid for something else.
        guard ChannelSignature.isSocketID(socketID) else {
            throw .init(status: 400, "Invalid socket_id: it must consist of two numbers with a dot in between.")
        }
        if let message = ChannelName.validationError(channel, limit: channelNameLimit) { throw .init(status: 400, message) }
        switch ChannelName.kind(of: channel) {
        case .private, .presence: break
        case .public: throw .init(status: 400, "\(channel) is a public channel, which requires no authorization.")
        case .encrypted: throw .init(status: 501, "\(channel) is an encrypted channel; these are not supported.")
        }
        self.socketID = socketID
        self.channel = channel
        self.parameters = parameters
        self.request = request
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

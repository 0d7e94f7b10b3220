import PusherWire
import RealtimeCore
import RealtimeEncoding
import RealtimeCoding

/// The reason why an application server, or a closure of the application, didn't authorize.
struct AuthorizationFailure: Error {
    var reason: String
    var status: Int?
    var cause: (any Error)?

    init(_ reason: String, status: Int? = nil, cause: (any Error)? = nil) {
        self.reason = reason
        self.status = status
        self.cause = cause
    }

    /// An error that a closure threw.
    ///
    /// - Parameter thrower: The closure, for example "the callback".
    init(_ error: any Error, thrownBy thrower: String) {
        let refusal = error as? PusherAuthorizationRefusal
        // For other errors, includes only the type, because their descriptions may contain secrets.
        let reason = refusal.map { "refused it: \($0.reason)" } ?? "threw an error of type \(type(of: error))."
        self.init("\(thrower) \(reason)", cause: error)
    }

    /// - Parameter endpoint: The endpoint that was asked, if any.
    func error(for channel: String, at endpoint: Endpoint?) -> PusherError {
        .authorizationFailed(channel, Self.place(endpoint), self.reason, status: self.status, cause: self.cause)
    }

    /// - Parameter endpoint: The endpoint that was asked, if any.
    func userError(at endpoint: Endpoint?) -> PusherError {
        .authenticationFailed(Self.place(endpoint), self.reason, status: self.status, cause: self.cause)
    }

    private static func place(_ endpoint: Endpoint?) -> String { endpoint.map { " at \($0)" } ?? "" }
}

/// The answer of an application server.
struct AuthorizationAnswer {
    /// The JSON in the response, or `null` if it isn't JSON.
    var json: JSONValue
    var body: ResponseBody
    var status: Int
    /// The endpoint that answered, if the request was redirected.
    var redirectedTo: Endpoint?

    /// The origin of the response in a message, if the request was redirected: often, the page for signing in answers then.
    var origin: String { self.redirectedTo.map { " of \($0), to which the server redirects," } ?? "" }
}

extension HTTPRequest {
    /// Sends the request to an application server.
    ///
    /// - Parameters:
    ///   - subject: What the server decides about, for example "subscription".
    ///   - http: The client for requests.
    /// - Returns: The answer, whose status is 200 or 201.
    func authorization(of subject: String, over http: RedirectingHTTP) async throws(AuthorizationFailure) -> AuthorizationAnswer {
        let (response, endpoint): (HTTPResponse, Endpoint)
        do throws(TransportError) {
            (response, endpoint) = try await http.sendFollowingRedirects(self, bodyLimit: 256 << 10)
        } catch {
            throw AuthorizationFailure(error.message, cause: error)
        }
        let status = response.head.status
        func rejected(_ reason: String) -> AuthorizationFailure {
            let cause = TransportError(.requestRejected, "\(endpoint): \(reason)", response: response)
            return AuthorizationFailure(reason, status: status, cause: cause)
        }
        // Omits the body, which may contain a token or repeat one.
        let summary = response.statusSummary
        switch status {
        case 200, 201: break
        case 300...399: throw rejected("the server redirects with status \(status), but not to a URL.")
        case 401, 403: throw rejected("the server rejected the \(subject) with status \(summary)")
        default: throw rejected("the server responded with status \(summary)")
        }
        // The body of an invalid response stays out of the error: it may contain a token.
        let body = ResponseBody(response.body)
        return AuthorizationAnswer(
            json: (try? body.json()) ?? .null, body: body, status: status, redirectedTo: endpoint == self.endpoint ? nil : endpoint)
    }

    /// Sends the request of one channel.
    func authorization(
        of request: PusherAuthorizationRequest, over http: RedirectingHTTP
    ) async throws(AuthorizationFailure) -> PusherChannelAuthorization {
        let answer = try await self.authorization(of: "subscription", over: http)
        guard let authorization = PusherChannelAuthorization(answer.json) else {
            let problem = answer.body.problem(strings: ["auth"]) ?? ""
            let reason = "the response\(answer.origin) must be a JSON object with a string \"auth\", but \(problem)."
            throw AuthorizationFailure(reason, status: answer.status)
        }
        return authorization
    }
}

extension PusherChannelAuthorization {
    /// Reads the members of an application server's response, or returns `nil` if it isn't an authorization.
    init?(_ json: JSONValue) {
        guard let auth = json["auth"]?.string else { return nil }
        self.init(auth: auth, channelData: json["channel_data"]?.string, sharedSecret: json["shared_secret"]?.string)
    }
}

extension PusherAuthorizationEndpoint {
    func authorize(
        _ request: PusherAuthorizationRequest, over http: RedirectingHTTP
    ) async throws(PusherError) -> PusherChannelAuthorization {
        do throws(AuthorizationFailure) {
            let post = try await self.request([("channel_name", request.channel), ("socket_id", request.socketID)])
            return try await post.authorization(of: request, over: http)
        } catch {
            throw error.error(for: request.channel, at: self.endpoint)
        }
    }

    /// Authorizes several channels of a connection with one request.
    ///
    /// The fields and the response are those of the common plug-ins for Pusher's client for JavaScript: `channel_name[0]` and so on, and a
    /// JSON object with a `status` and the `data` of each channel.
    ///
    /// - Returns: The results, in the order of the requests.
    func authorize(
        batch requests: [PusherAuthorizationRequest], over http: RedirectingHTTP
    ) async -> [Result<PusherChannelAuthorization, PusherError>] {
        guard let socketID = requests.first?.socketID else { return [] }
        let channels = requests.enumerated().map { ("channel_name[\($0.offset)]", $0.element.channel) }
        do throws(AuthorizationFailure) {
            let post = try await self.request(channels + [("socket_id", socketID)])
            let json = try await post.authorization(of: "subscriptions", over: http).json
            return requests.map { request in
                Self.authorization(of: request.channel, in: json).mapError { $0.error(for: request.channel, at: self.endpoint) }
            }
        } catch {
            return requests.map { .failure(error.error(for: $0.channel, at: self.endpoint)) }
        }
    }

    /// Returns the authorization of one channel in the response to a batch.
    private static func authorization(
        of channel: String, in json: JSONValue
    ) -> Result<PusherChannelAuthorization, AuthorizationFailure> {
        guard let item = json[channel] else {
            return .failure(AuthorizationFailure("the response must be a JSON object with a member for each channel."))
        }
        let status = item["status"]?.int
        switch status {
        case 200, 201, nil: break
        case let status?:
            return .failure(AuthorizationFailure("the server rejected the subscription with status \(status).", status: status))
        }
        // Some servers omit the level with the status.
        guard let authorization = PusherChannelAuthorization(item["data"] ?? item) else {
            return .failure(AuthorizationFailure("the \"data\" of a channel must be a JSON object with a string \"auth\".", status: status))
        }
        return .success(authorization)
    }

    /// Authenticates the user of a connection.
    func authenticate(socketID: String, over http: RedirectingHTTP) async throws(PusherError) -> PusherUserAuthentication {
        do throws(AuthorizationFailure) {
            let answer = try await self.request([("socket_id", socketID)]).authorization(of: "user", over: http)
            guard let auth = answer.json["auth"]?.string, let userData = answer.json["user_data"]?.string else {
                let problem = answer.body.problem(strings: ["auth", "user_data"]) ?? ""
                let reason =
                    "the response\(answer.origin) must be a JSON object with the strings \"auth\" and \"user_data\", but \(problem)."
                throw AuthorizationFailure(reason, status: answer.status)
            }
            return PusherUserAuthentication(auth: auth, userData: userData)
        } catch {
            throw error.userError(at: self.endpoint)
        }
    }

    /// Creates the request with a form, to which the additional fields are added.
    private func request(_ fields: [(name: String, value: String)]) async throws(AuthorizationFailure) -> HTTPRequest {
        var headers = self.headers
        var parameters = self.parameters
        if let freshHeaders {
            do {
                let fresh = try await freshHeaders()
                for field in fresh { headers[field.name] = nil }
                for field in fresh { headers.add(field.name, field.value) }
            } catch {
                throw AuthorizationFailure(error, thrownBy: "the closure for the header fields")
            }
        }
        if let freshParameters {
            do {
                parameters.merge(try await freshParameters()) { $1 }
            } catch {
                throw AuthorizationFailure(error, thrownBy: "the closure for the parameters")
            }
        }
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        for field in fields { parameters[field.name] = nil }
        let form = fields + parameters.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
        let body = form.map { "\(PercentEncoding.encode($0.name))=\(PercentEncoding.encode($0.value))" }.joined(separator: "&")
        return HTTPRequest(
            "POST", self.endpoint, headers: headers, body: Array(body.utf8), connectTimeout: self.timeout, idleTimeout: self.timeout)
    }
}

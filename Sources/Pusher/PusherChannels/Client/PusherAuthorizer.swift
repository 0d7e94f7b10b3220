import RealtimeEncoding
public import RealtimeJSON
public import RealtimeCore
import PusherWire

/// What the application's server says to a subscription: yes, with a signature.
public struct PusherChannelAuthorization: Sendable, Hashable {
    /// `key:signature`.
    public var auth: String
    /// Who this client is on a presence channel, as the text that was signed.
    public var channelData: String?
    /// The key of an encrypted channel, in Base64.
    public var sharedSecret: String?

    /// An authorisation from its parts, as an application's server returns them.
    public init(auth: String, channelData: String? = nil, sharedSecret: String? = nil) {
        self.auth = auth
        self.channelData = channelData
        self.sharedSecret = sharedSecret
    }
}

/// What is to be authorised.
public struct PusherAuthorizationRequest: Sendable, Hashable {
    /// The channel.
    public let channel: String
    /// The connection, by the socket ID that the service gave it.
    public let socketID: String

    package init(channel: String, socketID: String) {
        self.channel = channel
        self.socketID = socketID
    }
}

/// How private and presence channels are authorised.
///
/// It is asked anew for every subscription, after a reconnect too: signatures belong to one connection. When the
/// connection is lost meanwhile, the task that asks is cancelled and its answer is not used.
public struct PusherAuthorizer: Sendable {
    enum Kind: Sendable {
        case endpoint(PusherAuthorizationEndpoint)
        case callback(@Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization)
        case secret(String, userID: String?, userInfo: JSONValue?)
    }

    let kind: Kind

    /// Asks the application's server over HTTP, as every Pusher client does: a form with `socket_id` and
    /// `channel_name`, answered with `{"auth":…}`.
    public static func endpoint(_ endpoint: PusherAuthorizationEndpoint) -> PusherAuthorizer { PusherAuthorizer(kind: .endpoint(endpoint)) }

    /// Asks the application's server at this address.
    ///
    /// It throws a `TransportError` with the code `invalidURL` when the address cannot be used.
    public static func endpoint(_ url: String, headers: HTTPHeaders = [:]) throws(TransportError) -> PusherAuthorizer {
        .endpoint(PusherAuthorizationEndpoint(try Endpoint(url), headers: headers))
    }

    /// Asks a function of the application. It runs in a task of its own; what it throws becomes
    /// ``PusherError/Code/authorizationFailed``, with the error as its ``PusherError/cause``.
    public static func callback(
        _ authorize: @escaping @Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .callback(authorize))
    }

    /// Signs here, with the application's secret. For development and tests: whoever has the secret can read and send
    /// everything, so it must never be in an app that is given to others.
    ///
    /// - Parameters:
    ///   - secret: the application's.
    ///   - userID: who this client is on presence channels; the socket ID when there is none.
    ///   - userInfo: what the others are told about it.
    public static func secret(_ secret: String, userID: String? = nil, userInfo: JSONValue? = nil) -> PusherAuthorizer {
        PusherAuthorizer(kind: .secret(secret, userID: userID, userInfo: userInfo))
    }
}

/// An application's server that authorises channels.
public struct PusherAuthorizationEndpoint: Sendable {
    /// Where to ask.
    public var endpoint: Endpoint
    /// More header fields, such as `Authorization`. They are sent to this endpoint alone.
    public var headers: HTTPHeaders
    /// More fields of the form.
    public var parameters: [String: String]
    /// More header fields that are asked for anew each time, such as a token that expires.
    public var freshHeaders: (@Sendable () async throws -> HTTPHeaders)?
    /// How long the server may take.
    public var timeout: Duration

    /// An endpoint.
    public init(
        _ endpoint: Endpoint, headers: HTTPHeaders = [:], parameters: [String: String] = [:], timeout: Duration = .seconds(10),
        freshHeaders: (@Sendable () async throws -> HTTPHeaders)? = nil
    ) {
        self.endpoint = endpoint
        self.headers = headers
        self.parameters = parameters
        self.timeout = timeout
        self.freshHeaders = freshHeaders
    }

    func authorize(
        _ request: PusherAuthorizationRequest, over http: any HTTPTransport
    ) async throws(PusherError) -> PusherChannelAuthorization {
        func failed(_ why: String, status: Int? = nil, cause: (any Error)? = nil) -> PusherError {
            let what = "The authorisation of \(request.channel) at \(self.endpoint) failed: \(why)"
            return PusherError(.authorizationFailed, what, status: status, cause: cause)
        }
        var headers = self.headers
        if let freshHeaders {
            do {
                for field in try await freshHeaders() { headers[field.name] = field.value }
            } catch {
                throw failed("the application's header function threw an error of the type \(type(of: error)).", cause: error)
            }
        }
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        var form = self.parameters
        form["socket_id"] = request.socketID
        form["channel_name"] = request.channel
        let body = form.sorted { $0.key < $1.key }.map { "\(PercentEncoding.encode($0.key))=\(PercentEncoding.encode($0.value))" }
        let post = HTTPRequest(
            "POST", self.endpoint, headers: headers, body: Array(body.joined(separator: "&").utf8), connectTimeout: self.timeout,
            idleTimeout: self.timeout)
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await http.send(post, bodyLimit: 256 << 10)
        } catch {
            throw failed(error.message, cause: error)
        }
        let status = response.head.status
        guard (200...201).contains(status) else {
            let hint =
                status == 403 || status == 401
                ? "it refused" : (300...399).contains(status) ? "it redirects; use the address it points to" : "it answered"
            throw failed("\(hint), with status \(status).", status: status)
        }
        guard let json = try? JSONValue(parsing: response.body), let auth = json["auth"]?.string else {
            throw failed("its answer is no JSON object with an \"auth\".", status: status)
        }
        return PusherChannelAuthorization(
            auth: auth, channelData: json["channel_data"]?.string, sharedSecret: json["shared_secret"]?.string)
    }
}

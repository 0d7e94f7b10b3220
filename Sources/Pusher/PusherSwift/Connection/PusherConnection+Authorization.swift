import Foundation
import NWWebSocket
import PusherChannels
import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeCrypto
import RealtimeEncoding
import RealtimeSystem
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Why a subscription wasn't authorized.
///
/// `@unchecked Sendable`: the objects don't change.
struct AuthorizationFailure: Error, @unchecked Sendable {
    var response: URLResponse?
    var data: String?
    var error: NSError?
    /// Whether no request was made.
    var isLocal = false
    private(set) var isInvalidResponse = false
    /// The reason, if no response contains it.
    private var message: String?

    init(response: URLResponse?, data: String? = nil, error: NSError? = nil) {
        (self.response, self.data, self.error) = (response, data, error)
    }

    /// A failure with an error of the domain of PusherSwift.
    init(_ message: String, isLocal: Bool = true) {
        self.error = NSError(domain: "com.pusher.PusherSwift", code: 0, userInfo: [NSLocalizedFailureReasonErrorKey: message])
        self.isLocal = isLocal
        self.message = message
    }

    /// A failure because of the content of a response.
    ///
    /// - Parameter message: The reason, without the content, which may contain a token.
    init(_ message: String, in response: URLResponse?) {
        self.init(message, isLocal: false)
        self.response = response
        self.isInvalidResponse = true
    }

    /// The reason in one sentence, without the response, which may contain secrets.
    var reason: String {
        if let message { return message }
        if let status = (self.response as? HTTPURLResponse)?.statusCode { return "The endpoint responded with the status \(status)." }
        return "The subscription wasn't authorized."
    }
}

extension PusherConnection {
    /// Authorizes a subscription, on the queue of the client.
    func authorize(_ request: PusherAuthorizationRequest, _ complete: @escaping PusherAuthorizer.Completion) {
        let own = self.channels.find(name: request.channel)
        let isOwn = own != nil
        // Otherwise, the application has subscribed to it with the client of `PusherChannels`.
        let isOther = !isOwn && self.engine.channel(request.channel) != nil
        guard let channel = own ?? (isOther ? PusherChannel(name: request.channel, connection: self) : nil) else {
            return complete(.failure(PusherAuthorizationRefusal("The channel was unsubscribed.")))
        }
        let isReload = channel.subscribed
        let isFinished = Lock(false)
        let finish: @Sendable (Result<PusherAuth, AuthorizationFailure>) -> Void = { [weak self] result in
            // An authorizer of the application may answer more than once.
            let isFirst = isFinished.withLock { isFinished in
                defer { isFinished = true }
                return !isFinished
            }
            guard isFirst else { return }
            // A result for an earlier connection, or for a channel that was unsubscribed, concerns a subscription that was given up.
            let isCurrent =
                isOwn && self?.engine.socketID == request.socketID && channel.isSame(as: self?.channels.find(name: channel.name))
            switch result {
            case .success(let auth):
                // Another object may have taken the place of the channel.
                let current = self?.channels.find(name: channel.name) as? PusherPresenceChannel
                if isCurrent, let data = auth.channelData { current?.setMyID(channelData: data) }
                complete(
                    .success(
                        PusherChannelAuthorization(auth: auth.auth, channelData: auth.channelData, sharedSecret: auth.sharedSecret)))
            case .failure(let failure):
                // A key that can't be loaded is reported with the events that need it.
                if !isReload, isCurrent { self?.queue.append(.authorizationFailed(channel, failure)) }
                complete(.failure(PusherAuthorizationRefusal(failure.reason)))
            }
            self?.drainIfOnQueue()
        }
        if !isReload, let auth = channel.takeAuth() {
            if channel.type == .presence, auth.channelData == nil {
                self.log(.channelDataMissing)
                return finish(.failure(AuthorizationFailure("The authorization of a presence channel has no channel data.")))
            }
            return finish(.success(auth))
        }
        self.requestAuth(channel, request.socketID, finish)
    }

    private func requestAuth(
        _ channel: PusherChannel, _ socketID: String, _ finish: @escaping @Sendable (Result<PusherAuth, AuthorizationFailure>) -> Void
    ) {
        let options = self.options
        switch options.authMethod {
        case .noMethod:
            finish(
                .failure(
                    AuthorizationFailure("Authentication method required for private / presence channels but none provided.")))
        case .endpoint(let endpoint):
            guard let url = URL(string: endpoint) else {
                return finish(.failure(AuthorizationFailure("The URL of the authorization endpoint is invalid.")))
            }
            var fields = [("socket_id", socketID), ("channel_name", channel.name)]
            fields += options.authParameters.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
            var request = URLRequest(url: url)
            request.httpMethod = "POST"
            request.httpBody = Data(fields.map { "\(Self.encoded($0.0))=\(Self.encoded($0.1))" }.joined(separator: "&").utf8)
            request.setValue("application/x-www-form-urlencoded", forHTTPHeaderField: "Content-Type")
            for (name, value) in options.authHeaders { request.setValue(value, forHTTPHeaderField: name) }
            self.send(request, finish)
        case .authRequestBuilder(let builder):
            guard let request = builder.request(socketID: socketID, channel: channel) else {
                return finish(.failure(AuthorizationFailure("Authentication request could not be built")))
            }
            self.send(request, finish)
        case .authorizer(let authorizer):
            authorizer.fetchAuthValue(socketID: socketID, channelName: channel.name) { [weak self] auth in
                if let auth { return finish(.success(auth)) }
                self?.log(.authorizationMissing)
                finish(.failure(AuthorizationFailure("The authorizer didn't authorize the subscription.", isLocal: false)))
            }
        case .inline(let secret):
            let data = channel.type == .presence ? self.userData(socketID) : nil
            let message = "\(socketID):\(channel.name)" + (data.map { ":\($0)" } ?? "")
            let signature = Hex.encode(HMACSHA256.code(for: Array(message.utf8), key: Array(secret.utf8)))
            finish(.success(PusherAuth(auth: "\(self.key):\(signature)", channelData: data)))
        }
    }

    /// The data of the client's own user as JSON.
    private func userData(_ socketID: String) -> String {
        guard let user = self.userDataFetcher?() else { return #"{"user_id":"\#(socketID)"}"# }
        var data: [String: Any] = ["user_id": user.userId]
        data["user_info"] = user.userInfo
        return FoundationJSON.text(data) ?? FoundationJSON.text(["user_id": user.userId]) ?? "{}"
    }

    /// Encodes a field of a form.
    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: CharacterSet(charactersIn: Self.unreserved)) ?? text
    }

    private static let unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

    /// Sends a request to the application server.
    private func send(_ request: URLRequest, _ finish: @escaping @Sendable (Result<PusherAuth, AuthorizationFailure>) -> Void) {
        HTTPSender(session: self.URLSession, transports: self.transports, isCustom: self.options.transports != nil, cookies: self.cookies)
            .send(request) { data, response, error in finish(Self.result(data, response, error)) }
    }

    private static func result(
        _ data: Data?, _ response: URLResponse?, _ error: NSError?
    ) -> Result<PusherAuth, AuthorizationFailure> {
        if let error { return .failure(AuthorizationFailure(response: response, error: error)) }
        let body = ResponseBody(data.map { Array($0) } ?? [])
        let text = data.map { String(decoding: $0, as: UTF8.self) }
        guard let http = response as? HTTPURLResponse, http.statusCode == 200 || http.statusCode == 201 else {
            return .failure(AuthorizationFailure(response: response, data: text))
        }
        if let problem = body.problem(strings: ["auth"]) {
            let place = http.url.map { " of \($0.host ?? "")\($0.path)" } ?? ""
            let message = "The response\(place) must be a JSON object with a string \"auth\", but \(problem)."
            return .failure(AuthorizationFailure(message, in: response))
        }
        let json = (try? body.json()) ?? .null
        return .success(
            PusherAuth(
                auth: json["auth"]?.string ?? "", channelData: json["channel_data"]?.string, sharedSecret: json["shared_secret"]?.string))
    }
}

import PusherWire
import RealtimeCore

extension PusherAuthorizer {
    typealias Step = WorkStep<Result<PusherChannelAuthorization, PusherError>>

    /// Returns how the authorizer authorizes a subscription.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - http: The client for requests.
    func step(for request: PusherAuthorizationRequest, key: String, over http: RedirectingHTTP) -> Step {
        switch self.kind {
        case .secret(let secret, let userID, let userInfo, let masterKey):
            return .now { finish in
                let user = PresenceUser(id: userID ?? request.socketID, info: userInfo)
                finish(
                    Result { () throws(PusherError) in
                        try PusherChannelAuthorization(signing: request, user: user, key: key, secret: secret, masterKey: masterKey)
                    })
            }
        case .direct(let authorize):
            return .now { finish in authorize(request) { finish($0.mapError { Self.callbackFailed(request, $0) }) } }
        case .completion(let authorize):
            // The closure may never answer. All answers but the first are ignored.
            return .later { finish in authorize(request) { finish($0.mapError { Self.callbackFailed(request, $0) }) } }
        case .endpoint(let endpoint):
            return .task { () throws(PusherError) in try await endpoint.authorize(request, over: http) }
        case .batchEndpoint(let endpoint):
            return .task { await endpoint.authorize(batch: [request], over: http)[0] }
        case .request(let makeRequest):
            return .task { () throws(PusherError) in try await Self.authorize(request, with: makeRequest, over: http) }
        case .callback(let authorize):
            return .task { () throws(PusherError) in
                do {
                    return try await authorize(request)
                } catch {
                    throw Self.callbackFailed(request, error)
                }
            }
        case .byChannel(let choose):
            return .later { finish in
                var chosen = choose(request.channel)
                while case .byChannel(let choose)? = chosen?.kind {
                    // A closure could return its own authorizer, without an end.
                    if Task.isCancelled { return }
                    chosen = choose(request.channel)
                }
                guard let chosen else {
                    let message = "\(request.channel) requires authorization: return an authorizer from the closure of byChannel(_:)."
                    return finish(.failure(PusherError(.authorizationMissing, message, channel: request.channel)))
                }
                await chosen.step(for: request, key: key, over: http).run(finish)
            }
        }
    }

    private static func authorize(
        _ request: PusherAuthorizationRequest, with makeRequest: @Sendable (PusherAuthorizationRequest) async throws -> HTTPRequest,
        over http: RedirectingHTTP
    ) async throws(PusherError) -> PusherChannelAuthorization {
        let post: HTTPRequest
        do {
            post = try await makeRequest(request)
        } catch {
            throw AuthorizationFailure(error, thrownBy: "the closure for the request").error(for: request.channel, at: nil)
        }
        do throws(AuthorizationFailure) {
            return try await post.authorization(of: request, over: http)
        } catch {
            throw error.error(for: request.channel, at: post.endpoint)
        }
    }

    private static func callbackFailed(_ request: PusherAuthorizationRequest, _ error: any Error) -> PusherError {
        AuthorizationFailure(error, thrownBy: "the callback").error(for: request.channel, at: nil)
    }
}

extension PusherUserAuthenticator {
    typealias Step = WorkStep<Result<PusherUserAuthentication, PusherError>>

    /// Returns how the authenticator authenticates the user.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - http: The client for requests.
    func step(socketID: String, key: String, over http: RedirectingHTTP) -> Step {
        switch self.kind {
        case .secret(let secret, let user, let watchlist):
            .now { finish in
                finish(
                    Result { () throws(PusherError) in
                        try PusherUserAuthentication(signing: user, watchlist: watchlist, socketID: socketID, key: key, secret: secret)
                    })
            }
        case .endpoint(let endpoint):
            .task { () throws(PusherError) in try await endpoint.authenticate(socketID: socketID, over: http) }
        case .callback(let authenticate):
            .task { () throws(PusherError) in
                do {
                    return try await authenticate(socketID)
                } catch {
                    throw AuthorizationFailure(error, thrownBy: "the callback").userError(at: nil)
                }
            }
        }
    }
}

extension PusherChannelAuthorization {
    /// Signs a subscription the way an application server does.
    ///
    /// - Parameter masterKey: The key for encrypted channels in Base64.
    init(
        signing request: PusherAuthorizationRequest, user: PresenceUser, key: String, secret: String, masterKey: String?
    ) throws(PusherError) {
        let signed = ChannelSignature.authorize(
            socketID: request.socketID, channel: request.channel, user: user, key: key, secret: secret)
        var sharedSecret: String?
        if ChannelName.kind(of: request.channel).isEncrypted {
            sharedSecret = try PusherError.encryptionKey(masterKey, for: request.channel).sharedSecret(of: request.channel).base64
        }
        self.init(auth: signed.auth, channelData: signed.channelData, sharedSecret: sharedSecret)
    }
}

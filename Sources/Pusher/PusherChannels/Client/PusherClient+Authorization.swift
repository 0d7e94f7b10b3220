import PusherWire
import RealtimeCore

/// The work that a session asks for.
extension PusherClient {
    /// Authorizes a channel or authenticates the user, as a command of the session.
    ///
    /// - Returns: A closure that cancels the work, or `nil` if it has finished already.
    static func perform(
        _ work: PusherSession.Work, _ id: WorkID, for driver: SessionDriver<PusherSession>
    ) -> (@Sendable () -> Void)? {
        switch work {
        case .channel(let request, let authorizer, let configuration):
            // Without a task, so that a client and a server in memory have finished when a call returns.
            if case .direct(let authorize) = authorizer.kind {
                authorize(request) { [weak driver] result in
                    driver?.workFinished(id, .channel(result.mapError { Self.callbackFailed(request, $0) }))
                }
                return nil
            }
            if case .secret(let secret, let userID, let userInfo, let masterKey) = authorizer.kind {
                let user = PresenceUser(id: userID ?? request.socketID, info: userInfo)
                let result = Result { () throws(PusherError) in
                    try PusherChannelAuthorization(
                        signing: request, user: user, key: configuration.key, secret: secret, masterKey: masterKey)
                }
                driver.workFinished(id, .channel(result))
                return nil
            }
            // An unstructured task, since the driver has none. The session cancels it when its result is no longer needed.
            let task = Task { await Self.authorize(request, with: authorizer, configuration, id, for: driver) }
            return { task.cancel() }
        case .batch(let members, let endpoint, let configuration):
            // An unstructured task, since the driver has none. The session cancels it when its results are no longer needed.
            let task = Task {
                let results = await endpoint.authorize(batch: members.map(\.request), over: configuration.transports.http)
                driver.workFinished(id, .batch(zip(members, results).map { ($0.work, $1) }))
            }
            return { task.cancel() }
        case .retryDelay(let context, .asynchronous(let delay)):
            // An unstructured task, since the driver has none. The session cancels it when the decision is no longer needed.
            let task = Task { driver.workFinished(id, .retryDelay(await delay(context))) }
            return { task.cancel() }
        case .retryDelay(let context, .direct(let decide)):
            decide(context) { [weak driver] in driver?.workFinished(id, .retryDelay($0)) }
            return nil
        case .user(let socketID, let authenticator, let configuration):
            switch authenticator.kind {
            case .secret(let secret, let user, let watchlist):
                let result = Result { () throws(PusherError) in
                    try PusherUserAuthentication(
                        signing: user, watchlist: watchlist, socketID: socketID, key: configuration.key, secret: secret)
                }
                driver.workFinished(id, .user(result))
                return nil
            case .endpoint(let endpoint):
                return self.start(id, for: driver, PusherSession.WorkResult.user) { () throws(PusherError) in
                    try await endpoint.authenticate(socketID: socketID, over: configuration.transports.http)
                }
            case .callback(let authenticate):
                return self.start(id, for: driver, PusherSession.WorkResult.user) { () throws(PusherError) in
                    do {
                        return try await authenticate(socketID)
                    } catch {
                        throw AuthorizationFailure(error, thrownBy: "the callback").userError(at: nil)
                    }
                }
            }
        }
    }

    /// Authorizes a channel, and reports the result.
    private static func authorize(
        _ request: PusherAuthorizationRequest, with authorizer: PusherAuthorizer, _ configuration: PusherConfiguration, _ id: WorkID,
        for driver: SessionDriver<PusherSession>
    ) async {
        var authorizer = authorizer
        while case .byChannel(let choose) = authorizer.kind {
            // A closure could return its own authorizer, without an end.
            if Task.isCancelled { return }
            guard let chosen = choose(request.channel) else {
                let message = "\(request.channel) requires authorization: return an authorizer from the closure of byChannel(_:)."
                let error = PusherError(.authorizationMissing, message, channel: request.channel)
                return driver.workFinished(id, .channel(.failure(error)))
            }
            authorizer = chosen
        }
        switch authorizer.kind {
        case .completion(let authorize), .direct(let authorize):
            // The closure may never answer. The driver ignores all answers but the first.
            return authorize(request) { [weak driver] result in
                driver?.workFinished(id, .channel(result.mapError { Self.callbackFailed(request, $0) }))
            }
        default: break
        }
        let result: Result<PusherChannelAuthorization, PusherError>
        do throws(PusherError) {
            result = .success(try await self.authorization(of: request, from: authorizer, configuration))
        } catch {
            result = .failure(error)
        }
        driver.workFinished(id, .channel(result))
    }

    private static func authorization(
        of request: PusherAuthorizationRequest, from authorizer: PusherAuthorizer, _ configuration: PusherConfiguration
    ) async throws(PusherError) -> PusherChannelAuthorization {
        let http = configuration.transports.http
        switch authorizer.kind {
        case .secret(let secret, let userID, let userInfo, let masterKey):
            let user = PresenceUser(id: userID ?? request.socketID, info: userInfo)
            return try PusherChannelAuthorization(
                signing: request, user: user, key: configuration.key, secret: secret, masterKey: masterKey)
        case .endpoint(let endpoint): return try await endpoint.authorize(request, over: http)
        case .batchEndpoint(let endpoint): return try await endpoint.authorize(batch: [request], over: http)[0].get()
        case .request(let makeRequest):
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
        case .callback(let authorize):
            do {
                return try await authorize(request)
            } catch {
                throw Self.callbackFailed(request, error)
            }
        case .completion, .direct, .byChannel: preconditionFailure("These have no result of their own.")
        }
    }

    private static func callbackFailed(_ request: PusherAuthorizationRequest, _ error: any Error) -> PusherError {
        AuthorizationFailure(error, thrownBy: "the callback").error(for: request.channel, at: nil)
    }

    /// Performs work in a task, and reports its result.
    private static func start<Value: Sendable>(
        _ id: WorkID, for driver: SessionDriver<PusherSession>,
        _ result: @escaping @Sendable (Result<Value, PusherError>) -> PusherSession.WorkResult,
        _ work: @escaping @Sendable () async throws(PusherError) -> Value
    ) -> @Sendable () -> Void {
        // An unstructured task, since the driver has none. The session cancels it when its result is no longer needed.
        let task = Task {
            do throws(PusherError) {
                driver.workFinished(id, result(.success(try await work())))
            } catch {
                driver.workFinished(id, result(.failure(error)))
            }
        }
        return { task.cancel() }
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

import PusherWire
import RealtimeCore
import RealtimeJSON

/// The user who is signed in.
extension PusherSession {
    // MARK: Signing in

    /// Signs in, now or as soon as the client is connected. A failed sign-in is retried; otherwise, nothing changes.
    mutating func signIn(now: Instant, _ effects: inout Effects<Self>) {
        var user = self.user ?? PusherUserSession()
        if user.state == .idle {
            user.state = .waiting
            self.user = user
            self.publishUser(since: .signedOut, &effects)
        }
        self.beginSignIn(now: now, &effects)
    }

    /// Requests the authentication, if the client was asked to sign in and is connected.
    mutating func beginSignIn(now: Instant, _ effects: inout Effects<Self>) {
        guard let before = self.user?.state, let socketID else { return }
        switch before {
        case .waiting, .failed: break
        case .idle, .authenticating, .signingIn, .signedIn: return
        }
        guard let authenticator = self.configuration.userAuthenticator else {
            let message = "Signing in requires authentication: set the userAuthenticator of the configuration."
            return self.signInFailed(PusherError(.authorizationMissing, message), now: now, &effects)
        }
        let work = self.authorizations.makeWork()
        let deadline = now.advanced(by: self.configuration.subscriptionTimeout)
        self.user?.state = .authenticating(work)
        self.user?.deadline = deadline
        effects.commands.append(.work(work, .user(socketID: socketID, authenticator, self.configuration)))
        self.publishUser(since: before.publicState, &effects)
    }

    /// Handles the result of the authentication.
    mutating func userAuthenticated(
        _ work: WorkID, _ result: Result<PusherUserAuthentication, PusherError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.user?.state == .authenticating(work) else { return }
        switch result {
        case .failure(let error): self.signInFailed(error, now: now, &effects)
        case .success(let authentication):
            guard let id = self.connection.connected else { return }
            self.user?.state = .signingIn
            self.send(PusherFrames.signIn(auth: authentication.auth, userData: authentication.userData), on: id, &effects)
        }
    }

    /// Handles `pusher:signin_success`.
    mutating func signedIn(_ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) throws(PusherFrameError) {
        guard self.user?.state == .signingIn else {
            effects.counters.messagesIgnored += 1
            return
        }
        let user = try UserData(data)
        let member = PusherMember(id: user.id, info: user.info)
        self.user?.state = .signedIn(member)
        self.user?.deadline = nil
        self.user?.failures = 0
        effects.log(.debug, "signed in")
        if let id = self.connection.connected { self.send(PusherFrames.subscribe(UserID.channel(of: user.id)), on: id, &effects) }
        self.publishUser(since: .pending, &effects)
        for waiter in self.user?.waiters.takeAll() ?? [] { effects.resume(waiter, .success(.signedIn(member))) }
        for waiting in self.takeSubscriptions() {
            self.authorized(waiting.channel, waiting.work, waiting.authorization, now: now, &effects)
        }
    }

    mutating func signInFailed(_ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        guard let before = self.user?.state else { return }
        let failures = (self.user?.failures ?? 0) + 1
        self.user?.failures = failures
        // The machine keeps the error, which must not keep an object of the application.
        self.user?.state = .failed(error.forStorage)
        let delay = self.configuration.backoff.delay(failures: failures, minimum: .zero, using: &self.generator)
        self.user?.deadline = error.isTransient ? now.advanced(by: delay) : nil
        effects.log(.warning, error.message)
        self.publishUser(since: before.publicState, &effects)
        self.publish(.error(error), to: self.clientRoutes.errors, &effects)
        for waiter in self.user?.waiters.takeAll() ?? [] { effects.resume(waiter, .failure(error)) }
        for waiting in self.takeSubscriptions() {
            // The attempt that waited may have timed out, and another one may have succeeded since.
            guard self.channels.state(of: waiting.channel) == .authorizing(waiting.work) else { continue }
            let name = self.channels[waiting.channel]?.name ?? ""
            let failure = PusherError.userMissing(name, error, isRetried: error.isTransient)
            self.subscriptionFailed(waiting.channel, failure, now: now, &effects)
        }
    }

    /// Handles the deadline of a sign-in: retries a failed one, and fails one that wasn't confirmed in time.
    mutating func signInTimeout(now: Instant, _ effects: inout Effects<Self>) {
        guard let deadline = self.user?.deadline, deadline <= now else { return }
        self.user?.deadline = nil
        if case .failed = self.user?.state { return self.beginSignIn(now: now, &effects) }
        if case .authenticating(let work) = self.user?.state { effects.commands.append(.cancel(work)) }
        let message = "Signing in timed out after \(self.configuration.subscriptionTimeout)."
        self.signInFailed(PusherError(.timedOut, message), now: now, &effects)
    }

    mutating func signInLost(_ effects: inout Effects<Self>) {
        guard let before = self.user?.state, before != .idle else { return }
        if case .authenticating(let work) = before { effects.commands.append(.cancel(work)) }
        self.user?.state = .waiting
        self.user?.deadline = nil
        self.user?.subscriptions = []
        self.user?.deltaBases = nil
        self.publishUser(since: before.publicState, &effects)
    }

    private mutating func takeSubscriptions() -> [PusherUserSession.WaitingSubscription] {
        defer { self.user?.subscriptions = [] }
        return self.user?.subscriptions ?? []
    }

    private func publishUser(since before: PusherSignInState, _ effects: inout Effects<Self>) {
        guard let user, user.state.publicState != before else { return }
        self.publish(.user(user.state.publicState), to: user.states, &effects)
    }

    // MARK: Events

    /// Whether a channel is the user's, on which servers send events to the user.
    func isUserChannel(_ frame: PusherFrame) -> Bool { self.user?.channel.map(frame.isChannel) ?? false }

    /// Delivers an event of a server to the user.
    func deliverToUser(_ frame: PusherFrame, _ writer: inout EventWriter, _ effects: inout Effects<Self>) {
        guard let user else { return }
        let names = EventNames(frame.eventName, channel: user.channel)
        let event = writer.event(names, frame)
        effects.deliver(.event(event), on: user.events.route(names.event))
        if let routes = self.clientRoutes.events { effects.deliver(.event(event), on: routes.route(names.event)) }
    }

    /// Handles `pusher_internal:watchlist_events`.
    func watchlistEvents(_ data: JSONValue, _ effects: inout Effects<Self>) throws(PusherFrameError) {
        guard let events = data["events"]?.array else { throw .missing("events") }
        for event in events { self.watchlistEvent(event["name"]?.string ?? "", event, &effects) }
    }

    /// Handles an event about the watchlist in the form of a server that sends each as an event of its own. Sockudo sends the first ones before
    /// it confirms the sign-in.
    ///
    /// - Returns: `false` if it isn't such an event.
    func watchlistEvent(_ frame: PusherFrame, _ effects: inout Effects<Self>) -> Bool {
        guard self.user?.channel != nil || self.user?.state == .signingIn, frame.isEvent("online") || frame.isEvent("offline"),
            let data = try? frame.dataValue()
        else {
            return false
        }
        return self.watchlistEvent(frame.eventName, data, &effects)
    }

    @discardableResult
    private func watchlistEvent(_ name: String, _ data: JSONValue, _ effects: inout Effects<Self>) -> Bool {
        guard let user, let ids = data["user_ids"]?.array?.compactMap({ $0.string ?? $0.number.map { "\($0)" } }) else { return false }
        let change: PusherWatchlistChange
        switch name {
        case "online": change = .online(ids)
        case "offline": change = .offline(ids)
        default: return false
        }
        self.publish(.watchlist(change), to: user.watchlist, &effects)
        return true
    }

    // MARK: Waiting calls

    mutating func awaitSignedIn(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch (self.user?.state, self.state) {
        case (.signedIn(let user), _): effects.resume(waiter, .success(.signedIn(user)))
        case (.failed(let error), _), (_, .failed(let error)), (_, .disconnected(let error?)): effects.resume(waiter, .failure(error))
        default:
            var user = self.user ?? PusherUserSession()
            user.waiters.insert(waiter)
            self.user = user
        }
    }
}

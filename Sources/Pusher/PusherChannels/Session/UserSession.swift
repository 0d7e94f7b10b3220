import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem

/// The user of a session: the sign-in as a state machine, the calls that wait for it, and the user's watchlist.
///
/// ```
///   idle ──signIn()──▶ waiting ──connected──▶ authenticating ──authenticated──▶ signingIn ──succeeded──▶ signedIn
///                         ▲                          │                              │
///                         │                          └── failed, timed out ──▶ failed ◀── rejected, timed out
///                         └───────────── connection lost, from every state but idle ─────────────────────┘
///   failed ──signIn() or a retry──▶ authenticating
/// ```
struct UserSession: Sendable {
    enum State: Hashable, Sendable {
        case idle
        case waiting
        case authenticating(WorkID)
        case signingIn
        case signedIn(PusherMember)
        indirect case failed(PusherError)

        var publicState: PusherSignInState {
            switch self {
            case .idle: .signedOut
            case .waiting, .authenticating, .signingIn: .pending
            case .signedIn(let user): .signedIn(user)
            case .failed(let error): .failed(error)
            }
        }
    }

    /// A subscription to a presence channel whose member is the user.
    struct WaitingSubscription: Hashable, Sendable {
        var channel: NamedChannel
        var work: WorkID
        var authorization: PusherChannelAuthorization
    }

    /// The consumers of the user's updates apart from events.
    enum Topic: Sendable { case states, watchlist }

    private(set) var state = State.idle
    /// When the sign-in times out, or when a failed one is retried.
    private var limit: PatientLimit?
    /// The number of failures in a row.
    private(set) var failures = 0
    private var waiters = WaitingCalls()
    /// Subscriptions that wait until the user is signed in.
    private(set) var subscriptions: [WaitingSubscription] = []
    private var states = EventRoutes.none
    private var watchlist = EventRoutes.none
    /// Draws the delays between attempts.
    private var generator: SplitMix64

    init(seed: UInt64) {
        self.generator = SplitMix64(seed: seed)
    }

    var publicState: PusherSignInState { self.state.publicState }
    var nextDeadline: Instant? { self.limit?.deadline }
    var waiterCount: Int { self.waiters.count }

    /// The channel of the user, while the user is signed in.
    var channel: String? { if case .signedIn(let user) = self.state { UserID.channel(of: user.id) } else { nil } }

    /// Whether a channel is the user's, on which servers send events to the user.
    func isChannel(_ name: String) -> Bool { self.channel.map { ByteString($0) } == ByteString(name) }

    mutating func addConsumer(_ id: ConsumerID, to topic: Topic, _ routes: inout EventRoutes) {
        switch topic {
        case .states: routes.add(id, to: &self.states)
        case .watchlist: routes.add(id, to: &self.watchlist)
        }
    }

    // MARK: Signing in

    /// Remembers that the user is to be signed in. Call ``begin(_:_:_:)`` next.
    mutating func signIn(_ context: SessionContext, _ effects: inout SessionEffects) {
        guard self.state == .idle else { return }
        self.state = .waiting
        self.publish(since: .signedOut, context, &effects)
    }

    /// Requests the authentication, if the client was asked to sign in, is connected, and isn't signing in.
    ///
    /// - Throws: The reason why it can't. Call ``failed(_:_:_:)`` with it.
    mutating func begin(_ context: SessionContext, _ work: inout SessionWork, _ effects: inout SessionEffects) throws(PusherError) {
        let before = self.publicState
        switch self.state {
        case .waiting, .failed: break
        case .idle, .authenticating, .signingIn, .signedIn: return
        }
        guard let socketID = context.socketID else { return }
        guard let authenticator = context.configuration.userAuthenticator else {
            let message = "Signing in requires authentication: set `PusherConfiguration.userAuthenticator`."
            throw PusherError(.authorizationMissing, message)
        }
        let request = PusherSession.Work.user(socketID: socketID, authenticator, context.configuration)
        self.state = .authenticating(work.start(request, for: .authentication, &effects))
        self.limit = context.limit
        self.publish(since: before, context, &effects)
    }

    /// The authentication has succeeded. Its result is ignored if another one has begun since.
    mutating func authenticated(
        _ work: WorkID, _ authentication: PusherUserAuthentication, _ context: SessionContext, _ effects: inout SessionEffects
    ) {
        guard self.isAuthenticating(work), context.connection != nil else { return }
        self.state = .signingIn
        context.send(PusherFrames.signIn(auth: authentication.auth, userData: authentication.userData), &effects)
    }

    func isAuthenticating(_ work: WorkID) -> Bool { self.state == .authenticating(work) }

    /// Handles `pusher:signin_success`, which is ignored if the client isn't signing in.
    ///
    /// - Returns: The subscriptions that can continue now.
    mutating func confirmed(
        _ data: JSONValue, _ context: SessionContext, _ effects: inout SessionEffects
    ) throws(PusherFrameError) -> [WaitingSubscription] {
        guard self.state == .signingIn else {
            effects.counters.messagesIgnored += 1
            return []
        }
        let user = try UserData(data)
        let member = PusherMember(id: user.id, info: user.info)
        (self.state, self.limit, self.failures) = (.signedIn(member), nil, 0)
        effects.log(.debug, "signed in")
        context.send(PusherFrames.subscribe(UserID.channel(of: user.id)), &effects)
        self.publish(since: .pending, context, &effects)
        self.waiters.resumeAll(.success(.signedIn(member)), &effects)
        return self.takeSubscriptions()
    }

    /// Fails the sign-in, and retries it later if the failure may be temporary.
    ///
    /// - Returns: The subscriptions that waited for it, to fail them as well.
    mutating func failed(_ error: PusherError, _ context: SessionContext, _ effects: inout SessionEffects) -> [WaitingSubscription] {
        let before = self.publicState
        self.failures += 1
        // The state keeps the error, which must not keep an object of the application.
        self.state = .failed(error.forStorage)
        let delay = context.configuration.backoff.delay(failures: self.failures, minimum: .zero, using: &self.generator)
        self.limit = error.isTransient ? .wait(until: context.now.advanced(by: delay)) : nil
        effects.log(.warning, error.message)
        self.publish(since: before, context, &effects)
        context.consumers.publish(error, &effects)
        self.waiters.resumeAll(.failure(error), &effects)
        return self.takeSubscriptions()
    }

    /// The meaning of a deadline.
    enum Timeout: Sendable {
        /// A failed sign-in is retried: call ``begin(_:_:_:)``.
        case retry
        /// The sign-in wasn't confirmed in time: call ``failed(_:_:_:)``.
        case failed(PusherError)
    }

    /// Handles the limit, if it has passed.
    mutating func timeout(_ context: SessionContext, _ work: inout SessionWork, _ effects: inout SessionEffects) -> Timeout? {
        guard self.limit?.hasPassed(now: context.now) == true else { return nil }
        self.limit = nil
        if case .failed = self.state { return .retry }
        if case .authenticating(let id) = self.state { work.cancel(id, &effects) }
        return .failed(PusherError(.timedOut, "Signing in timed out after \(context.configuration.subscriptionTimeout)."))
    }

    /// The connection was lost.
    mutating func ended(_ context: SessionContext, _ work: inout SessionWork, _ effects: inout SessionEffects) {
        let before = self.publicState
        if self.state == .idle { return }
        if case .authenticating(let id) = self.state { work.cancel(id, &effects) }
        (self.state, self.limit, self.subscriptions) = (.waiting, nil, [])
        self.publish(since: before, context, &effects)
    }

    private func publish(since before: PusherSignInState, _ context: SessionContext, _ effects: inout SessionEffects) {
        guard self.publicState != before else { return }
        context.publish(.user(self.publicState), to: self.states, &effects)
    }

    // MARK: Presence channels

    /// Returns the ID of the client's member on a presence channel. The server takes a missing member from the sign-in.
    ///
    /// - Parameters:
    ///   - work: The authorization of the subscription.
    ///   - authorization: Its result.
    /// - Returns: The ID, or `nil` if the subscription waits for the sign-in.
    /// - Throws: The reason why there is no member.
    mutating func member(
        of channel: NamedChannel, _ work: WorkID, _ authorization: PusherChannelAuthorization
    ) throws(PusherError) -> String? {
        if let data = authorization.channelData {
            if let user = try? PresenceUser(try JSONValue(parsing: data)) { return user.id }
        } else {
            switch self.state {
            case .signedIn(let user): return user.id
            case .waiting, .authenticating, .signingIn:
                self.subscriptions.append(WaitingSubscription(channel: channel, work: work, authorization: authorization))
                return nil
            // The error that is stored has lost the cause that made it transient.
            case .failed(let error): throw .userMissing(channel.name, error, isRetried: self.limit != nil)
            case .idle: break
            }
        }
        let reason = "\"channel_data\" of a presence channel must be a JSON object with a \"user_id\", unless the user is signed in."
        throw .authorizationFailed(channel.name, "", reason)
    }

    private mutating func takeSubscriptions() -> [WaitingSubscription] {
        defer { self.subscriptions = [] }
        return self.subscriptions
    }

    // MARK: The watchlist

    /// Handles `pusher_internal:watchlist_events`.
    func watchlistEvents(_ data: JSONValue, _ context: SessionContext, _ effects: inout SessionEffects) throws(PusherFrameError) {
        guard let events = data["events"]?.array else { throw .missing("events") }
        for event in events { self.watchlistEvent(event["name"]?.string ?? "", event, context, &effects) }
    }

    /// Whether events about the watchlist may arrive without a channel, each on its own: some servers send them in this form. Sockudo sends the
    /// first ones before it confirms the sign-in.
    var receivesWatchlist: Bool {
        switch self.state {
        case .signingIn, .signedIn: true
        case .idle, .waiting, .authenticating, .failed: false
        }
    }

    /// Handles an event about the watchlist.
    ///
    /// - Returns: `false` if it isn't such an event.
    @discardableResult
    func watchlistEvent(_ name: String, _ data: JSONValue, _ context: SessionContext, _ effects: inout SessionEffects) -> Bool {
        guard let ids = data["user_ids"]?.array?.compactMap({ $0.string ?? $0.number.map { "\($0)" } }) else { return false }
        let change: PusherWatchlistChange
        switch name {
        case "online": change = .online(ids)
        case "offline": change = .offline(ids)
        default: return false
        }
        context.publish(.watchlist(change), to: self.watchlist, &effects)
        return true
    }

    // MARK: Waiting calls

    /// Resumes a call when the user is signed in, or with the error of the sign-in.
    ///
    /// - Parameter ended: Why the client doesn't connect, if it has given up.
    mutating func wait(_ waiter: WaiterID, ended: PusherError?, _ effects: inout SessionEffects) {
        switch self.state {
        case .signedIn(let user): effects.resume(waiter, .success(.signedIn(user)))
        case .failed(let error): effects.resume(waiter, .failure(error))
        case .idle, .waiting, .authenticating, .signingIn:
            if let ended { effects.resume(waiter, .failure(ended)) } else { self.waiters.insert(waiter) }
        }
    }

    func awaits(_ waiter: WaiterID) -> Bool { self.waiters.contains(waiter) }

    mutating func cancelled(_ waiter: WaiterID) { self.waiters.remove(waiter) }

    /// Fails all calls that wait.
    mutating func failWaiters(_ error: PusherError, _ effects: inout SessionEffects) {
        self.waiters.resumeAll(.failure(error), &effects)
    }
}

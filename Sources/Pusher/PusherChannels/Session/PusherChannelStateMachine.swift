import RealtimeCore

/// The state machine of one subscription.
///
/// ```
///   waiting ──begin, with authorization──▶ authorizing ──authorized──▶ subscribing ──succeeded──▶ subscribed
///      ▲    ──begin, without───────────────────────────────────────────▶ ▲
///      │                                        │ failed, timed out         │ failed, timed out       │ rejected
///      │                                        └──────────────▶ failed ◀───┴─────────────────────────┘
///      └───────────────────── connection lost, from every state ────────────┘
///   failed ──subscribe() or a retry──▶ as from waiting
///   subscribed ──another filter──▶ waiting
///   subscribing ──an error that names no channel──▶ presumedFailed ──succeeded──▶ subscribed
/// ```
/// `presumedFailed` is `failed`, except that the server may still confirm the subscription: the error may have been about something else.
///
/// A channel also stays in `waiting` while too many other authorizations are running; see ``AuthorizationQueue``.
///
/// The result of an authorization is only accepted if it has the ID of the current one: an earlier one was made for another socket ID.
/// The session sets a deadline for `authorizing` and `subscribing`.
struct PusherChannelStateMachine: Sendable {
    enum State: Hashable, Sendable {
        case waiting
        case authorizing(WorkID)
        case subscribing
        case subscribed
        indirect case failed(PusherError)
        /// The server has reported an error that was probably about this subscription.
        indirect case presumedFailed(PusherError)

        /// Why the subscription has failed.
        var failure: PusherError? {
            switch self {
            case .failed(let error), .presumedFailed(let error): error
            case .waiting, .authorizing, .subscribing, .subscribed: nil
            }
        }
    }

    private(set) var state: State = .waiting

    var publicState: PusherSubscriptionState {
        switch self.state {
        case .waiting, .authorizing, .subscribing: .pending
        case .subscribed: .subscribed
        case .failed(let error), .presumedFailed(let error): .failed(error)
        }
    }

    /// Whether a subscription can begin.
    var canBegin: Bool {
        switch self.state {
        case .waiting, .failed, .presumedFailed: true
        case .authorizing, .subscribing, .subscribed: false
        }
    }

    /// Whether the client has sent a subscription to the server. Frames about other channels are ignored.
    var isKnownToServer: Bool {
        switch self.state {
        case .subscribing, .subscribed, .presumedFailed: true
        case .waiting, .authorizing, .failed: false
        }
    }

    enum BeginAction: Hashable { case none, authorize(WorkID), subscribe }

    /// Begins to subscribe, after connecting or when the user calls `subscribe`.
    ///
    /// - Parameter work: The ID of the authorization, or `nil` if the channel needs none.
    mutating func begin(authorizing work: WorkID?) -> BeginAction {
        guard self.canBegin else { return .none }
        if let work {
            self.state = .authorizing(work)
            return .authorize(work)
        }
        self.state = .subscribing
        return .subscribe
    }

    /// Accepts the result of an authorization.
    ///
    /// - Returns: Whether to send the subscription: `false` if the authorization is not the current one.
    mutating func authorized(_ work: WorkID) -> Bool {
        guard case .authorizing(work) = self.state else { return false }
        self.state = .subscribing
        return true
    }

    /// Accepts the server's confirmation.
    ///
    /// - Returns: Whether the state has changed: `false` if no confirmation was expected.
    mutating func succeeded() -> Bool {
        switch self.state {
        case .subscribing, .presumedFailed:
            self.state = .subscribed
            return true
        case .waiting, .authorizing, .subscribed, .failed: return false
        }
    }

    enum FailAction: Hashable { case none, publish, publishAndCancel(WorkID) }

    /// Fails the subscription.
    ///
    /// - Parameter isPresumed: Whether the error names no channel, so that it may have been about something else. Only a subscription that
    ///   awaits its confirmation can have such a failure.
    mutating func failed(_ error: PusherError, isPresumed: Bool = false) -> FailAction {
        switch self.state {
        case .waiting, .failed: return .none
        case .presumedFailed(let earlier):
            if !isPresumed { self.state = .failed(earlier) }
            return .none
        case .subscribing where isPresumed:
            self.state = .presumedFailed(error)
            return .publish
        case .authorizing(let work):
            self.state = .failed(error)
            return .publishAndCancel(work)
        case .subscribing, .subscribed:
            self.state = .failed(error)
            return .publish
        }
    }

    /// Begins again, because the server must receive another filter.
    ///
    /// - Returns: Whether the state has changed.
    mutating func replace() -> Bool {
        guard case .subscribed = self.state else { return false }
        self.state = .waiting
        return true
    }

    enum LostAction: Hashable { case none, publish, cancel(WorkID) }

    mutating func connectionLost() -> LostAction {
        defer { self.state = .waiting }
        switch self.state {
        case .waiting, .subscribing: return .none
        case .authorizing(let work): return .cancel(work)
        case .subscribed, .failed, .presumedFailed: return .publish
        }
    }

    enum UnsubscribeAction: Hashable { case none, send, cancel(WorkID) }

    /// Returns how to unsubscribe. The machine is discarded afterwards.
    func unsubscribe() -> UnsubscribeAction {
        switch self.state {
        case .waiting, .failed: .none
        case .authorizing(let work): .cancel(work)
        case .subscribing, .subscribed, .presumedFailed: .send
        }
    }
}

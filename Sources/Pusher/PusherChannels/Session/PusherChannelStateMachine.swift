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
/// ```
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
    }

    private(set) var state: State = .waiting

    var publicState: PusherSubscriptionState {
        switch self.state {
        case .waiting, .authorizing, .subscribing: .pending
        case .subscribed: .subscribed
        case .failed(let error): .failed(error)
        }
    }

    /// Whether a subscription can begin.
    var canBegin: Bool {
        switch self.state {
        case .waiting, .failed: true
        case .authorizing, .subscribing, .subscribed: false
        }
    }

    /// Whether the client has sent a subscription to the server. Frames about other channels are ignored.
    var isKnownToServer: Bool {
        switch self.state {
        case .subscribing, .subscribed: true
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
        guard case .subscribing = self.state else { return false }
        self.state = .subscribed
        return true
    }

    enum FailAction: Hashable { case none, publish, publishAndCancel(WorkID) }

    mutating func failed(_ error: PusherError) -> FailAction {
        switch self.state {
        case .waiting, .failed: return .none
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
        case .subscribed, .failed: return .publish
        }
    }

    enum UnsubscribeAction: Hashable { case none, send, cancel(WorkID) }

    /// Returns how to unsubscribe. The machine is discarded afterwards.
    func unsubscribe() -> UnsubscribeAction {
        switch self.state {
        case .waiting, .failed: .none
        case .authorizing(let work): .cancel(work)
        case .subscribing, .subscribed: .send
        }
    }
}

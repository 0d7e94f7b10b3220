import RealtimeCore

/// The life of one wanted subscription.
///
/// ```
///   waiting ──connected, authorisation needed──▶ authorizing ──authorized──▶ subscribing ──succeeded──▶ subscribed
///      ▲    ──connected, public──────────────────────────────────────────────▶ ▲
///      │                                              │ failed, timeout        │ failed, timeout         │ refused
///      │                                              └────────────▶ failed ◀──┴─────────────────────────┘
///      └────────────────────── connection lost, from every state ──────────────┘
///   failed ──the user asks, or it may have passed──▶ as from waiting
/// ```
/// It also waits, with the connection there, until there is room for one more authorisation: the session sees to that.
///
/// An authorisation carries the number of its work: the answer to an older one, made for another socket ID, matches
/// nothing. Both states that wait for somebody have a deadline.
struct PusherChannelStateMachine: Sendable {
    enum State: Sendable {
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

    var isSubscribed: Bool { if case .subscribed = self.state { true } else { false } }

    /// Whether the server was asked for the channel: what it says of any other is an answer to nothing.
    var isAsked: Bool {
        switch self.state {
        case .subscribing, .subscribed: true
        case .waiting, .authorizing, .failed: false
        }
    }

    enum BeginAction: Equatable { case none, authorize, subscribe }

    /// The connection is there, or the user asks again.
    ///
    /// - Parameter work: the authorisation's number, where one is needed.
    mutating func begin(authorizing work: WorkID?) -> BeginAction {
        switch self.state {
        case .waiting, .failed:
            self.state = work.map { .authorizing($0) } ?? .subscribing
            return work == nil ? .subscribe : .authorize
        case .authorizing, .subscribing, .subscribed:
            return .none
        }
    }

    /// False: an answer that nobody waits for any more.
    mutating func authorized(_ work: WorkID) -> Bool {
        guard case .authorizing(work) = self.state else { return false }
        self.state = .subscribing
        return true
    }

    /// False: nothing new.
    mutating func succeeded() -> Bool {
        guard case .subscribing = self.state else { return false }
        self.state = .subscribed
        return true
    }

    enum FailAction: Equatable { case none, announce, announceAndCancel(WorkID) }

    mutating func failed(_ error: PusherError) -> FailAction {
        switch self.state {
        case .waiting, .failed: return .none
        case .authorizing(let work):
            self.state = .failed(error)
            return .announceAndCancel(work)
        case .subscribing, .subscribed:
            self.state = .failed(error)
            return .announce
        }
    }

    enum LostAction: Equatable { case none, announce, cancel(WorkID) }

    mutating func connectionLost() -> LostAction {
        defer { self.state = .waiting }
        switch self.state {
        case .waiting, .subscribing: return .none
        case .authorizing(let work): return .cancel(work)
        case .subscribed, .failed: return .announce
        }
    }

    enum UnsubscribeAction: Equatable { case none, send, cancel(WorkID) }

    /// It is not wanted any more; the machine is thrown away after this.
    func unsubscribe() -> UnsubscribeAction {
        switch self.state {
        case .waiting, .failed: .none
        case .authorizing(let work): .cancel(work)
        case .subscribing, .subscribed: .send
        }
    }
}

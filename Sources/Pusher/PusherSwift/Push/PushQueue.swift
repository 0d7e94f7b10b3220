import RealtimeCore

/// The requests to the service for push notifications, as a value: one after the other, and again after a failure.
struct PushQueue: Sendable {
    enum Change: Hashable, Sendable {
        case subscribe(String), unsubscribe(String)
        case set([String])
    }

    enum Request: Hashable, Sendable {
        case register(appKey: String, token: String)
        case change(Change, appKey: String, clientID: String)
    }

    private enum Phase: Hashable, Sendable {
        case idle
        /// The request with this number is in progress: the registration of this token, or a change.
        case sending(Int, token: String?)
        case waiting(until: Instant)
        /// Too many requests failed. The next call of the application tries again.
        case paused
    }

    /// The number of failures in a row after which the queue pauses.
    static let failureLimit = 6

    private(set) var clientID: String?
    private var appKey: String?
    private var token: String?
    private var changes = FIFO<Change>()
    private var phase = Phase.idle
    private var failures = 0
    private var lastNumber = 0

    var nextDeadline: Instant? { if case .waiting(let until) = self.phase { until } else { nil } }

    /// - Returns: The request to send now, with its number.
    mutating func setAppKey(_ key: String) -> (Int, Request)? {
        self.appKey = key
        return self.next()
    }

    mutating func register(token: String) -> (Int, Request)? {
        self.token = token
        self.resume()
        return self.next()
    }

    mutating func add(_ change: Change) -> (Int, Request)? {
        self.changes.append(change)
        self.resume()
        return self.next()
    }

    mutating func timeout(now: Instant) -> (Int, Request)? {
        guard case .waiting(let until) = self.phase, until <= now else { return nil }
        self.phase = .idle
        return self.next()
    }

    /// - Returns: Whether the result belongs to the current request, and the request to send next.
    mutating func registered(_ number: Int, clientID: String) -> (isCurrent: Bool, next: (Int, Request)?) {
        guard case .sending(number, let token) = self.phase else { return (false, nil) }
        self.clientID = clientID
        // The device may have received another token since.
        if self.token == token { self.token = nil }
        return (true, self.succeeded())
    }

    mutating func changed(_ number: Int) -> (change: Change?, next: (Int, Request)?) {
        guard case .sending(number, _) = self.phase, let change = self.changes.popFirst() else { return (nil, nil) }
        return (change, self.succeeded())
    }

    mutating func failed(_ number: Int, now: Instant) -> Bool {
        guard case .sending(number, _) = self.phase else { return false }
        self.failures += 1
        let delay = Duration.seconds(self.failures * self.failures)
        self.phase = self.failures < Self.failureLimit ? .waiting(until: now.advanced(by: delay)) : .paused
        return true
    }

    private mutating func succeeded() -> (Int, Request)? {
        self.failures = 0
        self.phase = .idle
        return self.next()
    }

    private mutating func resume() {
        guard self.phase == .paused else { return }
        self.phase = .idle
        self.failures = 0
    }

    private mutating func next() -> (Int, Request)? {
        guard self.phase == .idle, let appKey else { return nil }
        let request: Request
        let token = self.token
        if let token {
            request = .register(appKey: appKey, token: token)
        } else if let clientID, let change = self.changes.first {
            request = .change(change, appKey: appKey, clientID: clientID)
        } else {
            return nil
        }
        self.lastNumber += 1
        self.phase = .sending(self.lastNumber, token: token)
        return (self.lastNumber, request)
    }
}

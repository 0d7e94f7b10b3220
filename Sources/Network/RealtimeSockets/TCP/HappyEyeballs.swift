package import RealtimeCore

/// The order and timing of connection attempts to the addresses of a host (Happy Eyeballs, RFC 8305).
///
/// This is a state machine without I/O. Its owner performs the returned actions, and calls ``timeout(now:)`` at ``nextDeadline``.
package struct HappyEyeballs: Sendable {
    package enum Action: Equatable, Sendable {
        /// Start a connection attempt with this number.
        case connect(Int, SocketAddress)
        /// All attempts have failed or the time limit has expired: stop the remaining attempts.
        case fail(TransportError)
        case none
    }

    package enum ConnectedAction: Sendable {
        /// Use the connection and stop the other attempts.
        case use
        /// Close the connection: another one is used, or the machine has failed.
        case discard
    }

    private enum State: Sendable {
        case resolving
        case connecting(nextAttempt: Instant)
        case ended
    }

    private let target: String
    private let limit: Duration
    private var patience: PatientLimit
    private let delay: Duration
    private var state = State.resolving
    private var addresses: [SocketAddress] = []
    private var started = 0
    private var running = 0
    private var error: TransportError?

    /// Creates a machine that waits for the result of the lookup.
    ///
    /// - Parameters:
    ///   - target: The host and port, for error messages.
    ///   - now: The current time.
    ///   - limit: The time limit for the lookup and all attempts.
    ///   - delay: The delay between attempts. The default is 250 ms, as recommended by RFC 8305 section 5.
    package init(target: String, now: Instant, limit: Duration, delay: Duration = .milliseconds(250)) {
        self.target = target
        self.limit = limit
        self.patience = PatientLimit(limit, now: now)
        self.delay = delay
    }

    private var deadline: Instant { self.patience.deadline }

    /// The time at which to call ``timeout(now:)``, or `nil` if the machine has finished.
    package var nextDeadline: Instant? {
        switch self.state {
        case .resolving: self.deadline
        case .connecting(let nextAttempt): self.started < self.addresses.count ? min(nextAttempt, self.deadline) : self.deadline
        case .ended: nil
        }
    }

    /// Handles the result of the lookup.
    package mutating func resolved(_ result: Result<[SocketAddress], TransportError>, now: Instant) -> Action {
        guard case .resolving = self.state else { return .none }
        switch result {
        case .success(let addresses):
            self.addresses = Self.ordered(addresses)
            self.error = .noAddress(self.target)
            return self.startNext(now)
        case .failure(let error):
            self.state = .ended
            return .fail(error)
        }
    }

    /// Handles a failed attempt. The next one starts immediately.
    package mutating func failed(_ number: Int, _ error: TransportError, now: Instant) -> Action {
        guard case .connecting = self.state else { return .none }
        self.running -= 1
        if self.started == 1 || Self.precedence(error) > Self.precedence(self.error) { self.error = error }
        return self.startNext(now)
    }

    /// Handles a successful attempt.
    package mutating func connected(_ number: Int) -> ConnectedAction {
        guard case .connecting = self.state else { return .discard }
        self.state = .ended
        return .use
    }

    /// Handles a deadline.
    package mutating func timeout(now: Instant) -> Action {
        let hasTimedOut = self.patience.hasPassed(now: now)
        switch self.state {
        case .ended:
            return .none
        case .resolving where hasTimedOut:
            self.state = .ended
            return .fail(
                TransportError(
                    .timedOut, "The lookup of \(self.target) timed out after \(self.limit). Check the network and its name server."))
        case .connecting where hasTimedOut:
            self.state = .ended
            return .fail(
                TransportError(
                    .timedOut,
                    "The connection to \(self.target) timed out after \(self.limit). Check the address, the network and any firewall."))
        case .connecting(let nextAttempt) where now >= nextAttempt && self.started < self.addresses.count:
            return self.startNext(now)
        case .resolving, .connecting:
            return .none
        }
    }

    private mutating func startNext(_ now: Instant) -> Action {
        guard self.started < self.addresses.count else {
            guard self.running == 0 else { return .none }
            self.state = .ended
            return .fail(self.error ?? .noAddress(self.target))
        }
        self.state = .connecting(nextAttempt: now.advanced(by: self.delay))
        self.running += 1
        defer { self.started += 1 }
        return .connect(self.started, self.addresses[self.started])
    }

    /// Orders addresses so that the families alternate, starting with IPv6. Within a family, the order of the resolver is kept (RFC 8305
    /// section 4).
    static func ordered(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let (first, second) = (addresses.filter { $0.family == .v6 }, addresses.filter { $0.family == .v4 })
        return (0..<max(first.count, second.count)).flatMap { index in
            [first, second].compactMap { index < $0.count ? $0[index] : nil }
        }
    }

    /// The precedence among the errors of several attempts: first a response of the host, then a timeout, then an unreachable host.
    private static func precedence(_ error: TransportError?) -> Int {
        switch error?.code {
        case .refused, .reset: 3
        case .timedOut: 2
        case .unreachable: 1
        default: 0
        }
    }
}

package import RealtimeCore

/// Which address to try when: both families raced, as in RFC 8305.
///
/// A value without sockets. The one who runs it carries out what its calls return, and calls ``timeout(now:)`` at
/// ``nextDeadline``.
package struct HappyEyeballs: Sendable {
    package enum Action: Equatable, Sendable {
        /// Begin to connect; the number names this try.
        case connect(Int, SocketAddress)
        /// Nothing is left to try, or the time is up: stop every try.
        case giveUp(TransportError)
        case none
    }

    package enum ConnectedAction: Sendable {
        /// Stop every other try.
        case use
        /// It comes too late: close it.
        case discard
    }

    private enum State: Sendable {
        case resolving
        case connecting(nextTry: Instant)
        case ended
    }

    private let target: String
    private let limit: Duration
    private let deadline: Instant
    private let delay: Duration
    private var state = State.resolving
    private var addresses: [SocketAddress] = []
    private var tried = 0
    private var running = 0
    private var error: TransportError?

    /// - Parameters:
    ///   - target: host and port, for messages.
    ///   - limit: for everything, from the look-up on.
    ///   - delay: what the next address waits for the one before it; 250 ms is what section 5 recommends.
    package init(target: String, now: Instant, limit: Duration, delay: Duration = .milliseconds(250)) {
        self.target = target
        self.limit = limit
        self.deadline = now.advanced(by: limit)
        self.delay = delay
    }

    package var nextDeadline: Instant? {
        switch self.state {
        case .resolving: self.deadline
        case .connecting(let nextTry): self.tried < self.addresses.count ? min(nextTry, self.deadline) : self.deadline
        case .ended: nil
        }
    }

    package mutating func resolved(_ result: Result<[SocketAddress], TransportError>, now: Instant) -> Action {
        guard case .resolving = self.state else { return .none }
        switch result {
        case .success(let addresses):
            self.addresses = Self.ordered(addresses)
            self.error = .noAddress(self.target)
            return self.tryNext(now)
        case .failure(let error):
            self.state = .ended
            return .giveUp(error)
        }
    }

    /// A try has failed: the next one does not wait.
    package mutating func failed(_ number: Int, _ error: TransportError, now: Instant) -> Action {
        guard case .connecting = self.state else { return .none }
        self.running -= 1
        if self.tried == 1 || Self.weight(error) > Self.weight(self.error) { self.error = error }
        return self.tryNext(now)
    }

    /// A try has succeeded.
    package mutating func connected(_ number: Int) -> ConnectedAction {
        guard case .connecting = self.state else { return .discard }
        self.state = .ended
        return .use
    }

    package mutating func timeout(now: Instant) -> Action {
        switch self.state {
        case .ended:
            return .none
        case .resolving where now >= self.deadline:
            self.state = .ended
            return .giveUp(
                TransportError(
                    .timedOut, "Looking up \(self.target) took longer than \(self.limit): check the network and its name server."))
        case .connecting where now >= self.deadline:
            self.state = .ended
            return .giveUp(
                TransportError(
                    .timedOut, "\(self.target) did not answer within \(self.limit): check the address, the network and any firewall."))
        case .connecting(let nextTry) where now >= nextTry && self.tried < self.addresses.count:
            return self.tryNext(now)
        case .resolving, .connecting:
            return .none
        }
    }

    private mutating func tryNext(_ now: Instant) -> Action {
        guard self.tried < self.addresses.count else {
            guard self.running == 0 else { return .none }
            self.state = .ended
            return .giveUp(self.error ?? .noAddress(self.target))
        }
        self.state = .connecting(nextTry: now.advanced(by: self.delay))
        self.running += 1
        defer { self.tried += 1 }
        return .connect(self.tried, self.addresses[self.tried])
    }

    /// IPv6 first and then in turn; within a family in the resolver's order (section 4).
    static func ordered(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let (first, second) = (addresses.filter { $0.family == .v6 }, addresses.filter { $0.family == .v4 })
        return (0..<max(first.count, second.count)).flatMap { index in
            [first, second].compactMap { index < $0.count ? $0[index] : nil }
        }
    }

    /// Which of several failures says most about the service: somebody answered, nobody did, there was no way.
    private static func weight(_ error: TransportError?) -> Int {
        switch error?.code {
        case .refused, .reset: 3
        case .timedOut: 2
        case .unreachable: 1
        default: 0
        }
    }
}

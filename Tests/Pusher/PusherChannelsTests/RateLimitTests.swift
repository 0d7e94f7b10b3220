import PusherWire
import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

@testable import PusherChannels

/// The order and the times in which subscriptions are sent, without a session.
@Suite struct SubscriptionQueueTests {
    private static func channel(_ number: Int) -> ChannelID { ChannelID(slot: UInt32(number), serial: 1) }

    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private static func add(_ numbers: ClosedRange<Int>, to queue: inout SubscriptionQueue, at milliseconds: Int64 = 0) -> Int {
        numbers.count { queue.add(Self.channel($0), .text("\($0)"), now: Self.at(milliseconds)) }
    }

    /// The numbers of the channels that are sent up to a time, with the times in milliseconds.
    private static func sent(_ queue: inout SubscriptionQueue, until milliseconds: Int64) -> [String] {
        var lines: [String] = []
        while let deadline = queue.nextDeadline, deadline <= Self.at(milliseconds), let due = queue.takeDue(now: deadline) {
            lines.append("\(due.channel.slot) at \(deadline.nanoseconds / 1_000_000)")
        }
        return lines
    }

    @Test func `without a limit, everything is sent immediately and nothing is kept`() {
        var queue = SubscriptionQueue()
        expectEqual(Self.add(1...100, to: &queue), 100)
        for number in 1...100 { expectNil(queue.confirmed(Self.channel(number), now: Self.at(10))) }
        expectNil(queue.nextDeadline)
        expectNil(queue.number(of: Self.channel(1)))
        expect(!queue.connectionEnded(isByPeer: true, now: Self.at(20)))
    }

    @Test func `rejected subscriptions wait for a pause, then for the answer to the first, and follow at intervals`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...14, to: &queue)
        for number in 1...10 { _ = queue.confirmed(Self.channel(number), now: Self.at(5)) }
        let pauses = (11...14).map { _ in queue.rejected(nil, now: Self.at(10)) }
        expectEqual(pauses.map { $0?.channel.slot }, [11, 12, 13, 14])
        expectEqual(pauses.map { $0?.pauseBegins }, [true, false, false, false])
        expectNil(queue.rejected(nil, now: Self.at(10)))
        expect(queue.isWaiting(Self.channel(11)) && queue.number(of: Self.channel(11)) == nil)
        expectEqual(Self.sent(&queue, until: 60_000), ["11 at 1110"])
        expectNil(queue.confirmed(Self.channel(11), now: Self.at(1150)))
        // Four fifths of ten in a second.
        expectEqual(Self.sent(&queue, until: 60_000), ["12 at 1235", "13 at 1360", "14 at 1485"])
    }

    @Test func `while the first after a pause is rejected, the pauses grow up to about a minute`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...2, to: &queue)
        var (time, pauses) = (Int64(0), [Int64]())
        _ = queue.rejected(nil, now: Self.at(time))
        _ = queue.rejected(nil, now: Self.at(time))
        for _ in 1...9 {
            guard let deadline = queue.nextDeadline else { return expect(false, "nothing is due") }
            pauses.append((deadline.nanoseconds / 1_000_000 - time) / 1000)
            _ = queue.takeDue(now: deadline)
            expect(queue.nextDeadline == nil && queue.takeDue(now: deadline) == nil)
            time = deadline.nanoseconds / 1_000_000
            expectEqual(queue.rejected(nil, now: deadline)?.pauseBegins, true)
        }
        expectEqual(pauses, [1, 2, 4, 8, 17, 35, 64, 64, 64])
    }

    @Test func `a rejection after confirmations adapts the interval, and one without doubles it`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...20, to: &queue)
        for _ in 1...20 { _ = queue.rejected(nil, now: Self.at(0)) }
        _ = Self.sent(&queue, until: 1100)
        _ = queue.confirmed(Self.channel(1), now: Self.at(1100))
        // Eight in a second, as nothing was confirmed before.
        expectEqual(Self.sent(&queue, until: 1500), ["2 at 1225", "3 at 1350", "4 at 1475"])
        for number in 2...3 { _ = queue.confirmed(Self.channel(number), now: Self.at(1490)) }
        _ = queue.rejected(nil, now: Self.at(1500))
        expectEqual(Self.sent(&queue, until: 10_000), ["5 at 2600"])
        _ = queue.confirmed(Self.channel(5), now: Self.at(2600))
        // Three were confirmed within a second.
        expectEqual(Self.sent(&queue, until: 3200), ["6 at 3016"])
    }

    @Test func `a confirmed subscription that was taken for rejected leaves the rejection to the next one`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...3, to: &queue)
        expectEqual(queue.rejected(nil, now: Self.at(0))?.channel, Self.channel(1))
        expectEqual(queue.confirmed(Self.channel(1), now: Self.at(1)), Self.channel(2))
        expectNil(queue.confirmed(Self.channel(3), now: Self.at(2)))
        expectEqual(Self.sent(&queue, until: 60_000), ["2 at 1100"])
    }

    @Test func `the server may name the channel`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...3, to: &queue)
        expectEqual(queue.rejected(Self.channel(3), now: Self.at(0))?.channel, Self.channel(3))
        // It waits already, so that the error is about another one.
        expectEqual(queue.rejected(Self.channel(3), now: Self.at(0))?.channel, Self.channel(1))
    }

    @Test func `a subscription that ends while the others await its answer lets them continue`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...3, to: &queue)
        for _ in 1...3 { _ = queue.rejected(nil, now: Self.at(0)) }
        expectEqual(Self.sent(&queue, until: 60_000), ["1 at 1100"])
        queue.remove(Self.channel(1))
        queue.remove(Self.channel(2))
        expectEqual(Self.sent(&queue, until: 60_000), ["3 at 1225"])
    }

    @Test func `with a known limit, another subscription is sent immediately only after the interval`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...1, to: &queue)
        _ = queue.rejected(nil, now: Self.at(0))
        _ = Self.sent(&queue, until: 1100)
        _ = queue.confirmed(Self.channel(1), now: Self.at(1100))
        expectEqual(Self.add(2...3, to: &queue, at: 5000), 1)
        expectEqual(Self.sent(&queue, until: 60_000), ["3 at 5125"])
    }

    @Test func `a limit is kept for the next connection and forgotten with the server`() {
        var queue = SubscriptionQueue()
        _ = Self.add(1...2, to: &queue)
        _ = queue.rejected(nil, now: Self.at(0))
        expect(!queue.connectionEnded(isByPeer: false, now: Self.at(0)))
        expectEqual(Self.add(1...2, to: &queue), 1)
        _ = queue.connectionEnded(isByPeer: false, now: Self.at(0))
        queue.forgetLimit()
        expectEqual(Self.add(1...2, to: &queue), 2)
    }

    @Test(arguments: [(true, 10, 1), (true, 0, 25), (false, 10, 25)])
    func `a server that ends the connection between confirmations probably has a limit`(isByPeer: Bool, confirmed: Int, sent: Int) {
        var queue = SubscriptionQueue()
        _ = Self.add(1...25, to: &queue)
        for number in 1..<(confirmed + 1) { _ = queue.confirmed(Self.channel(number), now: Self.at(5)) }
        expectEqual(queue.connectionEnded(isByPeer: isByPeer, now: Self.at(10)), sent == 1)
        expectEqual(Self.add(1...25, to: &queue, at: 1000), sent)
        guard sent == 1 else { return }
        expectEqual(Self.sent(&queue, until: 1300), ["2 at 1125", "3 at 1250"])
        // Ending the next one as well halves the rate.
        _ = queue.confirmed(Self.channel(1), now: Self.at(1300))
        expect(queue.connectionEnded(isByPeer: true, now: Self.at(1300)))
        expectEqual(Self.add(1...25, to: &queue, at: 2000), 1)
        expectEqual(Self.sent(&queue, until: 2500), ["2 at 2250", "3 at 2500"])
        // A connection on which all are confirmed shows that there may be none.
        for number in 1...25 { _ = queue.confirmed(Self.channel(number), now: Self.at(2500)) }
        expect(!queue.connectionEnded(isByPeer: true, now: Self.at(9000)))
        expectEqual(Self.add(1...25, to: &queue, at: 9000), 25)
    }
}

/// A client and a server that limits the rate of messages on each connection.
@Suite struct RateLimitTests {
    enum Excess: Sendable { case rejected, ends(CloseReason) }

    /// A session with a server that accepts a number of messages within each period.
    private struct Run {
        var harness: SessionHarness
        let limit: Int, period: Duration, excess: Excess
        var lines: [String] = []
        /// The messages that the server received.
        var received: [String] = []
        private var accepted = 0
        private var since: Instant?
        private var connection: ConnectionID?

        init(_ channels: Int, limit: Int, period: Duration = .seconds(1), _ excess: Excess, isPrivate: Bool = false) {
            (self.limit, self.period, self.excess) = (limit, period, excess)
            self.harness = SessionHarness(logLevel: .warning) { $0.backoff = Backoff(base: .milliseconds(100), cap: .seconds(1)) }
            for number in 1...channels { self.harness.subscribe(isPrivate ? "private-\(number)" : "channel-\(number)") }
            self.handle(self.harness.start())
        }

        var subscribed: Int { self.harness.session.channels.ids.count { self.harness.session.channels.state(of: $0) == .subscribed } }

        /// Lets time pass, from deadline to deadline, until all channels are subscribed.
        mutating func run(for duration: Duration) {
            let end = self.harness.now.advanced(by: duration)
            while self.harness.now < end, self.subscribed < self.harness.session.channels.ids.count {
                let next = self.harness.machine.nextDeadline.map { self.harness.now.duration(to: $0) } ?? duration
                self.handle(self.harness.advance(by: max(.milliseconds(1), min(next, self.harness.now.duration(to: end)))))
            }
        }

        mutating func handle(_ lines: [String]) {
            self.lines += lines
            for line in lines {
                if line.hasPrefix("open ") {
                    self.handle(self.harness.establish())
                } else if line.hasPrefix("authorize "), let work = UInt64(line.split(separator: " ")[1]) {
                    self.handle(self.harness.authorize(work))
                } else if line.hasPrefix("#\(self.harness.connection.rawValue) pusher:") {
                    self.receive(line)
                }
            }
        }

        private mutating func receive(_ line: String) {
            let parts = line.split(separator: " ").map(String.init)
            self.received.append(parts.dropFirst().joined(separator: " "))
            // Reverb counts the messages of each connection from the first one of a period.
            if self.connection != self.harness.connection || self.since.map({ $0.advanced(by: self.period) <= self.harness.now }) ?? true {
                (self.connection, self.since, self.accepted) = (self.harness.connection, self.harness.now, 0)
            }
            guard self.accepted < self.limit else {
                switch self.excess {
                case .rejected:
                    let error = #"{"event":"pusher:error","data":"{\"code\":4301,\"message\":\"Rate limit exceeded\"}"}"#
                    return self.handle(self.harness.receive(error))
                case .ends(let reason): return self.handle(self.harness.close(reason))
                }
            }
            self.accepted += 1
            if parts[1] == "pusher:subscribe" { self.handle(self.harness.confirm(parts[2])) }
        }

        func count(_ line: String) -> Int { self.lines.count { $0 == line } }
    }

    @Test(arguments: [false, true])
    func `25 channels are subscribed within 5 seconds at a server that accepts 10 messages a second`(isPrivate: Bool) {
        var run = Run(25, limit: 10, .rejected, isPrivate: isPrivate)
        expectEqual(run.subscribed, 10)
        run.run(for: .seconds(5))
        expectEqual(run.subscribed, 25)
        // None is rejected twice, and none is unsubscribed that was never subscribed. Channels that are authorized one after the other aren't
        // sent after the first rejection.
        expectEqual(run.received.count, isPrivate ? 26 : 40)
        expect(run.received.allSatisfy { $0.hasPrefix("pusher:subscribe ") })
        expectEqual(run.lines.filter { $0.hasPrefix("error ") }, ["error rateLimited"])
        let message = "The server's rate limit rejected subscriptions, which the client sends again more slowly: Rate limit exceeded"
        expectEqual(run.harness.logged, [message])
        if isPrivate { expectEqual(run.lines.count { $0.hasPrefix("authorize ") }, 25) }
    }

    @Test(arguments: [
        CloseReason.transport(TransportError(.closed, "closed")), .transport(TransportError(.reset, "reset")), .peer(.noStatus, ""),
        .peer(.policyViolation, ""), .peer(CloseCode(rawValue: 4301), "Rate limit exceeded"),
    ])
    func `25 channels are subscribed within 5 seconds at a server that ends the connection after 10 messages`(reason: CloseReason) {
        var run = Run(25, limit: 10, .ends(reason))
        run.run(for: .seconds(5))
        expectEqual(run.subscribed, 25)
        expectEqual(run.lines.count { $0.hasPrefix("open ") }, 2)
        expect(run.harness.logged.contains { $0.contains("probably because of a rate limit") }, "\(run.harness.logged)")
    }

    @Test(arguments: [Excess.rejected, .ends(.transport(TransportError(.closed, "closed")))])
    func `100 channels are subscribed at a server that accepts 60 messages in a minute`(excess: Excess) {
        var run = Run(100, limit: 60, period: .seconds(60), excess)
        run.run(for: .seconds(300))
        expectEqual(run.subscribed, 100)
    }

    @Test func `a channel that waits for the limit doesn't time out, and is unsubscribed without a message`() {
        var run = Run(25, limit: 10, period: .seconds(60), .rejected)
        run.run(for: .seconds(35))
        expectEqual(run.subscribed, 10)
        expect(!run.lines.contains { $0.contains("timedOut") }, "\(run.lines)")
        expectEqual(run.harness.unsubscribe("channel-25"), ["channel-25 unsubscribed"])
        expectEqual(run.harness.unsubscribe("channel-1"), ["channel-1 unsubscribed", "#1 pusher:unsubscribe channel-1"])
    }

    @Test func `a restart of the server isn't taken for a limit`() {
        var run = Run(25, limit: 10, .ends(.peer(CloseCode(rawValue: 1012), "")))
        run.run(for: .milliseconds(100))
        expectEqual(run.harness.logged, [])
    }

    @Test func `an error about the rate of client events leaves subscriptions alone`() {
        var harness = SessionHarness.connected(to: "private-a", "one")
        harness.authorize(1)
        harness.confirm("private-a")
        _ = harness.trigger("client-a", on: "private-a")
        let text = "The rate limit for sending client events exceeded the quota."
        expectEqual(
            harness.receive(#"{"event":"pusher:error","channel":"private-a","data":{"code":4301,"message":"\#(text)"}}"#),
            ["error clientEventRejected"])
        expectEqual(harness.confirm("one"), ["one subscribed"])
    }

    @Test func `without a client event, no error says that one was rejected`() {
        var harness = SessionHarness.connected(to: "one")
        harness.confirm("one")
        harness.unsubscribe("one")
        let lines = harness.receive(#"{"event":"pusher:error","data":{"code":4301,"message":"Rate limit exceeded"}}"#)
        expectEqual(lines, ["error server"])
    }

    @Test func `a sign-in that exceeds the limit is repeated`() {
        var harness = SessionHarness.connected { $0.userAuthenticator = .secret("secret", user: PusherMember(id: "anna")) }
        harness.signIn()
        harness.authenticate(1, user: "anna")
        let lines = harness.receive(#"{"event":"pusher:error","data":{"code":4301,"message":"Rate limit exceeded"}}"#)
        expectEqual(lines, ["sign-in failed rateLimited", "error rateLimited"])
        expectEqual(harness.advance(by: .seconds(1)), ["user pending", "authenticate 2 1.2"])
    }
}

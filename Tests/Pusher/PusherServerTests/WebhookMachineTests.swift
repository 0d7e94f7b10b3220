import PusherWire
import RealtimeCore
import TestSupport
import Testing

@testable import PusherServer

/// When a server sends webhooks, as a value with a clock.
@Suite struct WebhookMachineTests {
    /// A request that was started.
    private struct Sent: Equatable {
        var host: String
        var events: [String]
        var time: Int64
    }

    /// The machine without a driver. Events occur at the Unix time of the clock, whose zero is at 1,000,000 ms.
    private struct Harness: MachineHarness {
        var trial: MachineTrial<WebhookMachine>
        private(set) var running: [UInt64] = []
        private(set) var cancelled: [UInt64] = []
        private var sent: [Sent] = []

        init(hosts: [String] = ["app"], batches: Bool = false, limit: Int = 10_000) {
            let endpoints = hosts.map { Endpoint(scheme: "http", host: $0, port: 80, target: "/hook?token=hunter2") }
            let machine = WebhookMachine(
                .init(
                    endpoints: endpoints, sendsBatches: batches, absenceDelay: .seconds(3), retryPeriod: .seconds(300), limit: limit))
            self.trial = MachineTrial(machine, logLevel: .info)
        }

        mutating func lines(of command: Effects<WebhookMachine>.Command) -> [String] {
            switch command {
            case .work(let id, let work):
                let events = work.events.map { event in
                    let user: String? = event.json["user_id"]?.string
                    return "\(event.name ?? "") \(event.channel ?? "")\(user.map { " \($0)" } ?? "")"
                }
                self.running.append(id.rawValue)
                self.sent.append(Sent(host: work.endpoint.host, events: events, time: work.unixMilliseconds))
            case .cancel(let id): self.cancelled.append(id.rawValue)
            case .log, .release: break
            default: Issue.record("unexpected command \(command)")
            }
            return []
        }

        mutating func occurred(_ event: PusherServerEvent) {
            let time = 1_000_000 + self.now.nanoseconds / 1_000_000
            self.step { $0.occurred(event, unixMilliseconds: time, now: $1, &$2) }
        }

        mutating func subscribe(_ socketID: String, _ channel: String, user: String? = nil) {
            self.occurred(.subscribed(socketID: socketID, channel: channel, userID: user))
        }

        mutating func unsubscribe(_ socketID: String, _ channel: String) {
            self.occurred(.unsubscribed(socketID: socketID, channel: channel))
        }

        /// Ends the oldest request that is running.
        mutating func finish(accepted: Bool = true) {
            self.finish(self.running.removeFirst(), accepted ? .accepted : .failed("no"))
        }

        mutating func finishAll() { while !self.running.isEmpty { self.finish() } }

        var nextDeadline: Instant? { self.machine.nextDeadline }

        mutating func takeSent() -> [Sent] {
            defer { self.sent = [] }
            return self.sent
        }

        /// The events of all requests, which are accepted.
        mutating func takeEvents() -> [String] {
            self.finishAll()
            return self.takeSent().flatMap(\.events)
        }
    }

    // MARK: Events

    @Test func `the first subscriber occupies a channel, and the last one vacates it after the delay`() {
        var harness = Harness()
        harness.subscribe("1.1", "a")
        harness.subscribe("1.2", "a")
        harness.unsubscribe("1.1", "a")
        harness.advance(by: .seconds(10))
        expectEqual(harness.takeEvents(), ["channel_occupied a"])
        harness.unsubscribe("1.2", "a")
        harness.advance(by: .milliseconds(2_999))
        expectEqual(harness.takeEvents(), [])
        harness.advance(by: .milliseconds(1))
        expectEqual(harness.takeEvents(), ["channel_vacated a"])
        harness.subscribe("1.3", "a")
        expectEqual(harness.takeEvents(), ["channel_occupied a"])
    }

    @Test func `a subscriber who returns in time is not reported`() {
        var harness = Harness()
        harness.subscribe("1.1", "presence-a", user: "anna")
        expectEqual(harness.takeEvents(), ["channel_occupied presence-a", "member_added presence-a anna"])
        harness.unsubscribe("1.1", "presence-a")
        harness.advance(by: .seconds(2))
        harness.subscribe("1.2", "presence-a", user: "anna")
        harness.advance(by: .seconds(10))
        expect(harness.takeEvents() == [] && harness.nextDeadline == nil)
    }

    @Test func `a member is reported with the first and the last connection, beside others`() {
        var harness = Harness()
        harness.subscribe("1.1", "presence-a", user: "anna")
        harness.subscribe("1.2", "presence-a", user: "bert")
        harness.subscribe("1.3", "presence-a", user: "anna")
        harness.unsubscribe("1.1", "presence-a")
        harness.advance(by: .seconds(5))
        expectEqual(
            harness.takeEvents(), ["channel_occupied presence-a", "member_added presence-a anna", "member_added presence-a bert"])
        harness.unsubscribe("1.3", "presence-a")
        harness.advance(by: .seconds(1))
        harness.unsubscribe("1.2", "presence-a")
        // Another user returns to the channel, which isn't vacated.
        harness.subscribe("1.4", "presence-a", user: "cleo")
        harness.advance(by: .seconds(5))
        expectEqual(
            harness.takeEvents(), ["member_added presence-a cleo", "member_removed presence-a anna", "member_removed presence-a bert"])
        harness.unsubscribe("1.4", "presence-a")
        harness.advance(by: .seconds(5))
        expectEqual(harness.takeEvents(), ["member_removed presence-a cleo", "channel_vacated presence-a"])
    }

    @Test func `a client event is reported with the user of a presence channel`() {
        var harness = Harness()
        harness.subscribe("1.1", "presence-a", user: "anna")
        harness.subscribe("1.1", "private-a")
        harness.occurred(.clientEvent(socketID: "1.1", channel: "presence-a", name: "client-b", data: "1"))
        harness.occurred(.clientEvent(socketID: "1.1", channel: "private-a", name: "client-b", data: "1"))
        expectEqual(harness.takeEvents().suffix(2), ["client_event presence-a anna", "client_event private-a"])
    }

    @Test func `a missing event of a cache channel is reported once, until there was one or the channel was empty`() {
        var harness = Harness()
        for number in 1...5 { harness.occurred(.cacheMiss(socketID: "1.\(number)", channel: "cache-a")) }
        harness.occurred(.cacheMiss(socketID: "1.1", channel: "cache-b"))
        expectEqual(harness.takeEvents(), ["cache_miss cache-a", "cache_miss cache-b"])
        harness.occurred(.published(channel: "cache-a", name: "a", subscribers: 1))
        harness.occurred(.cacheMiss(socketID: "1.1", channel: "cache-a"))
        harness.occurred(.cacheMiss(socketID: "1.1", channel: "cache-b"))
        expectEqual(harness.takeEvents(), ["cache_miss cache-a"])
        harness.occurred(.subscriptionCount(channel: "a", count: 2))
        expectEqual(harness.takeEvents(), ["subscription_count a"])
    }

    @Test func `other events of the server are not reported`() {
        var harness = Harness()
        harness.occurred(.signedIn(socketID: "1.1", userID: "anna"))
        harness.subscribe("1.1", "#server-to-user-anna")
        harness.unsubscribe("1.1", "#server-to-user-anna")
        harness.occurred(.connected(socketID: "1.1"))
        harness.occurred(.received(socketID: "1.1", frame: "{}"))
        harness.occurred(.subscriptionRejected(socketID: "1.1", channel: "a", message: "no"))
        harness.occurred(.published(channel: "a", name: "b", subscribers: 0))
        harness.occurred(.error(socketID: nil, code: 1, message: "no"))
        harness.occurred(.unsubscribed(socketID: "1.1", channel: "never"))
        harness.occurred(.disconnected(socketID: "1.1", .requested))
        expect(harness.takeEvents() == [] && harness.nextDeadline == nil)
    }

    // MARK: Requests

    @Test func `a request has one event, and the next one waits for its end`() {
        var harness = Harness()
        for channel in ["a", "b", "c"] { harness.subscribe("1.1", channel) }
        expectEqual(harness.takeSent(), [Sent(host: "app", events: ["channel_occupied a"], time: 1_000_000)])
        harness.advance(by: .milliseconds(5))
        harness.finish()
        expectEqual(harness.takeSent(), [Sent(host: "app", events: ["channel_occupied b"], time: 1_000_000)])
        harness.finish()
        expectEqual(harness.takeSent().map(\.events), [["channel_occupied c"]])
        harness.finish()
        expect(harness.takeSent().isEmpty && harness.running.isEmpty)
    }

    @Test func `a batch has all events that wait, and the time of the last one`() {
        var harness = Harness(batches: true)
        harness.subscribe("1.1", "a")
        harness.subscribe("1.1", "b")
        harness.advance(by: .milliseconds(5))
        harness.subscribe("1.1", "c")
        harness.finish()
        expectEqual(
            harness.takeSent(),
            [
                Sent(host: "app", events: ["channel_occupied a"], time: 1_000_000),
                Sent(host: "app", events: ["channel_occupied b", "channel_occupied c"], time: 1_000_005),
            ])
    }

    @Test func `a batch has at most 100 events`() {
        var harness = Harness(batches: true)
        for number in 0..<250 { harness.subscribe("1.1", "c\(number)") }
        harness.finishAll()
        let sent = harness.takeSent()
        expectEqual(sent.map(\.events.count), [1, 100, 100, 49])
        expectEqual(sent.flatMap(\.events), (0..<250).map { "channel_occupied c\($0)" })
    }

    @Test func `each endpoint receives all events, at its own pace`() {
        var harness = Harness(hosts: ["one", "two"])
        harness.subscribe("1.1", "a")
        harness.subscribe("1.1", "b")
        expectEqual(harness.takeSent().map(\.host), ["one", "two"])
        harness.finish()
        expectEqual(harness.takeSent(), [Sent(host: "one", events: ["channel_occupied b"], time: 1_000_000)])
    }

    @Test func `a request that is not accepted is repeated with growing delays for five minutes`() {
        var harness = Harness()
        harness.subscribe("1.1", "a")
        var times: [Int64] = []
        for _ in 0..<400 {
            for sent in harness.takeSent() {
                expectEqual(sent, Sent(host: "app", events: ["channel_occupied a"], time: 1_000_000))
                times.append(harness.now.nanoseconds / 1_000_000_000)
                harness.finish(accepted: false)
            }
            harness.advance(by: .seconds(1))
        }
        expectEqual(times, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243])
        expectNil(harness.nextDeadline)
        expect(harness.logged.count == 10 && harness.logged.last == "A webhook was not accepted after 10 requests: no")
    }

    @Test func `a repeated request that is accepted is not sent again`() {
        var harness = Harness()
        harness.subscribe("1.1", "a")
        harness.finish(accepted: false)
        harness.advance(by: .seconds(1))
        harness.finish()
        harness.advance(by: .seconds(1_000))
        expect(harness.takeSent().count == 2 && harness.nextDeadline == nil)
    }

    @Test func `a request that is repeated delays no others`() {
        var harness = Harness()
        harness.subscribe("1.1", "a")
        harness.subscribe("1.1", "b")
        harness.subscribe("1.1", "c")
        harness.finish(accepted: false)
        expectEqual(harness.takeSent().map(\.events), [["channel_occupied a"], ["channel_occupied b"]])
        // While a request runs, the repetition waits, and then precedes the events.
        harness.advance(by: .seconds(5))
        expect(harness.takeSent().isEmpty && harness.nextDeadline == nil)
        harness.finish()
        expectEqual(harness.takeSent().map(\.events), [["channel_occupied a"]])
        harness.finish()
        expectEqual(harness.takeSent().map(\.events), [["channel_occupied c"]])
    }

    @Test func `after several requests that are not accepted, other requests wait as well`() {
        var harness = Harness()
        for number in 1...1_000 { harness.occurred(.cacheMiss(socketID: "1.1", channel: "cache-\(number)")) }
        var times: [Int64] = []
        for _ in 0..<60 {
            while !harness.running.isEmpty {
                times.append(harness.now.nanoseconds / 1_000_000_000)
                harness.finish(accepted: false)
            }
            harness.advance(by: .seconds(1))
        }
        expectEqual(times, [0, 0, 0, 0, 0, 1, 3, 7, 15, 31])
        // An accepted request ends the wait.
        harness.advance(by: .seconds(60))
        expectEqual(harness.running.count, 1)
        harness.finish()
        expectEqual(harness.running.count, 1)
        harness.finish()
        harness.finish(accepted: false)
        expectEqual(harness.running.count, 1)
        harness.finishAll()
        harness.advance(by: .seconds(1_000))
        harness.finishAll()
        expectNil(harness.nextDeadline)
    }

    @Test func `events above the limit are dropped with one warning`() {
        var harness = Harness(limit: 2)
        for channel in ["a", "b", "c", "d", "e"] { harness.subscribe("1.1", channel) }
        expectEqual(harness.takeEvents(), ["channel_occupied a", "channel_occupied b", "channel_occupied c"])
        expectEqual(harness.logged, ["Webhooks for http://app/hook are dropped: more than 2 wait."])
    }

    @Test func `requests above the limit of events are not repeated`() {
        var harness = Harness(batches: true, limit: 4)
        for channel in ["a", "b", "c", "d", "e"] { harness.subscribe("1.1", channel) }
        // The batch of the others waits for the first request.
        expectEqual(harness.takeSent().map(\.events.count), [1])
        harness.finish(accepted: false)
        expectEqual(harness.takeSent().map(\.events.count), [4])
        // One event waits to be repeated, and four more don't fit.
        harness.finish(accepted: false)
        harness.advance(by: .seconds(1))
        expectEqual(harness.takeSent().map(\.events), [["channel_occupied a"]])
        harness.finish()
        harness.advance(by: .seconds(1_000))
        expect(harness.takeSent().isEmpty && harness.nextDeadline == nil)
        // What was repeated no longer counts.
        for channel in ["g", "h", "i", "j"] { harness.subscribe("1.1", channel) }
        harness.finish(accepted: false)
        harness.finish(accepted: false)
        harness.advance(by: .seconds(1))
        expectEqual(harness.takeSent().map(\.events.count), [1, 3, 1])
    }

    @Test func `a server that is released cancels requests and forgets the others`() {
        var harness = Harness()
        harness.subscribe("1.1", "a")
        harness.subscribe("1.1", "b")
        harness.unsubscribe("1.1", "b")
        harness.stop()
        expect(harness.cancelled == [1] && harness.nextDeadline == nil)
        harness.finish(accepted: false)
        expect(harness.takeSent().count == 1 && harness.nextDeadline == nil)
    }
}

import RealtimeCore
import TestSupport
import Testing

@testable import PusherChannels

/// Authorizations of several channels with one request, in the queue and in the session.
@Suite struct AuthorizationBatchTests {
    private static func channel(_ number: Int) -> ChannelID { ChannelID(slot: UInt32(number), serial: UInt32(number)) }

    /// Starts the authorizations of channels in a batch, within one step.
    private func start(_ channels: ClosedRange<Int>, _ queue: inout NumberedAuthorizationQueue) -> [WorkID] {
        channels.compactMap { queue.start(Self.channel($0), isBatched: true) }
    }

    @Test func `the channels of a step form a batch`() {
        var queue = NumberedAuthorizationQueue()
        let works = self.start(1...3, &queue)
        let batches = queue.takeBatches()
        expect(batches.count == 1 && batches[0].members.map(\.work) == works && !works.contains(batches[0].id))
        expectEqual(batches[0].members.map(\.channel), (1...3).map(Self.channel))
        expect(queue.takeBatches().isEmpty && queue.runningCount == 3)
    }

    @Test func `a batch has at most a hundred channels and ten requests run at the same time`() {
        var queue = NumberedAuthorizationQueue()
        let works = self.start(1...1_050, &queue)
        let sizes = queue.takeBatches().map(\.members.count)
        expectEqual(sizes, Array(repeating: 100, count: 10))
        expect(works.count == 1_000 && queue.waitingCount == 50)
        // A request ends with the last of its channels.
        for work in works.prefix(99) { _ = queue.finish(work) }
        let tooEarly = queue.dequeue()
        _ = queue.finish(works[99])
        expectNil(tooEarly)
        while let next = queue.dequeue() { _ = queue.start(next, isBatched: true) }
        expect(queue.takeBatches().map(\.members.count) == [50] && queue.waitingCount == 0)
    }

    @Test func `single authorizations and batches share the limit`() {
        var queue = NumberedAuthorizationQueue()
        for number in 1...9 { _ = queue.start(Self.channel(number)) }
        _ = self.start(11...12, &queue)
        expectNil(queue.start(Self.channel(13)))
        expectEqual(queue.takeBatches().map(\.members.count), [2])
        expectNil(queue.start(Self.channel(14), isBatched: true))
    }

    @Test func `a batch is cancelled with its last channel`() {
        var queue = NumberedAuthorizationQueue()
        let works = self.start(1...3, &queue)
        let batch = queue.takeBatches()[0].id
        _ = queue.finish(works[1])
        let cancelled = [works[0], works[0], works[2]].map { queue.cancel($0) }
        expect(cancelled == [nil, nil, batch] && queue.runningCount == 0 && queue.work.isEmpty)
    }

    @Test func `a channel that is cancelled within the step is not part of the batch`() {
        var queue = NumberedAuthorizationQueue()
        let works = self.start(1...2, &queue)
        let first = queue.cancel(works[0])
        expectNil(first)
        expectEqual(queue.takeBatches().map { $0.members.map(\.work) }, [[works[1]]])
        let single = self.start(3...3, &queue)
        let last = queue.cancel(single[0])
        expect(last == nil && queue.takeBatches().isEmpty)
    }

    // MARK: The session

    private func harness(_ channels: String...) throws -> SessionHarness {
        let endpoint = PusherAuthorizationEndpoint(try Endpoint("http://app/auth"))
        var harness = SessionHarness { $0.authorizer = .batchEndpoint(endpoint) }
        for channel in channels { harness.subscribe(channel) }
        harness.start()
        return harness
    }

    private func finish(
        _ batch: UInt64, _ results: [(UInt64, Result<PusherChannelAuthorization, PusherError>)], _ harness: inout SessionHarness
    ) -> [String] {
        harness.step { session, now, effects in
            let results = results.map { (work: WorkID(rawValue: $0.0), result: $0.1) }
            session.workFinished(WorkID(rawValue: batch), .batch(results), now: now, &effects)
        }
    }

    @Test func `a session that connects authorizes its channels with one request`() throws {
        var harness = try self.harness("one", "private-a", "private-b")
        expectEqual(harness.establish(), ["state connected", "#1 pusher:subscribe one", "authorize 2 with 1 private-a, 3 private-b"])
        let failure = PusherError.authorizationFailed("private-b", "", "no.", status: 403)
        expectEqual(
            self.finish(2, [(1, .success(PusherChannelAuthorization(auth: "key:1"))), (3, .failure(failure))], &harness),
            [
                "private-b failed authorizationFailed", "error authorizationFailed", "#1 pusher:subscribe private-a key:1",
            ])
        expectEqual(harness.subscribe("private-c"), ["authorize 5 with 4 private-c"])
    }

    @Test func `a batch whose channels are no longer wanted is cancelled`() throws {
        var harness = try self.harness("private-a", "private-b")
        harness.establish()
        expectEqual(harness.unsubscribe("private-a"), ["private-a unsubscribed"])
        expect(harness.unsubscribe("private-b").contains("cancel 2"))
        expectEqual(self.finish(2, [(1, .success(PusherChannelAuthorization(auth: "key:1")))], &harness), [])
    }

    @Test func `a lost connection cancels the batch once and the next connection requests another`() throws {
        var harness = try self.harness("private-a", "private-b")
        harness.establish()
        expectEqual(harness.close(.peer(CloseCode(rawValue: 4200), "")).filter { $0.hasPrefix("cancel") }, ["cancel 2"])
        expectEqual(harness.establish().last, "authorize 5 with 4 private-a, 6 private-b")
    }

    @Test func `failed subscriptions that are retried at the same time share a request`() throws {
        var harness = try self.harness("private-a", "private-b")
        harness.establish()
        let lines = harness.advance(by: .seconds(30))
        expect(lines.filter { $0 == "error timedOut" }.count == 2 && lines.contains("cancel 2"))
    }

    // MARK: An authorization passed with the subscription

    @Test func `an authorization that is passed before the client connects is used by its first attempt`() throws {
        let authorization = PusherChannelAuthorization(auth: "key:given")
        var harness = SessionHarness()
        harness.step { _ = $0.subscribe("private-a", authorization: authorization, now: $1, &$2) }
        harness.start()
        expectEqual(harness.establish(), ["state connected", "#1 pusher:subscribe private-a key:given"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expectEqual(harness.establish(), ["state connected", "authorize 2 private-a 1.2"])
    }

    @Test func `an authorization that is passed need not wait for its turn and is dropped with its channel`() {
        let authorization = PusherChannelAuthorization(auth: "key:given")
        var harness = SessionHarness.connected()
        for number in 1...11 { harness.subscribe("private-\(number)") }
        expectEqual(
            harness.step { _ = $0.subscribe("private-11", authorization: authorization, now: $1, &$2) },
            ["#1 pusher:subscribe private-11 key:given"])
        expectEqual(harness.session.channels.waitingAuthorizationCount, 0)
        harness.stop()
        harness.step { _ = $0.subscribe("private-x", authorization: authorization, now: $1, &$2) }
        harness.unsubscribe("private-x")
        expectEqual(harness.session.channels.givenAuthorizationCount, 0)
    }
}

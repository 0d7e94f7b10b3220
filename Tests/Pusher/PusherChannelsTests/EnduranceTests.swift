#if canImport(Glibc)
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// A client for a week of virtual time, in a process of its own.
@Suite(.requires(.completeRun)) struct EnduranceTests {
    @Test func `in a week with a loss every few minutes, each missing event is announced, none arrives twice, and memory is flat`() async {
        await #expect(processExitsWith: .success) {
            var week = try await Week()
            // The first day fills the caches of the allocator.
            try await week.run(hours: 24)
            let before = ProcessUsage.now()
            try await week.run(hours: scaled(6 * 24))
            precondition(week.losses > 100 && week.received > 100 && week.gaps > 100, "\(week)")
            try await ProcessUsage.expectRelease(since: before, growthKiB: 1 << 10)
        }
    }
}

/// A client that loses its connection in different ways, and a server that publishes numbers on three channels.
private struct Week {
    private static let channels = ["ticks", "presence-room", "private-encrypted-a"]

    private let pusher: InMemoryPusher
    private let client: PusherClient
    private let updates: EventSequence<PusherUpdate>
    private var generator = SplitMix64(seed: 7)
    private var published = 0
    private var seen: [String: Int] = [:]
    private var announced: Set<String> = []
    private(set) var losses = 0, received = 0, gaps = 0

    init() async throws {
        self.pusher = try await InMemoryPusher()
        self.client = self.pusher.client(userID: "me")
        self.updates = self.client.updates()
        for channel in Self.channels { try self.client.subscribe(channel) }
        self.client.connect()
    }

    mutating func run(hours: Int) async throws {
        let end = self.pusher.clock.now.advanced(by: .seconds(hours * 3600))
        while self.pusher.clock.now < end {
            for _ in 0..<Int.random(in: 0...4, using: &self.generator) { self.publish() }
            self.lose()
            for _ in 0..<Int.random(in: 0...2, using: &self.generator) { self.publish() }
            self.pusher.clock.advance(by: .seconds(Int.random(in: 60...400, using: &self.generator)))
            for update in await self.updates.pending() { self.check(update) }
        }
        for channel in Self.channels { precondition(self.client.channel(channel)?.state == .subscribed, channel) }
    }

    private mutating func publish() {
        self.published += 1
        self.pusher.server.publish("tick", to: Self.channels, data: "\(self.published)")
        self.pusher.clock.advance(by: .milliseconds(Int.random(in: 0...20_000, using: &self.generator)))
    }

    private mutating func lose() {
        self.losses += 1
        guard let socketID = self.client.socketID else { return }
        switch Int.random(in: 0...3, using: &self.generator) {
        case 0: self.pusher.network.cut()
        case 1: self.pusher.server.drop(socketID)
        case 2: self.pusher.server.close(socketID, CloseCode(rawValue: 4200))
        // The client finds out after its ping.
        default: self.pusher.server.silence(socketID)
        }
    }

    private mutating func check(_ update: PusherUpdate) {
        switch update {
        case .gap(let gap):
            self.gaps += 1
            self.announced.insert(gap.channel)
        case .event(let event):
            guard let channel = event.channel, let number = event.data.flatMap({ Int($0) }) else { preconditionFailure("\(event)") }
            self.received += 1
            let last = self.seen[channel] ?? number - 1
            precondition(number > last, "\(number) of \(channel) after \(last)")
            precondition(number == last + 1 || self.announced.contains(channel), "events of \(channel) before \(number) are missing")
            self.announced.remove(channel)
            self.seen[channel] = number
        default: break
        }
    }
}
#endif

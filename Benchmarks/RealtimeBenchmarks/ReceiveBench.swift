internal import CommandLineSupport
internal import PusherChannels
internal import RealtimeCore
internal import RealtimeSockets

/// What it takes to receive one event.
struct ReceiveBench {
    static let bare = "bare path"
    static let strings = "receive as strings"
    static let decoded = "receive and decode"

    let bed: BenchFixture
    let messages: Int
    let rounds: Int

    init(_ bed: BenchFixture) {
        self.bed = bed
        self.messages = bed.messages ?? 200_000
        self.rounds = 9
    }

    func callAsFunction() async throws(ToolFailure) {
        var contenders = [
            Candidate(name: Self.bare) { () throws(ToolFailure) in try await self.runBare() },
            Candidate(name: Self.strings) { () throws(ToolFailure) in try await self.runStrings() },
            Candidate(name: Self.decoded) { () throws(ToolFailure) in try await self.runDecoded() },
        ]
        let node = NodePeer.find()
        if let node {
            contenders += node.contenders(port: self.bed.port, messages: self.messages) { self.bed.burst(self.messages) }
        }
        let rounds = try await Rounds.run(contenders, rounds: self.rounds)
        for contender in contenders {
            guard let value = rounds.median(contender.name) else { continue }
            let result = BenchResult(contender.name, value, "ns CPU")
            switch contender.name {
            case Self.strings:
                self.bed.say(result.compared(rounds.ratio(Self.strings, to: Self.bare), with: Self.bare, atMost: 1.5))
                if let ratio = rounds.ratio(Self.strings, to: NodePeer.parsing) {
                    self.bed.say(result.compared(ratio, with: NodePeer.parsing, atMost: 0.4))
                }
            case Self.decoded:
                if let ratio = rounds.ratio(Self.decoded, to: NodePeer.parsing) {
                    self.bed.say(result.compared(ratio, with: NodePeer.parsing, atMost: 1))
                } else {
                    self.bed.say(result.compared(rounds.ratio(Self.decoded, to: Self.bare), with: Self.bare))
                }
            case Self.bare: self.bed.say(result)
            default: self.bed.say(result.compared(rounds.ratio(contender.name, to: Self.bare), with: Self.bare))
            }
        }
        if node == nil { self.bed.skip("comparison with node", NodePeer.missing) }
    }

    func runBare() async throws(ToolFailure) -> Double {
        let receiver = BareReceiver(self.messages)
        let stream = receiver.connect(self.bed.port)
        await receiver.ready()
        let start = processTime()
        self.bed.burst(self.messages)
        let end = await receiver.finished()
        stream.close()
        guard !end.isNaN else { throw ToolFailure("The load ended a connection in the middle of a benchmark.") }
        return (end - start) / Double(self.messages)
    }

    func runStrings() async throws(ToolFailure) -> Double {
        var characters = 0
        let time = try await self.receive { event in characters += event.name.utf8.count + (event.data?.utf8.count ?? 0) }
        guard characters > self.messages else { throw ToolFailure("The events that came were empty.") }
        return time
    }

    func runDecoded() async throws(ToolFailure) -> Double {
        var volume = 0
        var failures = 0
        let time = try await self.receive { event in
            do {
                volume &+= try event.decode(LoadPrice.self).volume
            } catch {
                failures += 1
            }
        }
        guard failures == 0, volume > self.messages else { throw ToolFailure("The events that came could not be decoded.") }
        return time
    }

    /// A client of its own, from "go" to the last event.
    private func receive(_ body: (PusherEvent) -> Void) async throws(ToolFailure) -> Double {
        let client = try await self.bed.client()
        defer { client.disconnect() }
        let channel = try await self.bed.channel(LoadMessage.channel(0), of: client)
        // Nothing may be dropped: a burst comes faster than anything that is meant.
        let events = channel.events(LoadMessage.event, buffer: .pauseReading(4096))
        var count = 0
        let start = processTime()
        self.bed.burst(self.messages)
        for await event in events {
            body(event)
            count += 1
            if count == self.messages { break }
        }
        let end = processTime()
        guard count == self.messages else { throw ToolFailure("A connection ended in the middle of a benchmark.") }
        return (end - start) / Double(self.messages)
    }
}

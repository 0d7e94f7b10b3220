import CommandLineSupport
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets

/// Measures publishing events over the HTTP API, one after the other, beside Pusher's library for Node. The load generator answers both.
struct PublishBench {
    static let publisher = "publish, PusherPublisher"

    let fixture: BenchFixture
    let events: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.events = min(fixture.messages ?? 2_000, 10_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        let times = WallTimes()
        var candidates = [Candidate(name: Self.publisher) { () throws(ToolFailure) in try await self.publish(times) }]
        let peer = NodePeer.findPusher()
        if let peer {
            candidates.append(
                peer.publications(PusherFanOut.app, PusherFanOut.channel, port: self.fixture.port, events: self.events, times))
        }
        let rounds = try await Rounds.run(candidates, rounds: 9)
        guard let value = rounds.median(Self.publisher), let time = times.rounds.median(Self.publisher) else { return }
        if peer != nil {
            self.fixture.printRatio(Self.publisher, to: NodePeer.publishing, rounds, times.rounds, atMost: 0.6)
        } else {
            self.fixture.print(BenchResult(Self.publisher, value / 1000, "us CPU"))
            self.fixture.print(BenchResult(Self.publisher, 1e9 / time, "a second"))
            self.fixture.printSkipped(NodePeer.publishing, "needs node, and the npm package pusher in NODE_PATH or from REALTIME_PEERS")
        }
    }

    private func publish(_ times: WallTimes) async throws(ToolFailure) -> Double {
        let publisher = PusherPublisher(
            appID: PusherFanOut.app.id, key: PusherFanOut.app.key, secret: PusherFanOut.app.secret,
            endpoint: Endpoint(scheme: "http", host: "127.0.0.1", port: self.fixture.port), http: SocketHTTPTransport())
        let (start, begin) = (processTime(), wallTime())
        for _ in 0..<self.events {
            do throws(PusherError) {
                try await publisher.publish(LoadMessage.event, to: PusherFanOut.channel, data: LoadMessage.data)
            } catch {
                throw ToolFailure("An event could not be published: \(error)")
            }
        }
        times.add((wallTime() - begin) / Double(self.events), Self.publisher)
        return (processTime() - start) / Double(self.events)
    }
}

import RealtimeCore
import RealtimeSystem
import SimulationSupport

@testable import SignalRServer

/// The embedded server with one hub, on a virtual network. Its methods check what they receive.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class HubModel: @unchecked Sendable {
    static let endpoint = Endpoint(scheme: "http", host: "simulated", port: 80, target: "/hub")

    let server: SignalRServer
    let hub: Hub
    private let simulation: Simulation
    /// The numbers of events so far.
    private(set) var calls = 0, notes = 0, uploaded = 0, clientResults = 0
    private var lastNote: [String: Int] = [:]
    private var ticks = 0

    /// Creates the server and makes it reachable.
    init(on network: VirtualNetwork) {
        let simulation = network.simulation
        self.simulation = simulation
        var configuration = SignalRServerConfiguration()
        configuration.streamBufferLimit = 16
        configuration.allowsStatefulReconnects = true
        configuration.statefulReconnectBufferBytes = Int(simulation.random(in: 100...2_000))
        configuration.keepAliveInterval = .seconds(5)
        configuration.clientTimeout = .seconds(10)
        configuration.handshakeTimeout = .seconds(4)
        (configuration.pollTimeout, configuration.disconnectTimeout) = (.seconds(4), .seconds(8))
        self.server = SignalRServer(configuration, SignalRServerHooks(), simulation, .none, seed: simulation.seed &+ 1) {
            simulation.task($0)
        }
        self.hub = self.server.hub("/hub")
        self.addMethods()
        network.setServer(SimulatedListener(simulation, self.server.listenerHandler), host: "simulated", port: 80)
    }

    private func addMethods() {
        // The server outlives the model's last call, but the closures belong to the server.
        let (simulation, hub) = (self.simulation, self.hub)
        hub.on("Echo") { [unowned self] (_, number: Int) in
            self.calls += 1
            return number
        }
        hub.on("Slow") { [unowned self] (_, number: Int) in
            self.calls += 1
            await simulation.sleep(in: 0...10_000)
            try Task.checkCancellation()
            return number
        }
        hub.on("Fail") { (_, number: Int) -> Int in throw HubException("failed \(number)") }
        hub.on("Note") { [unowned self] (caller, number: Int) in
            self.notes += 1
            let last = self.lastNote[caller.connectionID, default: 0]
            simulation.require(number == last + 1, "the server received the message \(number) after \(last)")
            self.lastNote[caller.connectionID] = number
        }
        hub.stream("Count") { (_, first: Int, count: Int) in
            AsyncStream { feed in
                for number in 0..<count { feed.yield(first + number) }
                feed.finish()
            }
        }
        hub.stream("SlowCount") { (_, first: Int, count: Int) in PausingSequence(simulation, first..<first + count) }
        hub.stream("FailingCount") { (_, first: Int, count: Int) in
            AsyncThrowingStream { feed in
                for number in 0..<count { feed.yield(first + number) }
                feed.finish(throwing: HubException("failed after \(count)"))
            }
        }
        hub.on("Sum") { [unowned self] (_, first: Int, numbers: HubStream<Int>) in
            var count = 0
            for try await number in numbers {
                simulation.require(number == first + count, "item \(first + count) of a stream to the server is \(number)")
                count += 1
                self.uploaded += 1
                if simulation.chance(10) { await simulation.sleep(in: 0...5_000) }
            }
            return count
        }
        hub.on("Ask") { [unowned self] (caller, number: Int) in
            let answer: Int = try await caller.clients.caller.invoke("Answer", number)
            simulation.require(answer == number, "the client answered \(answer) instead of \(number)")
            self.clientResults += 1
            return answer
        }
    }

    /// Calls a method of all clients.
    func tick() {
        self.simulation.step(.arrival, "server: tick") {
            for _ in 0..<(self.simulation.chance(10) ? 5 : 1) {
                self.ticks += 1
                let (clients, number) = (self.hub.clients.all, self.ticks)
                self.simulation.task { try? await clients.send("Tick", number) }
            }
        }
    }

    func restart() {
        let server = self.server
        self.simulation.step(.arrival, "server: restart") { self.simulation.task { await server.stop() } }
    }

    /// Closes one of the connections with a close message.
    func closeRandomConnection() {
        guard let id = self.hub.connectionIDs.randomElement(using: &self.simulation.random) else { return }
        let (error, allowReconnect) = (self.simulation.chance(50) ? "go" : nil, self.simulation.chance(70))
        self.simulation.step(.arrival, "server: close \(error ?? ""), reconnect: \(allowReconnect)") {
            self.server.close(id, error: error, allowReconnect: allowReconnect)
        }
    }
}

/// Numbers with pauses of virtual time before each.
struct PausingSequence: AsyncSequence, Sendable {
    let simulation: Simulation
    let numbers: Range<Int>

    init(_ simulation: Simulation, _ numbers: Range<Int>) {
        (self.simulation, self.numbers) = (simulation, numbers)
    }

    func makeAsyncIterator() -> Iterator { Iterator(simulation: self.simulation, numbers: self.numbers) }

    struct Iterator: AsyncIteratorProtocol {
        let simulation: Simulation
        var numbers: Range<Int>

        mutating func next() async -> Int? {
            await self.simulation.sleep(in: 0...1_000)
            return Task.isCancelled ? nil : self.numbers.popFirst()
        }
    }
}

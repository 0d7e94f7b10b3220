import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCore
import SimulationSupport

/// The embedded server on a virtual network, with an application that checks what it receives, sends everything back, and makes trouble.
///
/// Each client writes increasing numbers, each at most once. The server answers with the spark, the number of the answer on that spark, and the
/// number that it answers.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class PrimusServerModel: @unchecked Sendable {
    static let endpoint = Endpoint(scheme: "http", host: "simulated", port: 80)

    let server: PrimusServer
    let coding: PrimusCoding
    /// Whether the server is silent at times, so that messages on a connection that stays open are lost.
    let losesMessages: Bool
    private let simulation: Simulation
    private let isSlow: Bool
    private var tokens: [CallbackObservation] = []
    private var connected: Set<String> = [], disconnected: Set<String> = []
    private var silenced: Set<String> = []
    /// The number of the last message of the server on each spark, and the last number that the client has written there.
    private var lastAnswer: [String: Int] = [:]
    private var lastReceived: [String: Int] = [:]
    /// The numbers that have arrived, on any spark.
    private(set) var received: Set<Int> = []
    private(set) var channels: [String: Set<String>] = [:]
    private(set) var asks = 0, ends = 0
    /// The numbers that each client connection has sent, told by the client's side.
    private var sent: [ConnectionID: [Int]] = [:]
    private var connectionOf: [Int: ConnectionID] = [:]
    /// The connections from which the client has moved to another one.
    private var moved: Set<ConnectionID> = []
    private var sparkOf: [ConnectionID: String] = [:]
    private var arrived: [ConnectionID: Int] = [:]
    /// The connection of the last message on each spark, which may move from polling to a WebSocket.
    private var lastConnection: [String: ConnectionID] = [:]

    init(on network: VirtualNetwork) {
        let simulation = network.simulation
        self.simulation = simulation
        var configuration = PrimusServerConfiguration()
        configuration.transformer = simulation.choose([.websockets, .sockjs, .engineIO])
        let transformer = configuration.transformer
        configuration.parser = simulation.choose(PrimusParserKind.builtIn.filter { transformer.rejection(of: $0) == nil })
        configuration.version = simulation.choose([.v8, .v8, .v6])
        // A client without a specification begins with version 3 of engine.io.
        configuration.allowsEIO3 = simulation.chance(50)
        configuration.plugins = .all
        (configuration.pingInterval, configuration.silenceTimeout) = (.seconds(5), .seconds(12))
        (configuration.enginePingInterval, configuration.enginePingTimeout) = (.seconds(4), .seconds(5))
        self.coding = PrimusCoding(configuration.parser) ?? .json
        self.losesMessages = simulation.chance(30)
        self.isSlow = simulation.chance(30)
        self.server = PrimusServer(
            configuration, time: simulation, epoch: 1_700_000_000_000, log: .none, seed: simulation.seed &+ 1)
        network.setServer(SimulatedListener(simulation, self.server.listenerHandler), host: "simulated", port: 80)
        self.register()
        simulation.atRelease { self.tokens = [] }
    }

    private func register() {
        // The callbacks run in tasks of the simulation, sometimes late.
        let (simulation, isSlow) = (self.simulation, self.isSlow)
        let executor = CallbackExecutor { run in
            simulation.task {
                if isSlow { await simulation.sleep(in: 0...300) }
                run()
            }
        }
        self.tokens = [
            self.server.onConnection(on: executor) { [unowned self] spark in
                // A greeting is the first message on each connection.
                self.answer(0, on: spark)
            },
            self.server.onMessage(on: executor) { [unowned self] message in self.received(message) },
            self.server.on("ask", on: executor) { [unowned self] call in
                self.asks += 1
                if let number = try? call.arguments.decode(Int.self) { try? call.acknowledge(number) }
            },
            self.server.onChannel("news", on: executor) { [unowned self] event in
                switch event {
                case .joined(let channel):
                    self.simulation.require(
                        self.channels[channel.spark.id, default: []].insert(channel.name).inserted,
                        "the spark \(channel.spark.id) has joined \(channel.name) twice")
                case .left(let channel):
                    self.simulation.require(
                        self.channels[channel.spark.id]?.remove(channel.name) != nil,
                        "the spark \(channel.spark.id) has left \(channel.name), and hadn't joined")
                case .message: break
                }
            },
        ]
        let events = self.server.events
        simulation.task { [unowned self] in
            for await event in events { self.check(event) }
        }
    }

    /// A spark connects once, then receives, and then disconnects once.
    private func check(_ event: PrimusServerEvent) {
        switch event {
        case .connected(let id):
            self.simulation.require(self.connected.insert(id).inserted, "the spark \(id) has connected twice")
        case .received(let id, _):
            self.simulation.require(
                self.connected.contains(id) && !self.disconnected.contains(id), "the spark \(id) received and isn't connected")
        case .disconnected(let id, _):
            self.simulation.require(
                self.connected.contains(id) && self.disconnected.insert(id).inserted, "the spark \(id) has disconnected twice")
        // The heartbeat may end a connection. Nothing else is wrong with what a client sends.
        case .error(let id, let message):
            self.simulation.require(
                message.hasPrefix("The client didn't answer a ping") || message == "The client was silent.",
                "a message of the client \(id) is invalid: \(message)")
        case .rejected: break
        }
    }

    var sparkCount: Int { self.server.sparks.count }

    // MARK: What the client has done

    /// The client moves from a connection to another one.
    func willMove(from connection: ConnectionID) { self.moved.insert(connection) }

    /// The client has sent a number on a connection.
    func willReceive(_ number: Int, on connection: ConnectionID) {
        if let earlier = self.connectionOf[number] {
            // Polling has accepted it, and the WebSocket that takes its place sends it. If both do, it arrives twice.
            self.simulation.require(self.moved.contains(earlier) && earlier != connection, "\(number) was sent twice")
            self.sent[earlier]?.removeAll { $0 == number }
        }
        self.connectionOf[number] = connection
        self.sent[connection, default: []].append(number)
    }

    func wasSent(_ number: Int) -> Bool { self.connectionOf[number] != nil }
    /// The connection on which a number was sent.
    func connection(of number: Int) -> ConnectionID? { self.connectionOf[number] }
    var sentCount: Int { self.connectionOf.count }

    // MARK: Messages

    /// The number of a message of the client, if it is one of the application.
    static func number(_ value: PrimusValue) -> Int? { value.int ?? value["number"]?.int }

    private func received(_ message: PrimusServerMessage) {
        guard let value = try? message.value, let number = Self.number(value) else {
            return self.simulation.fail("the server received \(message.packet)")
        }
        guard let connection = self.connectionOf[number] else { return self.simulation.fail("\(number) arrived, and wasn't sent") }
        let spark = message.spark.id
        self.simulation.require(self.received.insert(number).inserted, "\(number) arrived twice")
        if let earlier = self.sparkOf[connection], earlier != spark {
            // A server of SockJS that has forgotten a session opens it again with the next poll. What the client sends before it knows that
            // arrives on the new spark.
            let isForgotten = self.server.configuration.transformer == .sockjs && !self.server.sparks.contains { $0.id == earlier }
            self.simulation.require(isForgotten, "\(number) arrived on another spark than what was sent with it")
            self.arrived[connection] = self.sent[connection]?.firstIndex(of: number)
        }
        self.sparkOf[connection] = spark
        self.simulation.require(number > self.lastReceived[spark] ?? 0, "\(number) arrived after \(self.lastReceived[spark] ?? 0)")
        self.lastReceived[spark] = number
        let earlier = self.lastConnection.updateValue(connection, forKey: spark)
        if let earlier, earlier != connection, !self.losesMessages {
            self.simulation.require(
                self.arrived[earlier] == self.sent[earlier]?.count, "\(number) arrived after a move that lost a message")
        }
        let index = self.arrived[connection, default: 0]
        self.arrived[connection] = index + 1
        if !self.losesMessages {
            // A connection loses nothing but its end.
            self.simulation.require(
                self.sent[connection]?[index] == number, "\(number) arrived, and \(self.sent[connection]?[index] ?? 0) is missing")
        }
        self.answer(number, on: message.spark)
    }

    private func answer(_ number: Int, on spark: PrimusSpark) {
        let next = self.lastAnswer[spark.id, default: 0] + 1
        do {
            if try spark.write([.string(spark.id), .int(Int64(next)), .int(Int64(number))] as PrimusValue) {
                self.lastAnswer[spark.id] = next
            }
        } catch {
            self.simulation.fail("the server can't answer: \(error)")
        }
    }

    // MARK: Trouble

    /// Does something that a server may do.
    func makeTrouble() {
        switch self.simulation.random(in: 0...16) {
        case 0:
            self.ends += self.sparkCount
            self.step("end all") { self.server.endAll() }
        case 1...3:
            guard let spark = self.server.sparks.randomElement(using: &self.simulation.random) else { return }
            let reconnects = self.simulation.chance(60)
            if !reconnects { self.ends += 1 }
            self.step("end \(spark.id), reconnects: \(reconnects)") { spark.end(reconnects: reconnects) }
        case 4:
            guard let spark = self.server.sparks.randomElement(using: &self.simulation.random) else { return }
            self.step("drop \(spark.id)") { self.server.drop(spark.id) }
        case 5 where self.losesMessages:
            guard let spark = self.server.sparks.randomElement(using: &self.simulation.random) else { return }
            self.silenced.insert(spark.id)
            self.step("silence \(spark.id)") { self.server.silence(spark.id) }
        case 6: self.setFaults("refuse") { $0.refusalStatus = self.simulation.choose([401, 403, 503, 503, 503]) }
        case 7: self.setFaults("no specification") { $0.specStatus = self.simulation.choose([404, 500]) }
        case 8: self.setFaults("delay") { $0.delay = .milliseconds(self.simulation.random(in: 1...3_000)) }
        case 9 where self.losesMessages: self.setFaults("silent") { $0.isSilent = true }
        case 10: self.setFaults("no pings") { $0.stopsPings = true }
        case 11: self.setFaults("refuse upgrades") { $0.refusesUpgrades = true }
        case 12: self.setFaults("ignore probes") { $0.ignoresProbes = true }
        case 13: self.setFaults("fail polls") { $0.failedPolls = Int(self.simulation.random(in: 1...3)) }
        case 14: self.setFaults("lose answers") { $0.lostAnswers = Int(self.simulation.random(in: 1...3)) }
        case 15:
            guard let spark = self.server.sparks.randomElement(using: &self.simulation.random) else { return }
            self.step("forget \(spark.id)") { self.server.forgetSession(spark.id) }
        default:
            let server = self.server
            self.step("restart") { self.simulation.task { await server.stop() } }
        }
    }

    /// Injects a fault for a while.
    private func setFaults(_ what: String, _ change: (inout PrimusServerFaults) -> Void) {
        var faults = PrimusServerFaults()
        change(&faults)
        self.step(what) { self.server.faults = faults }
        self.simulation.schedule(in: 1_000...10_000) { [self] in self.step("no \(what)") { self.server.faults = PrimusServerFaults() } }
    }

    /// Ends all faults.
    func endFaults() {
        self.step("no faults") {
            self.server.faults = PrimusServerFaults()
            for id in self.silenced.sorted() { self.server.silence(id, false) }
        }
    }

    private func step(_ what: String, _ body: () -> Void) { self.simulation.step(.arrival, "server: \(what)", body) }
}

import RealtimeCore
import RelayProtocol
import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct RelaySimulationTests {
    @Test func `a client that negotiates, falls back and moves recovers from random faults`() async throws {
        let report = try await simulate(runs: 100) { RelaySimulation($0).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        guard report.runs > 40, report.failures.isEmpty else { return }
        expectEqual(
            report.missing([
                "connections": 5, "events": 20, "late events": 0.5, "fallbacks": 1, "moves": 0.5, "decisions": 1, "uploads": 2,
                "failures": 0.5, "faults": 2,
            ]), [])
    }

    @Test(arguments: [RelaySession.Kind.polling, .stream])
    func `a client over HTTP recovers from random faults`(kind: RelaySession.Kind) async throws {
        let report = try await simulate(runs: 100) { RelayHTTPSimulation($0, kind).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        guard report.runs > 40, report.failures.isEmpty else { return }
        expectEqual(
            report.missing([
                "connected": 2, "messages": 20, "uploads": 2, "faults": 5, "pauses": 1,
            ]), [])
        expect(kind == .polling || report.exercises("repeated requests", moreThan: 0.3))
    }
}

/// A client of the relay protocol and a server on one network.
///
/// After 10 minutes of faults, the network is reliable. The client must then receive events and complete an upload.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class RelaySimulation: @unchecked Sendable {
    private let simulation: Simulation
    private let network: VirtualNetwork
    private let server: RelaySimulationServer
    private let client: SimulatedClient<RelaySession>
    /// The last message on the current connection.
    private var lastMessage = 0
    private var messages = 0
    private var uploads = 0, failures = 0, moves = 0, decisions = 0

    init(_ simulation: Simulation) {
        self.simulation = simulation
        let network = VirtualNetwork(simulation, .unreliable)
        self.network = network
        self.server = RelaySimulationServer(network)
        network.setServer(self.server, host: "relay", port: 80)
        var rules = ClientRules()
        // The current connection and the one that is to replace it.
        rules.connectionLimit = 2
        rules.closesOnlyForCaller = false
        rules.abandonsOnlyAfterFaults = false
        self.client = SimulatedClient(
            RelaySession(seed: simulation.seed), on: network, rules: rules,
            webSocket: { request in
                WebSocketRequest(Endpoint(scheme: "ws", host: "relay", port: 80, target: "/relay/\(request.kind)?token=\(request.token)"))
            },
            perform: { work, id, driver in
                simulation.work {
                    switch work {
                    case .negotiate:
                        let url = Endpoint(scheme: "http", host: "relay", port: 80)
                        driver.workFinished(id, .negotiated(await RelayClient.negotiate(url, network.http)))
                    case .ask:
                        await simulation.sleep(in: 0...40_000)
                        let decisions: [ReconnectDecision] = [.immediately, .afterBackoff(), .after(.seconds(3)), .ask, .never]
                        driver.workFinished(id, .decided(simulation.choose(decisions)))
                    case .upload(let items):
                        for item in items {
                            await simulation.sleep(in: 0...500)
                            driver.workProgressed(id, item)
                        }
                        driver.workFinished(id, .uploaded)
                    }
                }
            })
        self.client.waiterCount = { $0.waiterCount }
        self.client.onCommand = { [unowned self] in self.check($0) }
    }

    func run() -> [String: Int] {
        self.consume()
        self.simulation.every(0...20_000, while: { [network = self.network] in network.hasFaults }) { [self] in self.callRandomMethod() }
        self.simulation.every(100...20_000) { [self] in self.publish() }
        RecoveryRun(faults: .seconds(600), settling: .seconds(70), recovery: .seconds(230), ending: .seconds(60)).perform(
            on: self.network, [self.client],
            faultsEnd: { self.simulation.endSleeps() }, settled: { self.client.start() }, recovered: { self.checkRecovery() })
        if self.simulation.violation == nil {
            self.simulation.require(self.client.read { $0.works.count } == 0, "the session still knows work after stopping")
        }
        let counts = [
            "fallbacks": self.server.fallbacks, "moves": self.moves, "decisions": self.decisions, "uploads": self.uploads,
            "failures": self.failures,
        ]
        return self.network.counts.merging(self.client.totals.counts) { $1 }.merging(counts) { $1 }
    }

    private func checkRecovery() {
        let (uploadsBefore, messagesBefore) = (self.uploads, self.messages)
        self.upload(limit: nil)
        self.simulation.run(for: .seconds(60))
        self.simulation.require(self.client.read { $0.isConnected }, "the client is not connected after the recovery")
        self.simulation.require(self.uploads == uploadsBefore + 1, "an upload of a connected client was not completed")
        self.simulation.require(self.messages > messagesBefore, "a connected client receives no events")
    }

    private func check(_ command: Effects<RelaySession>.Command) {
        switch command {
        case .work(_, .ask): self.decisions += 1
        case .finish(let reason):
            guard reason != .requested else { return }
            self.simulation.schedule(in: 0...30_000) { [self] in self.client.start() }
        default: break
        }
    }

    private func publish() {
        self.simulation.step(.arrival, "server: publish") { self.server.publish() }
    }

    private func callRandomMethod() {
        switch self.simulation.random(in: 0...9) {
        case 0: self.client.stop()
        case 1, 2, 3: self.client.start()
        case 4: if let wait = self.client.pendingWaits.first { self.client.cancelWait(wait) }
        default: self.upload(limit: self.simulation.chance(50) ? .milliseconds(self.simulation.random(in: 0...8_000)) : nil)
        }
    }

    private func upload(limit: Duration?) {
        let items = (0..<Int(self.simulation.random(in: 0...5))).map { "\($0)" }
        let movesBefore = self.moves
        self.client.wait("upload of \(items.count)", limit: limit) {
            $0.upload(items, $1, &$3)
        } _: { [self] result in
            switch result {
            case .success(let count):
                self.uploads += 1
                // The end of an upload may overtake items that were sent on the connection before.
                let isComplete = count == items.count || self.moves > movesBefore && count < items.count
                self.simulation.require(isComplete, "\(count) of \(items.count) items were uploaded")
            case .failure: self.failures += 1
            }
        }
    }

    private func consume() {
        self.client.consume(.standard, .client) {
            $1.append(contentsOf: $0)
        } register: { session, id, effects in
            session.observe(id, &effects)
        } body: { [self] event in
            switch event {
            case .message(let text)?:
                let number = Int(text) ?? 0
                self.simulation.require(number > self.lastMessage, "the message \(number) was received after \(self.lastMessage)")
                self.lastMessage = number
                self.messages += 1
            case .connected?, .moved?:
                // What was sent on one connection may be received after what was sent later on another one.
                self.lastMessage = 0
                if event == .moved { self.moves += 1 }
            default: break
            }
        }
    }
}

/// A client of the relay protocol over HTTP requests and a server, with a user who reads slowly.
///
/// On each connection, the client receives the events in order, without gaps and duplicates. While the network is reliable, it receives
/// every event.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class RelayHTTPSimulation: @unchecked Sendable {
    private let simulation: Simulation
    private let network: VirtualNetwork
    private let server: RelayServer
    private let client: SimulatedClient<RelaySession>
    private var published = 0
    /// The last event on the current connection.
    private var lastMessage: Int?
    private var messages = 0, connected = 0, uploads = 0, failures = 0

    init(_ simulation: Simulation, _ kind: RelaySession.Kind) {
        self.simulation = simulation
        var conditions = NetworkConditions.unreliable
        // A connection consists of many requests, and each part of a response may be disturbed.
        (conditions.failedRequests, conditions.unansweredRequests, conditions.repeatedRequests) = (1, 1, 20)
        (conditions.silences, conditions.resets, conditions.closes) = (1, 1, 1)
        conditions.window = 100
        let network = VirtualNetwork(simulation, conditions)
        self.network = network
        self.server = RelayServer(offering: [kind], time: simulation)
        network.setServer(SimulatedListener(simulation, self.server), host: "relay", port: 80)
        let endpoint = Endpoint(scheme: "http", host: "relay", port: 80, target: "/")
        let transports = Transports(webSocket: network.webSocket, http: network.http, time: simulation, seed: { simulation.seed })
        let cookies = RedirectingHTTP.Cookies()
        var rules = ClientRules()
        rules.closesOnlyForCaller = false
        rules.abandonsOnlyAfterFaults = false
        self.client = SimulatedClient(
            RelaySession(seed: simulation.seed), on: network, rules: rules,
            connect: { request, id, events, _ in
                RelayClient.connect(request, to: endpoint, over: transports, cookies, id: id, events: events)
            },
            perform: { work, id, driver in
                simulation.work {
                    switch work {
                    case .negotiate: driver.workFinished(id, .negotiated(await RelayClient.negotiate(endpoint, network.http)))
                    case .ask: driver.workFinished(id, .decided(.after(.milliseconds(simulation.random(in: 0...5_000)))))
                    case .upload(let items):
                        for item in items {
                            await simulation.sleep(in: 0...500)
                            driver.workProgressed(id, item)
                        }
                        driver.workFinished(id, .uploaded)
                    }
                }
            })
        self.client.waiterCount = { $0.waiterCount }
        self.client.onCommand = { [unowned self] command in
            guard case .finish(let reason) = command, reason != .requested else { return }
            self.simulation.schedule(in: 0...10_000) { [self] in self.client.start() }
        }
    }

    func run() -> [String: Int] {
        self.consume()
        self.simulation.every(0...20_000, while: { [network = self.network] in network.hasFaults }) { [self] in self.callRandomMethod() }
        self.simulation.every(0...5_000) { [self] in self.publish() }
        RecoveryRun(faults: .seconds(300), settling: .seconds(100), recovery: .seconds(100), ending: .seconds(60)).perform(
            on: self.network, [self.client],
            faultsEnd: { self.simulation.endSleeps() }, settled: { self.client.start() }, recovered: { self.checkRecovery() })
        let counts = [
            "messages": self.messages, "connected": self.connected, "uploads": self.uploads, "failures": self.failures,
        ]
        return self.network.counts.merging(self.client.totals.counts) { $1 }.merging(counts) { $1 }
    }

    private func checkRecovery() {
        let (connectedBefore, uploadsBefore, faultsBefore) = (self.connected, self.uploads, self.network.totals.faults)
        let (messagesBefore, publishedBefore) = (self.lastMessage ?? 0, self.published)
        self.upload(limit: nil)
        self.simulation.run(for: .seconds(60))
        guard self.simulation.violation == nil else { return }
        self.simulation.require(self.client.read { $0.isConnected }, "the client is not connected after the recovery")
        self.simulation.require(self.uploads == uploadsBefore + 1, "an upload of a connected client was not completed")
        self.simulation.require(
            self.connected == connectedBefore && self.network.totals.faults == faultsBefore,
            "a connection was lost on a reliable network")
        // The last ones may be on their way.
        let isComplete = self.lastMessage.map { $0 >= publishedBefore && $0 > messagesBefore } ?? false
        self.simulation.require(isComplete, "the last event is \(self.lastMessage ?? 0) of \(self.published)")
    }

    private func publish() {
        self.simulation.step(.arrival, "server: publish") {
            for _ in 0..<self.simulation.random(in: 1...4) {
                self.published += 1
                self.server.broadcast("+ \(self.published)")
            }
        }
    }

    private func callRandomMethod() {
        switch self.simulation.random(in: 0...11) {
        case 0: self.client.stop()
        case 1, 2, 3: self.client.start()
        case 4: if let wait = self.client.pendingWaits.first { self.client.cancelWait(wait) }
        case 5: self.simulation.step(.arrival, "network: cut") { self.network.cut() }
        default: self.upload(limit: self.simulation.chance(50) ? .milliseconds(self.simulation.random(in: 0...8_000)) : nil)
        }
    }

    private func upload(limit: Duration?) {
        let items = (0..<Int(self.simulation.random(in: 0...5))).map { "\($0)" }
        self.client.wait("upload of \(items.count)", limit: limit) {
            $0.upload(items, $1, &$3)
        } _: { [self] result in
            switch result {
            case .success(let count):
                self.uploads += 1
                self.simulation.require(count == items.count, "\(count) of \(items.count) items were uploaded")
            case .failure: self.failures += 1
            }
        }
    }

    private func consume() {
        self.client.consume(.pauseReading(3), .client, pause: 0...3_000) {
            $1.append(contentsOf: $0)
        } register: { session, id, effects in
            session.observe(id, &effects)
        } body: { [self] event in
            switch event {
            case .message(let text)?:
                let number = Int(text) ?? 0
                if let last = self.lastMessage {
                    self.simulation.require(number == last + 1, "the event \(number) was received after \(last)")
                }
                self.lastMessage = number
                self.messages += 1
            case .connected?:
                self.lastMessage = nil
                self.connected += 1
            default: break
            }
        }
    }
}

/// The server of the relay protocol on a virtual network, whose connections of both kinds are WebSockets.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class RelaySimulationServer: SimulatedServer, MessageEvents, @unchecked Sendable {
    private struct Client {
        var token: String
        var connection: any MessageConnection
        var items: [Substring: Int] = [:]
    }

    private let network: VirtualNetwork
    private var simulation: Simulation { self.network.simulation }
    private var clients: [ConnectionID: Client] = [:]
    /// The connection to which each client has moved.
    private var current: [String: ConnectionID] = [:]
    private var lastToken = 0
    private var published = 0
    private(set) var fallbacks = 0

    init(_ network: VirtualNetwork) {
        self.network = network
    }

    func respond(to request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        if self.network.hasFaults, self.simulation.chance(10) {
            return responder.respond(HTTPResponse(status: self.simulation.choose([200, 404, 503])))
        }
        self.lastToken += 1
        responder.respond(HTTPResponse(status: 200, text: "t\(self.lastToken) socket polling"))
    }

    func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult {
        if request.path.hasSuffix("socket"), self.simulation.chance(50) {
            self.fallbacks += 1
            return .reject(HTTPResponse(status: 403))
        }
        self.clients[id] = Client(token: String(request.query.dropFirst(6)), connection: connection)
        return .accept(self)
    }

    func publish() {
        self.published += 1
        for id in self.current.values.sorted() {
            self.send("+ \(self.published)", to: id)
            if self.simulation.chance(30) { self.send("upgrade", to: id) }
        }
    }

    private func send(_ line: String, to id: ConnectionID) {
        self.clients[id]?.connection.enqueue(.text(line))
        self.clients[id]?.connection.flush()
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        // A client that moves says so.
        guard let client = self.clients[id], self.current[client.token] == nil else { return }
        self.current[client.token] = id
        self.send("hello", to: id)
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages {
            guard let token = self.clients[id]?.token else { return }
            let words = String(decoding: message.bytes, as: UTF8.self).split(separator: " ")
            // The client is where it sends. It stays on the old connection if the new one fails.
            let previous = self.current[token]
            self.current[token] = id
            if let previous, previous != id {
                let items = self.clients[previous]?.items
                self.clients[id]?.items = items ?? [:]
            }
            switch words.first {
            case "move": self.send("moved", to: id)
            case "item": self.clients[id]?.items[words[1], default: 0] += 1
            case "end":
                let count = self.clients[id]?.items[words[1]] ?? 0
                self.send("= \(words[1]) \(count)", to: id)
            case ".": self.send("alive", to: id)
            default: break
            }
        }
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        guard let client = self.clients.removeValue(forKey: id) else { return }
        guard self.current[client.token] == id else { return }
        // A late message on the old connection may have arrived after the client moved.
        self.current[client.token] = self.clients.filter { $0.value.token == client.token }.keys.max()
    }
}

import PrimusClient
import PrimusWire
import RealtimeCore
import SimulationSupport

/// The client and a model of the server on an unreliable network, with random calls by the user.
///
/// After a minute of faults, the network is reliable, and the client must recover within another minute.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class PrimusSimulation: @unchecked Sendable {
    let simulation: Simulation
    let network: VirtualNetwork
    let model: PrimusModel
    let client: SimulatedClient<PrimusSession>
    private var connects = 0, closings = 0, written = 0, received = 0, opens = 0
    private var lastNumber = 0, lastReceived = 0
    private var isOpen = false
    private let reconnectsNow: Bool

    init(_ simulation: Simulation) {
        self.simulation = simulation
        let network = VirtualNetwork(simulation, .unreliable)
        network.conditions.repeatedRequests = 0
        network.conditions.stallTime = 500...3_000
        network.conditions.slowConnectDelay = 1_000...15_000
        network.conditions.lateness = 0...30_000
        network.conditions.closeTimeout = 2_000...10_000
        self.network = network
        self.model = PrimusModel(on: network)
        var options = PrimusConfiguration(
            PrimusModel.endpoint,
            transports: Transports(webSocket: network.webSocket, http: network.http, time: simulation, seed: { simulation.seed }))
        options.detection = simulation.choose([.automatic, .required, .off])
        options.retry = simulation.choose([
            .standard, .backoff(PrimusBackoff(maximum: .seconds(5), retries: 6)), .custom { _ in nil },
            .delays([.zero, .seconds(1), .seconds(2)]),
        ])
        options.strategies = simulation.chance(80) ? .all : [.disconnect]
        options.silenceLimit = .seconds(12)
        (options.connectTimeout, options.reconnectTimeout) = (.seconds(6), .seconds(8))
        options.queue = simulation.choose([.refuse(5), .dropOldest(5), .dropNewest(5)])
        if simulation.chance(30) { options.credentials = { [:] } }
        var rules = ClientRules()
        rules.connectionLimit = 10
        rules.closesOnlyForCaller = false
        rules.abandonsOnlyAfterFaults = false
        self.reconnectsNow = simulation.chance(30)
        self.client = SimulatedClient(
            PrimusSession(options, seed: simulation.seed), on: network, rules: rules, webSocket: { $0.webSocket },
            perform: { work, id, driver in Self.perform(work, id, driver, on: network) })
        self.client.waiterCount = { $0.waiterCount }
        self.client.lateResult = Self.lateResult
        self.client.onDelivery = { [unowned self] event, _ in self.check(event) }
    }

    /// Performs the run.
    ///
    /// - Returns: The numbers of events.
    func run() -> [String: Int] {
        self.observe()
        self.open()
        let hasFaults = { @Sendable [network = self.network] in network.hasFaults }
        self.simulation.every(0...3_000, first: 0...3_000, while: hasFaults) { [self] in self.callRandomMethod() }
        self.simulation.every(5_000...5_000, first: 0...5_000) { [self] in self.model.ping() }
        self.simulation.every(5_000...40_000, first: 5_000...40_000, while: hasFaults) { [self] in
            self.model.end(isFinal: self.simulation.chance(30))
        }
        RecoveryRun(faults: .seconds(60), settling: .seconds(30), recovery: .seconds(60), ending: .seconds(40)).perform(
            on: self.network, [self.client],
            settled: {
                // The client may give up for the last time after the faults have ended.
                for delay in [0, 20_000] as [Int64] { self.simulation.schedule(in: delay...delay) { [self] in self.open() } }
            },
            recovered: { self.checkRecovery() }, stop: { self.client.stop() })
        if self.simulation.violation == nil {
            self.simulation.require(self.model.connectionCount == 0, "the server still has connections")
            let (state, waiters) = self.client.read { ($0.state, $0.waiterCount) }
            self.simulation.require(state == .closed(nil) && waiters == 0, "at the end, the state is \(state)")
            self.simulation.require(self.opens == self.closings, "\(self.opens) opens and \(self.closings) ends")
        }
        let counts = [
            "connects": self.connects, "closings": self.closings, "written": self.written, "received": self.received,
            "echoes": self.model.echoes, "server ends": self.model.ends,
        ]
        return self.network.counts.merging(self.client.totals.counts) { $1 }.merging(counts) { $1 }
    }

    private func checkRecovery() {
        self.simulation.require(self.isOpen, "not open after the recovery")
        let received = self.received
        self.write(isLimited: false)
        self.simulation.run(for: .seconds(5))
        self.simulation.require(self.received == received + 1, "a message had no echo after the recovery")
    }

    // MARK: The user

    private func open() {
        self.client.step("open") { session, now, effects in
            if case .closed = session.state { self.opens += 1 }
            session.open(now: now, &effects)
        }
    }

    private func write(isLimited: Bool = true) {
        self.lastNumber += 1
        let number = self.lastNumber
        let content = PrimusContent.packet(.text("\(number)"), .json)
        if self.simulation.chance(50) {
            let limit: Duration? = isLimited && self.simulation.chance(50) ? .milliseconds(self.simulation.random(in: 0...10_000)) : nil
            self.client.wait("write \(number)", limit: limit) { session, waiter, now, effects in
                session.write(content, .queue, waiter, now: now, &effects)
            } _: { [self] result in
                if case .success = result { self.written += 1 }
            }
        } else {
            self.client.step("enqueue \(number)") { $0.write(content, .queue, now: $1, &$2) }
        }
    }

    private func callRandomMethod() {
        switch self.simulation.random(in: 0...19) {
        case 0: self.client.stop()
        case 1...4: self.open()
        case 5 where self.reconnectsNow: self.client.step("reconnect now") { $0.reconnectNow(now: $1, &$2) }
        case 6 where self.reconnectsNow: self.client.step("network") { $0.networkChanged(now: $1, &$2) }
        case 7:
            if let wait = self.client.pendingWaits.first { self.client.cancelWait(wait) }
        case 8: self.client.wait("id", limit: .seconds(20)) { $0.awaitSparkID($1, now: $2, &$3) }
        case 9: self.client.wait("opened", limit: .seconds(20)) { session, waiter, _, effects in session.awaitOpen(waiter, &effects) }
        default: for _ in 0...self.simulation.random(in: 0...6) { self.write() }
        }
    }

    private func observe() {
        self.client.consume(.pauseReading(8), .client, pause: self.simulation.chance(30) ? 0...500 : nil) {
            (events: ArraySlice<PrimusEvent>, output: inout [PrimusEvent]) in
            output.append(contentsOf: events)
        } register: { session, consumer, effects in
            session.observeMessages(consumer, &effects)
        } body: { _ in
        }
        self.client.consume(.dropOldest(100_000), .client) {
            (events: ArraySlice<PrimusEvent>, output: inout [PrimusEvent]) in
            output.append(contentsOf: events)
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        } body: { _ in
        }
    }

    // MARK: Invariants

    private func check(_ event: PrimusEvent) {
        switch event {
        case .message(let message):
            let number = Int(String(decoding: message.raw.bytes, as: UTF8.self)) ?? 0
            self.simulation.require(self.isOpen, "a message arrived while the client wasn't open")
            self.simulation.require(number > self.lastReceived, "\(number) arrived after \(self.lastReceived)")
            self.lastReceived = number
            self.received += 1
        case .update(.state(let state)):
            self.isOpen = state == .open
            if self.isOpen { self.connects += 1 }
        case .update(.ended): self.closings += 1
        default: break
        }
    }

    // MARK: Work

    private static func perform(
        _ work: PrimusSession.Work, _ id: WorkID, _ driver: SimulatedClient<PrimusSession>.Driver, on network: VirtualNetwork
    ) -> (@Sendable () -> Void)? {
        let simulation = network.simulation
        return simulation.work {
            switch work {
            case .prepare(let preparation):
                await simulation.sleep(in: 0...2_000)
                let isFailure = network.hasFaults && simulation.chance(5)
                let failure = PrimusError(.credentialsFailed, "not today")
                let prepared = PrimusPrepared(endpoint: preparation.endpoint, credentials: [:])
                driver.workFinished(id, .prepared(isFailure ? .failure(failure) : .success(prepared)))
            case .request(let request):
                do throws(TransportError) {
                    driver.workFinished(id, .response(.success(try await network.http.send(request))))
                } catch {
                    driver.workFinished(id, .response(.failure(error)))
                }
            case .retryDelay:
                await simulation.sleep(in: 0...8_000)
                driver.workFinished(id, .retryDelay(simulation.choose([.success(.seconds(1)), .success(.zero), .success(nil)])))
            }
        }
    }

    /// A result of work that was cancelled too late.
    private static func lateResult(_ work: PrimusSession.Work) -> PrimusSession.WorkResult {
        switch work {
        case .prepare: .prepared(.failure(PrimusError(.credentialsFailed, "late")))
        case .request: .response(.failure(TransportError(.reset, "late")))
        case .retryDelay: .retryDelay(.success(.zero))
        }
    }
}

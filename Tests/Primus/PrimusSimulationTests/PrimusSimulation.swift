import PrimusServer
import PrimusWire
import RealtimeCore
import SimulationSupport

@testable import PrimusClient

/// The client and the embedded server on an unreliable network, with random calls by the user.
///
/// After a minute of faults, the network is reliable, and the client must recover within another minute.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class PrimusSimulation: @unchecked Sendable {
    let simulation: Simulation
    let network: VirtualNetwork
    let model: PrimusServerModel
    let client: SimulatedClient<PrimusSession>
    private var pollingConnects = 0, streamConnects = 0, moves = 0
    private var connects = 0, closings = 0, written = 0, received = 0, opens = 0, answers = 0
    private var lastNumber = 0, lastReceived = 0
    private var isOpen = false
    /// Whether the user has ended the client, and not opened it again.
    private var hasEnded = true
    private let reconnectsNow: Bool
    private let queue: PrimusQueuePolicy
    /// The framing of each connection, for the server's side.
    private var framings: [ConnectionID: PrimusFraming] = [:]
    /// The numbers of the messages that the client has refused, or whose caller was told that they aren't sent.
    private var refused: Set<Int> = []
    private var overHTTP: Set<ConnectionID> = []
    /// The spark whose messages arrive, the number of the last one, and the sparks before.
    private var spark: (id: String, last: Int)?
    private var earlierSparks: Set<String> = []
    private var joinsChannel = false

    init(_ simulation: Simulation) {
        self.simulation = simulation
        let network = VirtualNetwork(simulation, .unreliable)
        // Small enough that the client has to wait until the server reads.
        network.conditions.window = 128
        network.conditions.stallTime = 500...3_000
        network.conditions.slowConnectDelay = 1_000...15_000
        network.conditions.lateness = 0...30_000
        network.conditions.closeTimeout = 2_000...10_000
        // A response to a poll that an intermediary repeats, and whose client doesn't get it, is lost without a notice.
        network.conditions.repeatedRequests = 0
        self.network = network
        self.model = PrimusServerModel(on: network)
        let transports = Transports(webSocket: network.webSocket, http: network.http, time: simulation, seed: { simulation.seed })
        var options = PrimusConfiguration(PrimusServerModel.endpoint, transports: transports)
        let server = self.model.server.configuration
        options.detection = simulation.choose([.automatic, .required, .off])
        // Without the specification, the client would assume a parser that the server doesn't have.
        if options.detection != .required { (options.transformer, options.parser) = (server.transformer, server.parser) }
        options.plugins = [.emitter, .multiplex]
        options.retry = simulation.choose([
            .standard, .backoff(PrimusBackoff(maximum: .seconds(5), retries: 6)), .custom { _ in nil },
            .delays([.zero, .seconds(1), .seconds(2)]),
        ])
        options.strategies = simulation.chance(80) ? .all : [.disconnect]
        options.silenceLimit = .seconds(12)
        (options.connectTimeout, options.reconnectTimeout) = (.seconds(6), .seconds(8))
        options.queue = simulation.choose([.refuse(5), .dropOldest(5), .dropNewest(5)])
        self.queue = options.queue
        if simulation.chance(30) { options.credentials = { [:] } }
        var rules = ClientRules()
        rules.connectionLimit = 10
        rules.closesOnlyForCaller = false
        rules.abandonsOnlyAfterFaults = false
        self.reconnectsNow = simulation.chance(30)
        options.allowedTransports = simulation.choose([.webSockets, .polling, .all, .all])
        options.startsWithPolling = simulation.chance(70)
        if server.transformer == .sockjs {
            options.connectionKinds = simulation.choose([nil, [.framedWebSocket], [.streaming], [.polling]])
        }
        // The others have nothing but WebSockets.
        if server.transformer == .websockets { options.allowedTransports = .webSockets }
        let session = PrimusSession(options, epoch: InMemoryNetwork.epoch, seed: simulation.seed)
        let environment = HTTPMessageConnection.Environment(transports, cookies: session.cookies)
        self.client = SimulatedClient(
            session, on: network, rules: rules,
            connect: { request, id, events, _ in
                switch request.connection {
                case .webSocket(let request): network.connect(request, id: id, events: events)
                case .http(let rules): HTTPMessageConnection(rules, in: environment, id: id, events: events)
                }
            },
            perform: { work, id, driver in Self.perform(work, id, driver, on: network) })
        self.client.waiterCount = { $0.waiterCount }
        self.client.lateResult = Self.lateResult
        self.client.onDelivery = { [unowned self] event, _ in self.check(event) }
        self.client.onCommand = { [unowned self] command in self.check(command) }
        // The closure keeps this object alive until the run is released.
        simulation.invariants.append { self.checkProgress() }
    }

    /// Performs the run.
    ///
    /// - Returns: The numbers of events.
    func run() -> [String: Int] {
        self.observe()
        if self.simulation.chance(50) {
            self.joinsChannel = true
            self.client.step("join") { session, now, effects in _ = session.joinChannel("news", now: now, &effects) }
        }
        self.open()
        let hasFaults = { @Sendable [network = self.network] in network.hasFaults }
        self.simulation.every(0...3_000, first: 0...3_000, while: hasFaults) { [self] in self.callRandomMethod() }
        self.simulation.every(2_000...20_000, first: 5_000...20_000, while: hasFaults) { [self] in self.model.makeTrouble() }
        RecoveryRun(faults: .seconds(60), settling: .seconds(30), recovery: .seconds(60), ending: .seconds(40)).perform(
            on: self.network, [self.client], faultsEnd: { self.model.endFaults() },
            settled: {
                // The client may give up for the last time after the faults have ended.
                for delay in [0, 20_000] as [Int64] { self.simulation.schedule(in: delay...delay) { [self] in self.open() } }
            },
            recovered: {
                self.checkRecovery()
                self.network.standStill { self.connects }
            }, stop: { self.end() })
        if self.simulation.violation == nil { self.checkEnd() }
        let counts = [
            "connects": self.connects, "closings": self.closings, "written": self.written, "received": self.received,
            "polling": self.pollingConnects, "streams": self.streamConnects, "moves": self.moves,
            "arrivals": self.model.received.count, "server ends": self.model.ends, "answers": self.answers,
        ]
        return self.network.counts.merging(self.client.totals.counts) { $1 }.merging(counts) { $1 }
    }

    private func checkRecovery() {
        self.simulation.require(self.isOpen, "not open after the recovery")
        let (received, answers) = (self.received, self.answers)
        self.write(isLimited: false)
        self.ask(99, limit: .seconds(5))
        self.simulation.run(for: .seconds(5))
        self.simulation.require(self.received == received + 1, "a message had no echo after the recovery")
        self.simulation.require(self.answers == answers + 1, "an event wasn't acknowledged after the recovery")
        self.simulation.require(self.model.sparkCount == 1, "the server has \(self.model.sparkCount) sparks after the recovery")
        // The server may have ignored that the client has joined.
        if self.model.losesMessages { return }
        let channels = self.spark.flatMap { self.model.channels[$0.id] } ?? []
        self.simulation.require(channels.isEmpty != self.joinsChannel, "the client isn't in its channels again")
    }

    private func checkEnd() {
        self.simulation.require(self.model.sparkCount == 0, "the server still has connections")
        let (state, waiters, queued) = self.client.read { ($0.state, $0.waiterCount, $0.queuedCount) }
        self.simulation.require(state == .closed(nil) && waiters == 0, "at the end, the state is \(state)")
        self.simulation.require(self.opens == self.closings, "\(self.opens) opens and \(self.closings) ends")
        if case .dropOldest = self.queue { return }
        // Every message was sent, was refused, or waits.
        let others = self.lastNumber - self.model.sentCount - self.refused.count
        self.simulation.require(others == queued, "\(others) messages are neither sent nor refused, and \(queued) wait")
    }

    // MARK: The user

    private func open() {
        self.hasEnded = false
        self.client.step("open") { session, now, effects in
            if case .closed = session.state { self.opens += 1 }
            session.open(now: now, &effects)
        }
    }

    private func end() {
        self.client.stop()
        self.hasEnded = true
    }

    private func write(isLimited: Bool = true) {
        self.lastNumber += 1
        let number = self.lastNumber
        // Long messages wait until the server reads.
        let padding = self.simulation.chance(30) ? String(repeating: "x", count: Int(self.simulation.random(in: 0...200))) : nil
        let value: PrimusValue = padding.map { ["number": .int(Int64(number)), "padding": .string($0)] } ?? .int(Int64(number))
        // A message may have been written before the server's parser was known, or for another one.
        let text = padding.map { "{\"number\":\(number),\"padding\":\"\($0)\"}" } ?? "\(number)"
        let content = self.simulation.chance(30) ? PrimusContent.packet(.text(text), .json) : PrimusContent.value(value)
        if self.simulation.chance(50) {
            let limit: Duration? = isLimited && self.simulation.chance(50) ? .milliseconds(self.simulation.random(in: 0...10_000)) : nil
            self.client.wait("write \(number)", limit: limit) { session, waiter, now, effects in
                session.write(content, .queue, waiter, now: now, &effects)
            } _: { [self] result in
                switch result {
                case .success:
                    self.written += 1
                    self.simulation.require(self.model.wasSent(number), "the call that writes \(number) returned before it was sent")
                case .failure(let error):
                    // The server may have the message, and not have answered its request.
                    if self.isOverHTTP(number) { return }
                    self.refused.insert(number)
                    self.simulation.require(!self.model.wasSent(number), "\(number) was sent, and its call failed: \(error)")
                }
            }
        } else {
            self.client.step("enqueue \(number)") { session, now, effects in
                if session.write(content, .queue, now: now, &effects) != nil { self.refused.insert(number) }
            }
        }
    }

    /// Whether a message was sent in a request.
    private func isOverHTTP(_ number: Int) -> Bool { self.model.connection(of: number).map(self.overHTTP.contains) ?? false }

    /// Sends an event that the server acknowledges, unless the client isn't open.
    private func ask(_ number: Int, limit: Duration) {
        let coding = self.model.coding
        self.client.wait("ask \(number)", limit: limit) { session, waiter, now, effects in
            guard let reservation = try? session.reserveEvent(.connection),
                let arguments = try? PrimusArguments("ask", number, in: coding)
            else { return session.awaitCalls(waiter, &effects) }
            let packet = PrimusPluginPacket.emitter(.event(name: "ask", arguments, id: Int64(reservation.number)))
            guard let message = try? PrimusPluginWriter(coding).message(packet) else { return session.awaitCalls(waiter, &effects) }
            session.call(
                reservation, .acknowledgement(reservation.number, .connection), .packet(message, coding), waiter, now: now, &effects)
        } _: { [self] result in
            switch result {
            case .success(.plugin(.acknowledgement(let arguments))):
                self.answers += 1
                let answer = try? arguments.decode(Int.self)
                self.simulation.require(answer == number, "the event \(number) was acknowledged with \(String(describing: answer))")
            case .success(.plugin(.response)), .success(.sparkID): self.simulation.fail("an event was answered with something else")
            // The call has waited for the connection only.
            case .success(.none), .success(.opened): break
            case .failure(let error):
                let codes: [PrimusError.Code] = [
                    .notOpen, .ended, .connectionLost, .closedByServer, .serverSilent, .timedOut, .cancelled, .unauthorized,
                    .credentialsFailed, .handshakeFailed, .detectionFailed,
                ]
                self.simulation.require(codes.contains(error.code), "the event \(number) failed: \(error.code) \(error)")
            }
        }
    }

    private func callRandomMethod() {
        switch self.simulation.random(in: 0...21) {
        case 0: self.end()
        case 1...4: self.open()
        case 5 where self.reconnectsNow: self.client.step("reconnect now") { $0.reconnectNow(now: $1, &$2) }
        case 6 where self.reconnectsNow: self.client.step("network") { $0.networkChanged(now: $1, &$2) }
        case 7:
            if let wait = self.client.pendingWaits.first { self.client.cancelWait(wait) }
        case 8: self.client.wait("id", limit: .seconds(20)) { $0.awaitSparkID($1, now: $2, &$3) }
        case 9: self.client.wait("opened", limit: .seconds(20)) { session, waiter, _, effects in session.awaitOpen(waiter, &effects) }
        case 10, 11: self.ask(Int(self.simulation.random(in: 0...1_000)), limit: .milliseconds(self.simulation.random(in: 0...20_000)))
        default: for _ in 0...self.simulation.random(in: 0...8) { self.write() }
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

    /// A client that connects waits for something that ends by itself.
    private func checkProgress() {
        let (state, deadline, isWorking) = self.client.read { ($0.state, $0.nextDeadline, $0.works.contains { _ in true }) }
        switch state {
        case .opening, .reconnecting:
            self.simulation.require(deadline != nil || isWorking, "the client is \(state), and waits for nothing")
        case .closed: self.simulation.require(!self.isOpen, "the client is closed without a change of its state")
        // While the application doesn't read, nothing is due.
        case .open: break
        }
    }

    private func check(_ command: Effects<PrimusSession>.Command) {
        switch command {
        case .open(let id, let request):
            self.simulation.require(!self.hasEnded, "a connection was opened after the user had ended the client")
            if case .http = request.connection { self.overHTTP.insert(id) }
            self.framings[id] =
                switch request.framing {
                case .plain: .plain
                case .sockJS: .sockJS(.server)
                case .engineIO(let version, _): .engineIO(version, .server)
                }
        case .send(let id, let message): self.checkSent(message, on: id)
        case .close(let id, _, EngineIOPollingRules.upgraded): self.model.willMove(from: id)
        default: break
        }
    }

    /// Notes the numbers that are sent.
    private func checkSent(_ message: TransportMessage, on id: ConnectionID) {
        guard let framing = self.framings[id], message.kind == .text || message.kind == .binary else { return }
        message.bytes.withUnsafeBytes { bytes in
            framing.read(message.kind, bytes) { event in
                guard case .packet(let kind, let packet) = event,
                    let value = try? self.model.coding.value(of: TransportMessage(kind, Array(packet))),
                    let number = PrimusServerModel.number(value)
                else { return }
                self.simulation.require(!self.refused.contains(number), "\(number) was sent after its call had failed")
                self.model.willReceive(number, on: id)
            }
        }
    }

    private func check(_ event: PrimusEvent) {
        switch event {
        case .message(let message): self.check(message)
        case .update(.state(let state)):
            self.isOpen = state == .open
            if self.isOpen { self.connects += 1 }
        case .update(.transport(.polling)): self.pollingConnects += 1
        case .update(.transport(.streaming)): self.streamConnects += 1
        // The one that follows a connection's opening precedes its state.
        case .update(.transport(.webSockets)): if self.isOpen { self.moves += 1 }
        case .update(.ended):
            self.closings += 1
            self.simulation.require(self.closings <= self.opens, "a client that wasn't open has ended")
        case .update(.error(let error)):
            self.simulation.require(error.code != .invalidMessage, "a message of the server is invalid: \(error)")
        default: break
        }
    }

    private func check(_ message: PrimusMessage) {
        guard let value = try? message.value, let id = value[0]?.string, let index = value[1]?.int, let number = value[2]?.int else {
            return self.simulation.fail("the client received \(message.raw)")
        }
        self.simulation.require(self.isOpen, "a message arrived while the client wasn't open")
        if self.spark?.id != id {
            self.simulation.require(!self.earlierSparks.contains(id), "a message of the earlier spark \(id) arrived")
            if let spark { self.earlierSparks.insert(spark.id) }
            self.spark = (id, 0)
        }
        let last = self.spark?.last ?? 0
        // A connection loses nothing but its end.
        self.simulation.require(
            index == last + 1 || self.model.losesMessages && index > last, "the message \(index) of the server arrived after \(last)")
        self.spark?.last = index
        if number == 0 { return }
        self.simulation.require(number > self.lastReceived, "\(number) arrived after \(self.lastReceived)")
        self.lastReceived = number
        self.received += 1
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

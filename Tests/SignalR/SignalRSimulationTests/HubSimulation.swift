import RealtimeCore
import SignalRServer
import SignalRWire
import SimulationSupport

@testable import SignalRHubs

/// The client and the server on an unreliable network, with random calls by the user.
///
/// After a minute of faults, the network is reliable, and client and server must recover within another minute. This file contains the run
/// and the user's calls; the work of the client and the invariants of the protocol are in extensions.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class HubSimulation: @unchecked Sendable {
    let simulation: Simulation
    let network: VirtualNetwork
    let model: HubModel
    let client: SimulatedClient<HubSession>
    let coder: HubValueCoder
    var connects = 0, resumes = 0, results = 0, items = 0, closings = 0
    /// The number of losses that the application was told about since the last time it was connected or stopped.
    var reportedLosses = 0
    var isConnected = false
    var hasConnected = false
    private var hasRecovered = false
    private let reconnectsNow: Bool
    private var lastNumber = 0
    /// The number of messages without an answer on each connection.
    private var notes: [ConnectionID: Int] = [:]
    private var openStreams: Set<UInt64> = []
    private var lastTick = 0

    init(_ simulation: Simulation) {
        self.simulation = simulation
        let network = VirtualNetwork(simulation, .unreliable)
        (network.conditions.silences, network.conditions.resets, network.conditions.closes) = (1, 1, 1)
        // A poll is a GET request that takes messages from the server. An intermediary that repeats one loses them, which the protocol can't prevent.
        network.conditions.repeatedRequests = 0
        network.conditions.window = 256
        network.conditions.slowConnectDelay = 1_000...15_000
        network.conditions.stallTime = 500...8_000
        network.conditions.lateness = 0...30_000
        network.conditions.closeTimeout = 2_000...10_000
        self.network = network
        self.model = HubModel(on: network)
        let transports = Transports(webSocket: network.webSocket, http: network.http, time: simulation, seed: { simulation.seed })
        var options = HubConfiguration(HubModel.endpoint, transports: transports)
        options.format = simulation.choose(HubFormat.allCases)
        options.skipsNegotiation = simulation.chance(20)
        options.allowedTransports = options.skipsNegotiation ? .webSockets : simulation.choose(Self.transports(options.format))
        options.pollTimeout = .seconds(10)
        options.keepAliveInterval = .seconds(5)
        options.serverTimeout = .seconds(10)
        options.handshakeTimeout = .seconds(4)
        options.connectTimeout = .seconds(10)
        options.retriesFirstStart = simulation.chance(50)
        options.retry = simulation.choose([
            .standard, .backoff(Backoff(base: .seconds(1), cap: .seconds(5))), .custom { _ in nil }, .none,
        ])
        if simulation.chance(30) { options.accessToken = { nil } }
        if simulation.chance(50) {
            if simulation.chance(70) { (options.allowedTransports, options.skipsNegotiation) = (.webSockets, false) }
            options.statefulReconnect = HubStatefulReconnect(
                bufferBytes: Int(simulation.random(in: 100...2_000)), backlogLimit: Int(simulation.random(in: 0...4_000)),
                timeLimit: .milliseconds(simulation.random(in: 1_000...10_000)))
        }
        let coder = options.hubProtocol.coder
        self.coder = coder
        var rules = ClientRules()
        // The client closes connections whose server sends a close message, and tries again while they close.
        rules.connectionLimit = 10
        rules.closesOnlyForCaller = false
        // A server that doesn't read for longer doesn't answer the ping of `checkConnection` in time.
        let reconnectsNow = simulation.chance(30)
        // The last attempt to resume may have little time.
        rules.abandonsOnlyAfterFaults = !reconnectsNow && options.statefulReconnect == nil
        self.reconnectsNow = reconnectsNow
        self.client = SimulatedClient(
            HubSession(options, seed: simulation.seed), on: network, rules: rules,
            connect: { request, id, events, _ in
                switch request {
                case .webSocket(let request): return network.connect(request, id: id, events: events)
                case .http(let rules, let headers, _, _):
                    let environment = HTTPMessageConnection.Environment(
                        transports, cookies: RedirectingHTTP.Cookies(), headers: { $1(.success((headers, 0))) }, refreshesHeaders: false)
                    return HTTPMessageConnection(rules, in: environment, id: id, events: events)
                }
            },
            perform: { work, id, driver in Self.perform(work, id, driver, coder, on: network) })
        self.client.waiterCount = { $0.waiterCount - $0.writingCallers.count }
        self.client.lateResult = Self.lateResult
        self.client.onDelivery = { [unowned self] event, _ in self.check(event) }
    }

    /// The sets of transports of which one can carry the format.
    private static func transports(_ format: HubFormat) -> [HubTransportKinds] {
        [.all, .all, .webSockets, .longPolling] + (format == .json ? [.serverSentEvents] : [])
    }

    /// Performs the run.
    ///
    /// - Returns: What has happened.
    func run() -> [String: Int] {
        self.observe()
        self.client.wait("start", { $0.start($1, now: $2, &$3) })
        let hasFaults = { @Sendable [network = self.network] in network.hasFaults }
        self.simulation.every(0...3_500, first: 0...5_000, while: hasFaults) { [self] in self.callRandomMethod() }
        self.simulation.every(1_000...20_000, first: 0...1_000, while: { [self] in !self.hasRecovered }) { [self] in self.model.tick() }
        self.simulation.every(5_000...60_000, first: 5_000...60_000, while: hasFaults) { [self] in self.disturb() }
        // The attempts and connections that the faults have disturbed end within 20 seconds.
        RecoveryRun(faults: .seconds(60), settling: .seconds(20), recovery: .seconds(40), ending: .seconds(30)).perform(
            on: self.network, [self.client],
            settled: {
                // A policy may give up for the last time after the faults have ended.
                for delay in [0, 8_000] as [Int64] { self.simulation.schedule(in: delay...delay) { [self] in self.startIfStopped() } }
            },
            recovered: {
                self.checkRecovery()
                self.network.standStill { self.connects }
            }, stop: { self.stop() })
        if self.simulation.violation == nil {
            let remaining = self.model.hub.connectionIDs
            self.simulation.require(remaining.isEmpty, "the server still has the connections \(remaining)")
        }
        let counts = [
            "connects": self.connects, "resumes": self.resumes, "results": self.results, "items": self.items, "notes": self.model.notes,
            "uploaded": self.model.uploaded, "client results": self.model.clientResults, "closings": self.closings,
        ]
        return self.network.counts.merging(self.client.totals.counts) { $1 }.merging(counts) { $1 }
    }

    private func checkRecovery() {
        self.hasRecovered = true
        self.simulation.require(self.isConnected, "not connected after the recovery")
        let (number, results) = (self.nextNumber(), self.results)
        self.invoke("Echo", number, isLimited: false)
        self.simulation.run(for: .seconds(12))
        self.simulation.require(self.results == results + 1, "a call had no result after the recovery")
        let pending = self.client.read { $0.callCount }
        self.simulation.require(pending == 0, "\(pending) calls and streams haven't ended after the recovery")
    }

    // MARK: The server

    private func disturb() {
        if self.simulation.chance(30) { self.model.restart() } else { self.model.closeRandomConnection() }
    }

    // MARK: The user

    private func nextNumber() -> Int {
        self.lastNumber += 1000
        return self.lastNumber
    }

    private func stop() {
        let isStopped = if case .stopped = self.client.read({ $0.state }) { true } else { false }
        self.client.stop()
        let (calls, waiters) = self.client.read { ($0.callCount, $0.waiterCount) }
        self.simulation.require(calls == 0 && waiters == 0, "\(calls) calls and \(waiters) callers remain after stopping")
        let state = self.client.read { $0.state }
        self.simulation.require(isStopped || state == .stopped(nil), "after stopping, the state is \(state)")
    }

    private func startIfStopped() {
        guard case .stopped = self.client.read({ $0.state }) else { return }
        self.client.wait("start", { $0.start($1, now: $2, &$3) })
    }

    private func callRandomMethod() {
        let number = self.nextNumber()
        switch self.simulation.random(in: 0...29) {
        case 0: self.stop()
        case 1...4: self.startIfStopped()
        case 5 where self.reconnectsNow: self.client.step("reconnect now") { $0.checkConnection(now: $1, &$2) }
        case 6:
            guard let wait = self.client.pendingWaits.first else { return }
            self.client.cancelWait(wait)
        case 7...9: self.invoke("Echo", number)
        case 10...12: self.invoke("Slow", number)
        case 13: self.invoke("Fail", number)
        case 14: self.invoke("Missing", number)
        case 15, 16: self.invoke("Ask", number)
        case 17...19: self.sendNotes()
        case 20...24: self.stream(self.simulation.choose(["Count", "SlowCount", "FailingCount"]), number)
        default: self.upload(number)
        }
    }

    private func arguments<each Argument: Encodable>(_ values: repeat each Argument) -> HubPayload {
        // Numbers can be encoded.
        try! self.coder.arguments(repeat each values)
    }

    private func invoke(_ target: String, _ number: Int, isLimited: Bool = true) {
        let limit: Duration? = isLimited && self.simulation.chance(50) ? .milliseconds(self.simulation.random(in: 0...30_000)) : nil
        let arguments = self.arguments(number)
        self.client.wait("\(target) \(number)", limit: limit) { session, waiter, now, effects in
            session.invoke(target, arguments, [], waiter, now: now, &effects)
        } _: { [self] result in
            self.check(result, of: target, expected: number)
        }
    }

    private func check(_ result: Result<HubSession.WaiterResult, HubError>, of target: String, expected: Int) {
        switch result {
        case .success(.result(let payload?)):
            self.results += 1
            let value = try? self.coder.decode(Int.self, from: payload)
            self.simulation.require(
                value == expected && target != "Fail" && target != "Missing",
                "\(target) returned \(String(describing: value)), not \(expected)")
        case .success(let other): self.simulation.fail("\(target) returned \(other)")
        case .failure(let error) where error.code == .invocationFailed:
            let isExpected =
                switch target {
                case "Fail": error.serverMessage?.contains("failed \(expected)") == true
                case "Missing": true
                // The connection of the client's method may end, or its client may be stopped, before it answers.
                case "Ask", "Sum", "Slow": true
                default: false
                }
            self.simulation.require(isExpected, "\(target) \(expected) failed: \(error)")
        case .failure(let error):
            let codes: [HubError.Code] = [
                .notConnected, .stopped, .connectionLost, .closedByServer, .serverTimeout, .timedOut, .cancelled, .bufferOverflow,
            ]
            self.simulation.require(codes.contains(error.code), "\(target) \(expected) failed: \(error.code) \(error)")
        }
    }

    private func sendNotes() {
        for _ in 0...self.simulation.random(in: 0...6) {
            self.client.step("note") { session, now, effects in
                guard let connection = session.resumable?.first ?? session.connection.connected else { return }
                let number = self.notes[connection, default: 0] + 1
                if (try? session.send("Note", self.arguments(number), [], now: now, &effects)) != nil { self.notes[connection] = number }
            }
        }
    }

    private func stream(_ target: String, _ first: Int) {
        let count = Int(self.simulation.random(in: 0...8))
        let tracker = StreamTracker(next: first, end: first + count)
        let policies: [BufferPolicy] = [.standard, .pauseReading(1), .pauseReading(3)]
        var id: UInt64 = 0
        self.client.consume(simulation.choose(policies), .client, pause: self.simulation.chance(50) ? 0...5_000 : nil) {
            (events: ArraySlice<HubEvent>, output: inout [HubEvent]) in
            output.append(contentsOf: events)
        } register: { session, consumer, effects in
            id = session.addStream(target, consumer, &effects)
        } body: { [self] event in
            self.check(event, of: target, tracker)
        }
        let (stream, arguments) = (id, self.arguments(first, count))
        self.client.step("open stream \(stream)") { session, now, effects in
            _ = session.openStream(stream, target, arguments, [], now: now, &effects)
        }
        guard self.simulation.chance(30) else { return }
        // The iterator is released.
        self.simulation.schedule(in: 0...10_000) { [self] in
            tracker.isCancelled = true
            self.client.step("cancel stream \(stream)") { $0.cancelCall(stream, now: $1, &$2) }
        }
    }

    private func check(_ event: HubEvent?, of target: String, _ tracker: StreamTracker) {
        switch event {
        case .item(let payload)?:
            self.items += 1
            let value = try? self.coder.decode(Int.self, from: payload)
            self.simulation.require(!tracker.hasEnded, "an item after the end of \(target)")
            self.simulation.require(
                value == tracker.next && tracker.next < tracker.end,
                "an item of \(target) is \(String(describing: value)) instead of \(tracker.next) of \(tracker.end)")
            tracker.next += 1
        case .streamEnd(let error)?:
            self.simulation.require(!tracker.hasEnded, "\(target) ended twice")
            tracker.hasEnded = true
            switch error?.code {
            case nil, .invocationFailed?:
                self.simulation.require(tracker.next == tracker.end, "\(target) ended at \(tracker.next) of \(tracker.end)")
                self.simulation.require((error == nil) == (target != "FailingCount"), "\(target) ended with \(String(describing: error))")
            default: break
            }
        case .update?, .invocation?, .frame?: self.simulation.fail("a stream received another event")
        case nil:
            self.simulation.require(
                tracker.hasEnded || tracker.isCancelled, "the sequence of \(target) finished without an end of the stream")
        }
    }

    private func upload(_ first: Int) {
        let count = Int(self.simulation.random(in: 0...10))
        let simulation = self.simulation
        let (isSlow, fails) = (simulation.chance(40), simulation.chance(10))
        let upload = HubUpload { coder, send in
            for number in 0..<count {
                if isSlow { await simulation.sleep(in: 0...2_000) }
                try await send(try coder.payload(first + number))
            }
            if fails { throw HubError(.handlerFailed, "no more") }
        }
        let limit: Duration? = simulation.chance(50) ? .milliseconds(simulation.random(in: 0...30_000)) : nil
        let arguments = self.arguments(first)
        self.client.wait("Sum \(first)", limit: limit) { session, waiter, now, effects in
            session.invoke("Sum", arguments, [upload], waiter, now: now, &effects)
        } _: { [self] result in
            self.check(result, of: "Sum", expected: fails ? -1 : count)
        }
    }

    // MARK: What the application observes

    private func observe() {
        self.client.consume(.standard, .client) { events, output in
            for case .update(let update, _) in events { output.append(update) }
        } register: {
            $0.observeUpdates($1, &$2)
        } body: { [simulation] (update: HubUpdate?) in
            if let update { simulation.note("  update: \(update)") }
        }
        // The handlers, which may be slow.
        self.client.consume(.pauseReading(4), .client, pause: self.simulation.chance(30) ? 0...3_000 : nil) { events, output in
            for case .invocation(let callback) in events { output.append(callback) }
        } register: {
            $0.observeInvocations($1, &$2)
        } body: { [self] (callback: HubCallback?) in
            if let callback { self.handle(callback) }
        }
    }

    private func handle(_ callback: HubCallback) {
        let number = (try? self.coder.decodeArguments(callback.invocation.arguments).decode(Int.self)) ?? -1
        guard callback.invocation.target == "Answer" else {
            self.simulation.require(
                callback.invocation.target == "Tick" && number > self.lastTick, "the tick \(number) arrived after \(self.lastTick)")
            self.lastTick = number
            return
        }
        guard let result = try? self.coder.payload(number) else { return }
        self.client.step("answer \(number)") { $0.respond(to: callback, .result(result), now: $1, &$2) }
    }

    /// The expected state of a stream.
    ///
    /// `@unchecked Sendable`: used only on the thread of the simulation.
    private final class StreamTracker: @unchecked Sendable {
        var next: Int
        let end: Int
        var hasEnded = false, isCancelled = false

        init(next: Int, end: Int) {
            (self.next, self.end) = (next, end)
        }
    }
}

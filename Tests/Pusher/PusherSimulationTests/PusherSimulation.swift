@testable import PusherChannels
import PusherServer
import PusherWire
import RealtimeCore
import SimulationSupport

/// The Pusher client and server on an unreliable network, with random calls by the user.
///
/// After 20 minutes of faults, the network is reliable, and client and server must recover within 400 seconds. This file contains the run
/// and the user's calls; the invariants of the protocol are in an extension.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class PusherSimulation: @unchecked Sendable {
    static let names = ["public", "private-a", "presence-b"]

    let simulation: Simulation
    let network: VirtualNetwork
    let server: PusherServerModel
    let client: SimulatedClient<PusherSession>
    var connects = 0
    /// The sequences of events that haven't ended, with their channels.
    var consumers: [ConsumerID: String] = [:]
    var connectedSince: Instant?
    var immediateInARow = 0
    var published = 0
    var gapCount = 0
    /// Whether the client uses version 2 of the protocol: it recovers missed events, requests deltas, or has filters.
    let usesVersion2: Bool
    private let hasFilters: Bool
    /// The number of events that the client couldn't restore from a delta.
    var deltaFailures = 0
    /// The number of requests for missed events.
    var resumeCount = 0
    /// The events of each channel that were delivered.
    var orders: [String: EventOrder] = [:]
    var lastEvent: [String: Instant] = [:]
    /// The requests for missed events of the current connection that no gap has followed.
    var resumes: Set<String> = []
    /// The number of requests that were followed by the next event without a gap.
    var recoveryCount = 0
    /// The ID of each channel's first subscription, which its handles keep.
    private var handles: [String: ChannelID] = [:]

    init(_ simulation: Simulation) {
        self.simulation = simulation
        let network = VirtualNetwork(simulation, .unreliable)
        network.conditions.closes = 8
        network.conditions.closeCodes = [4200, 4100, 4201, 1001, 4001].map { CloseCode(rawValue: $0) }
        self.network = network
        self.server = PusherServerModel(on: network)
        var configuration = PusherConfiguration(key: "key", host: "simulated", port: 80, useTLS: false)
        configuration.authorizer = .endpoint(
            PusherAuthorizationEndpoint(PusherServerModel.authorizationEndpoint, timeout: .seconds(60)))
        if simulation.chance(50) {
            let excess: PusherClientEventLimit.Excess = simulation.chance(50) ? .wait : .fail
            configuration.clientEventLimit = PusherClientEventLimit(perSecond: 1, excess: excess)
        }
        if simulation.chance(50) { configuration.recovery = .sockudo }
        if simulation.chance(50) { configuration.deltaCompression = .fossil }
        self.hasFilters = simulation.chance(50)
        configuration.allowsFilters = self.hasFilters
        self.usesVersion2 = configuration.usesVersion2
        var rules = ClientRules()
        // The connection to the old server may still be closing.
        rules.connectionLimit = 2
        let http = RedirectingHTTP(network.http, time: simulation, cookies: RedirectingHTTP.Cookies())
        self.client = SimulatedClient(PusherSession(configuration, seed: simulation.seed), on: network, rules: rules) { work, id, driver in
            guard case .channel(let request, let authorizer, _) = work, case .endpoint(let endpoint) = authorizer.kind else { return nil }
            return simulation.work {
                do throws(PusherError) {
                    driver.workFinished(id, .channel(.success(try await endpoint.authorize(request, over: http))))
                } catch {
                    driver.workFinished(id, .channel(.failure(error)))
                }
            }
        }
        self.client.waiterCount = { $0.waiterCount }
        self.client.lateResult = {
            guard case .channel(let request, _, _) = $0 else { return nil }
            return .channel(.success(PusherServerModel.authorization(for: request)))
        }
        self.client.onCommand = { [unowned self] in self.check($0) }
        self.client.onDelivery = { [unowned self] in self.check($0, for: $1) }
        simulation.atRelease { [self] in self.client.onCommand = { _ in } }
    }

    /// Performs the run.
    ///
    /// - Returns: What has happened.
    func run() -> [String: Int] {
        self.consume(.states) { if case .state(let state) = $0 { state.name } else { nil } }
        self.consume(.errors) { if case .error(let error) = $0 { error.message } else { nil } }
        let hasFaults = { @Sendable [network = self.network] in network.hasFaults }
        for _ in 0..<3 {
            self.simulation.every(0...60_000, first: 0...5_000, while: hasFaults) { [self] in self.callRandomMethod() }
        }
        self.simulation.every(1_000...100_000, first: 0...1_000) { [self] in self.publish() }
        self.simulation.every(60_000...900_000, first: 60_000...900_000, while: hasFaults) { [self] in self.restart() }
        // A rejection that was on the way when the faults ended arrives within 40 seconds.
        RecoveryRun(faults: .seconds(1200), settling: .seconds(40), recovery: .seconds(400), ending: .seconds(60)).perform(
            on: self.network, [self.client],
            // Also on a reliable network: stopping must end even if the peer does not respond.
            faultsEnd: { self.network.conditions.unansweredCloses = 50 },
            settled: {
                self.user { self.client.start() }
                for name in Self.names { self.subscribe(name) }
            },
            recovered: {
                self.checkRecovery()
                self.network.standStill { self.connects }
            })
        let counts = [
            "connects": self.connects, "gaps": self.gapCount, "resumes": self.resumeCount, "delta failures": self.deltaFailures,
            "recoveries": self.recoveryCount, "authorizations": self.client.totals.works,
        ]
        return self.network.counts.merging(self.client.totals.counts) { $1 }.merging(counts) { $1 }
    }

    private func checkRecovery() {
        let (isConnected, channels) = self.client.read { ($0.connection.connected != nil, $0.channels) }
        self.simulation.require(isConnected, "not connected after the recovery")
        for name in Self.names {
            let state = channels[name]?.subscription.state
            self.simulation.require(state == .subscribed, "\(name) is not subscribed after the recovery: \(String(describing: state))")
            let hasEvents = self.lastEvent[name].map { $0 > self.simulation.now.advanced(by: .seconds(-120)) } ?? false
            self.simulation.require(hasEvents, "\(name) is subscribed, but receives no events")
        }
        let members = channels["presence-b"]?.members.map(\.id) ?? []
        self.simulation.require(members == ["me"], "the members are \(members)")
    }

    // MARK: The server

    private func publish() {
        // Several events fill the buffers of slow consumers.
        let count = self.simulation.chance(20) ? 4 : 1
        self.simulation.step(.arrival, "server: publish \(count)") {
            for _ in 0..<count {
                self.published += 1
                for name in Self.names { self.server.server.publish("tick", to: name, data: "\(self.published)") }
            }
        }
    }

    private func restart() {
        self.simulation.step(.arrival, "server: restart") {
            let server = self.server.server
            self.simulation.task { await server.stop() }
        }
    }

    // MARK: The user

    /// Makes a call of the user. Further immediate reconnects are then allowed, unless a retry is pending.
    func user(_ call: () -> Void) {
        if !self.client.read({ if case .backingOff = $0.connection.state { true } else { false } }) { self.immediateInARow = 0 }
        call()
    }

    private func callRandomMethod() {
        let name = self.simulation.choose(Self.names)
        switch self.simulation.random(in: 0...16) {
        case 0: self.user { self.client.stop() }
        case 1, 2, 3: self.user { self.client.start() }
        case 4: self.user { self.client.step("unsubscribe \(name)") { $0.unsubscribe(name, now: $1, &$2) } }
        case 5, 6, 7: self.subscribe(name)
        case 8: self.wait("connected") { $0.awaitConnected($1, &$3) }
        case 9: self.wait("subscribed to \(name)") { $0.awaitSubscribed($1, channel: name, &$3) }
        case 10: self.wait("ended") { $0.awaitEnd($1, &$3) }
        case 11:
            guard let wait = self.client.pendingWaits.first else { return }
            self.user { self.client.cancelWait(wait) }
        case 12: self.user { self.client.step("check the connection") { $0.checkConnection(now: $1, &$2) } }
        case 13: self.switchServer()
        case 14: self.changeFilter(of: name)
        case 15: self.forgetBases(of: name)
        default: self.trigger(on: name)
        }
    }

    /// Switches to the other name of the server, now or with the next attempt.
    private func switchServer() {
        let isImmediate = self.simulation.chance(70)
        self.user {
            // Also if a retry is pending: failures of the old server don't count.
            if isImmediate { self.immediateInARow = 0 }
            self.client.step(isImmediate ? "switch the server" : "change the settings") { session, now, effects in
                let old = session.latestSettings
                var new = old.configuration
                new.host = new.host == "simulated" ? "other" : "simulated"
                _ = session.setSettings(PusherSettings(new), replacing: old, now: now, &effects)
                if isImmediate { session.switchServer(now: now, &effects) }
            }
        }
    }

    /// Changes the filter of a channel to another one that all events satisfy.
    private func changeFilter(of name: String) {
        guard self.hasFilters, !ChannelName.kind(of: name).isPresence, self.handles[name] != nil else { return }
        let filter: PusherFilter? = self.simulation.choose([nil, .doesNotExist("x"), .not(.exists("x"))])
        self.user {
            self.client.step("change the filter of \(name)") { session, now, effects in
                guard session.channels[name] != nil else { return }
                _ = session.subscribe(name, filter: filter, now: now, &effects)
            }
        }
    }

    /// Makes the next deltas of a channel fail.
    private func forgetBases(of name: String) {
        self.client.step("forget the bases of \(name)") { session, _, _ in
            guard let id = session.channels.id(named: name) else { return }
            session.deltas.ended(id)
        }
    }

    private func wait(
        _ what: String,
        _ register: @escaping @Sendable (inout PusherSession, WaiterID, Instant, inout Effects<PusherSession>) -> Void
    ) {
        let limit: Duration? = self.simulation.chance(50) ? .milliseconds(self.simulation.random(in: 0...120_000)) : nil
        self.user { self.client.wait(what, limit: limit, register) }
    }

    private func trigger(on name: String) {
        let handle = self.handles[name] ?? .none
        self.user {
            self.client.step("trigger on \(name)") { session, now, effects in
                // Throws if the channel is not subscribed or too many messages are queued, as it should.
                let message = PusherFrames.clientEvent("client-a", channel: name, data: Array("1".utf8))
                try? session.trigger(message, channel: name, id: handle, now: now, &effects)
            }
        }
    }

    private func subscribe(_ name: String) {
        var id = ChannelID.none
        self.user { self.client.step("subscribe \(name)") { id = $0.subscribe(name, now: $1, &$2) } }
        if self.handles[name] == nil { self.handles[name] = id }
        guard !self.consumers.values.contains(name) else { return }
        self.followGaps(of: name)
        let simulation = self.simulation
        let limit = Int(simulation.random(in: 1...3))
        // A slow consumer drops events, or pauses the connection.
        let policies: [BufferPolicy] = [.standard, .dropOldest(limit), .dropNewest(limit), .pauseReading(limit)]
        let last = Tracker()
        self.client.consume(simulation.choose(policies), pause: simulation.chance(30) ? 0...20_000 : nil) { updates, output in
            for update in updates { if case .event(let event) = update { output.append(event) } }
        } register: { session, id, effects in
            self.consumers[id] = name
            self.orders[name]?.consumerBegan()
            session.addConsumer(id, to: .events(channel: name, name: nil), &effects)
        } body: { event in
            guard let event else { return }
            simulation.require(event.channel == name, "a consumer of \(name) received an event of \(event.channel ?? "no channel")")
            guard event.name == "tick" else { return }
            let number = event.data.flatMap(Int.init) ?? 0
            simulation.require(number > last.number, "a consumer of \(name) received \(number) after \(last.number)")
            last.number = number
        }
    }

    /// Follows the gaps of a channel.
    private func followGaps(of name: String) {
        self.client.consume(.standard) { updates, output in
            for update in updates { if case .gap(let gap) = update { output.append(gap) } }
        } register: { session, id, effects in
            session.addConsumer(id, to: .gaps(channel: name), &effects)
        } body: { _ in
        }
    }

    /// Consumes updates of the client for the whole run.
    private func consume(_ topic: PusherSession.Topic, _ convert: @escaping @Sendable (PusherUpdate) -> String?) {
        let simulation = self.simulation
        self.client.consume(.standard, .client) { updates, output in
            for update in updates { if let text = convert(update) { output.append(text) } }
        } register: {
            $0.addConsumer($1, to: topic, &$2)
        } body: { text in
            if let text { simulation.note("  \(topic): \(text)") }
        }
    }

    /// The last event that a consumer received.
    ///
    /// `@unchecked Sendable`: used only on the thread of the simulation.
    private final class Tracker: @unchecked Sendable {
        var number = 0
    }
}

import Dispatch
import Foundation
import PrimusSwift
import PrimusTesting
import RealtimeTesting
import TestSupport
import Testing

/// Checks the orders that the articles on the events of a client of Primus list, with the embedded server.
@Suite(.timeLimit(.minutes(10))) struct PrimusOrderTests {
    /// The scenarios, as the articles name them.
    enum Scenario: String, CaseIterable, CustomTestStringConvertible {
        case open = "The client opens"
        case end = "The app ends the client"
        case serverEnd = "The server ends the connection"
        case loss = "The connection is lost, and the next attempt succeeds"
        case silence = "The server is silent, and the next attempt succeeds"
        case refusals = "The server refuses the first attempt and the only retry"
        case unauthorized = "The server refuses with the status 401"
        case invalid = "A message can't be decoded"

        var testDescription: String { self.rawValue }
    }

    /// The scenarios of the API of Primus-Objc alone. The golden traces are about each kind of connection.
    enum PrimusScenario: String, CaseIterable, CustomTestStringConvertible {
        case timeouts = "The connection is lost, and the only retry exceeds its time limit"
        case loss = "The connection is lost, without the strategy `disconnect`"
        case refusal = "The server refuses, without the strategy `timeout`"
        case timeout = "The first attempt exceeds its time limit, without the strategy `timeout`"
        case scheduled = "The app ends the client while an attempt is scheduled"
        case early = "The app ends a client that would have opened by itself"
        case destroy = "The app destroys the client"

        var testDescription: String { self.rawValue }

        var strategy: [PrimusReconnectionStrategy] {
            switch self {
            case .loss: [.online, .timeout]
            case .refusal, .timeout: [.disconnect, .online]
            case .timeouts, .scheduled, .early, .destroy: []
            }
        }
    }

    /// The events of a scenario in an article.
    private static func events(of scenario: String, in article: String) throws -> [String] {
        let (path, start) = ("Sources/Primus/\(article).md", "| \(scenario) |")
        let row = try #require(try Snippets.lines(ofFile: path).first { $0.hasPrefix(start) }).dropFirst(start.count)
        return row.split(separator: "`").enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
    }

    private static func name(of update: PrimusUpdate) -> String {
        let name = "\(update)".prefix { $0 != "(" }
        guard case .state(let state) = update else { return String(name) }
        return "state \("\(state)".prefix { $0 != "(" })"
    }

    @Test(arguments: Scenario.allCases.filter { $0 != .invalid })
    func `the updates of a connection have the order of the article`(scenario: Scenario) async throws {
        let memory = try await InMemoryPrimus()
        let client = memory.client { $0.retry = .backoff(PrimusBackoff(retries: 1)) }
        let recorder = EventRecorder<String>()
        let observation = client.onUpdate(on: .tasks) { recorder.record(Self.name(of: $0)) }
        try await self.check(
            scenario, in: "PrimusClient/Documentation.docc/PrimusStatesAndUpdates", memory, client, recorder, open: client.open,
            end: client.end)
        withExtendedLifetime(observation) {}
    }

    @Test(arguments: Scenario.allCases)
    func `the events of Primus have the order of the article`(scenario: Scenario) async throws {
        let memory = try await InMemoryPrimus()
        let options = PrimusConnectOptions()
        (options.manual, options.transports, options.log) = (true, memory.network.transports(), .none)
        options.reconnect.retries = 1
        let primus = Primus(url: try #require(URL(string: memory.url)), options: options)
        let recorder = Self.record(primus)
        try await self.check(
            scenario, in: "PrimusSwift/Documentation.docc/PrimusEvents", memory, primus.client, recorder, open: primus.open,
            end: { primus.end() })
    }

    /// Records the events in the table of the article.
    private static func record(_ primus: Primus) -> EventRecorder<String> {
        let (recorder, queue) = (EventRecorder<String>(), DispatchQueue(label: "listeners"))
        for event in [
            "initialised", "open", "data", "error", "close", "end", "destroy", "reconnecting", "reconnect scheduled", "reconnect",
            "reconnected", "reconnect timeout", "reconnect failed", "timeout", "online", "offline", "readyStateChange",
        ] {
            if event == "readyStateChange" {
                primus.on(event, queue: queue) { (state: String) in recorder.record("readyStateChange \(state)") }
            } else {
                primus.on(event, queue: queue) { recorder.record(event) }
            }
        }
        return recorder
    }

    @Test(arguments: PrimusScenario.allCases)
    func `the other events of Primus have the order of the article`(scenario: PrimusScenario) async throws {
        let article = "PrimusSwift/Documentation.docc/PrimusEvents"
        let memory = try await InMemoryPrimus()
        let url = try #require(URL(string: memory.url))
        let options = PrimusConnectOptions()
        (options.manual, options.transports, options.log) = (scenario != .early, memory.network.transports(), .none)
        options.reconnect.retries = 1
        options.strategy = scenario.strategy
        // On the main actor, so that a client that opens by itself can't open in between.
        let (primus, recorder) = await MainActor.run {
            let primus = Primus(url: url, options: options)
            let recorder = Self.record(primus)
            if scenario == .early { primus.end() }
            return (primus, recorder)
        }
        switch scenario {
        case .early: break
        case .refusal:
            memory.server.faults.refusalStatus = 503
            primus.open()
        case .timeout:
            memory.network.condition = .silent
            primus.open()
        case .timeouts, .loss, .scheduled, .destroy:
            primus.open()
            try await self.expect(Scenario.open.rawValue, in: article, memory, primus.client, recorder)
            if scenario == .timeouts { memory.network.condition = .silent }
            if scenario == .scheduled { memory.network.condition = .down }
            if scenario != .destroy { memory.network.cut() }
            if scenario == .scheduled {
                try await eventually { recorder.all.last == "reconnect scheduled" }
                _ = recorder.take()
                primus.end()
            }
            if scenario == .destroy { primus.destroy() }
        }
        let expected = try Self.events(of: scenario.rawValue, in: article)
        try await eventually {
            if scenario == .timeout || scenario == .timeouts { memory.clock.advance(by: .milliseconds(250)) }
            return recorder.all.count >= expected.count
        }
        #expect(recorder.take() == expected)
    }

    /// Runs a scenario, and compares what happens with the article.
    private func check(
        _ scenario: Scenario, in article: String, _ memory: InMemoryPrimus, _ client: PrimusConnection, _ recorder: EventRecorder<String>,
        open: @Sendable () -> Void, end: @Sendable () -> Void
    ) async throws {
        if ![.open, .refusals, .unauthorized].contains(scenario) {
            open()
            try await self.expect(Scenario.open.rawValue, in: article, memory, client, recorder)
        }
        switch scenario {
        case .open: open()
        case .end: end()
        case .serverEnd: memory.server.endAll()
        case .loss: memory.network.cut()
        case .silence:
            memory.server.faults.isSilent = true
            while client.isConnected { memory.clock.advance(by: .seconds(1)) }
            memory.server.faults.isSilent = false
        case .refusals:
            memory.server.faults.refusalStatus = 503
            open()
        case .unauthorized:
            memory.server.faults.refusalStatus = 401
            open()
        case .invalid: memory.server.sendRaw(.text("{"), to: try #require(memory.server.sparks.first).id)
        }
        try await self.expect(scenario.rawValue, in: article, memory, client, recorder)
    }

    private func expect(
        _ scenario: String, in article: String, _ memory: InMemoryPrimus, _ client: PrimusConnection, _ recorder: EventRecorder<String>
    ) async throws {
        let expected = try Self.events(of: scenario, in: article)
        try await eventually {
            if client.reconnectDelay != nil { memory.clock.advance(by: .milliseconds(250)) }
            return recorder.all.count >= expected.count
        }
        #expect(recorder.take() == expected)
    }
}

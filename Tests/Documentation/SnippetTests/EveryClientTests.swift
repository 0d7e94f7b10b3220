import PrimusClient
import PrimusTesting
import PusherChannels
import PusherTesting
import RealtimeCore
import RealtimeTesting
import SignalRHubs
import SignalRTesting
import TestSupport
import Testing

/// The members of the article "What every client has", as the compiler checks them.
private protocol EveryClient: AnyObject, Sendable {
    associatedtype Configuration: Sendable
    associatedtype State: Hashable & Sendable
    associatedtype ClientUpdate: Sendable
    associatedtype Failure: EveryClientError
    associatedtype Identifier

    init(_ configuration: Configuration)
    var configuration: Configuration { get }
    func update(_ change: (inout Configuration) -> Void) throws(Failure)

    func run() async throws(Failure)
    func connected(within limit: Duration) async throws(Failure) -> Identifier
    func checkConnection()

    var state: State { get }
    var isConnected: Bool { get }
    var states: EventSequence<State> { get }
    var stateChanges: EventSequence<StateChange<State>> { get }
    var connectingIn: EventSequence<Duration> { get }
    var reconnectDelay: Duration? { get }
    var errors: EventSequence<Failure> { get }
    func frames(buffer: BufferPolicy) -> EventSequence<TracedFrame>
    var counters: Counters { get }

    // Methods with arguments of one protocol, without these.
    func allUpdates() -> EventSequence<ClientUpdate>
    func observe(on executor: CallbackExecutor, _ callback: @escaping @Sendable (ClientUpdate) -> Void) -> CallbackObservation
    func end()
    /// Exchanges messages, if connecting doesn't do so already.
    func exchange() async throws
}

extension EveryClient {
    func exchange() async throws {}
}

/// The shape of the errors of all clients.
private protocol EveryClientError: Error, Hashable, CustomStringConvertible {
    associatedtype Code: Hashable, CustomStringConvertible
    var code: Code { get }
    var message: String { get }
    var status: Int? { get }
    var cause: (any Error)? { get }
    static func error(_ message: String, cause: (any Error)?) -> Self
}

extension PusherClient: EveryClient {
    fileprivate func allUpdates() -> EventSequence<PusherUpdate> { self.updates() }
    fileprivate func observe(on executor: CallbackExecutor, _ callback: @escaping @Sendable (PusherUpdate) -> Void) -> CallbackObservation {
        self.onUpdate(on: executor, callback)
    }
    fileprivate func end() { self.disconnect() }
}

extension HubClient: EveryClient {
    fileprivate func allUpdates() -> EventSequence<HubUpdate> { self.updates() }
    fileprivate func observe(on executor: CallbackExecutor, _ callback: @escaping @Sendable (HubUpdate) -> Void) -> CallbackObservation {
        self.onUpdate(on: executor, callback)
    }
    fileprivate func end() { self.stop() }
}

extension PrimusConnection: EveryClient {
    fileprivate func allUpdates() -> EventSequence<PrimusUpdate> { self.updates() }
    fileprivate func observe(on executor: CallbackExecutor, _ callback: @escaping @Sendable (PrimusUpdate) -> Void) -> CallbackObservation {
        self.onUpdate(on: executor, callback)
    }
    fileprivate func exchange() async throws { _ = try await self.id() }
}

extension PusherError: EveryClientError {
    fileprivate static func error(_ message: String, cause: (any Error)?) -> PusherError { PusherError(.timedOut, message, cause: cause) }
}

extension HubError: EveryClientError {
    fileprivate static func error(_ message: String, cause: (any Error)?) -> HubError { HubError(.timedOut, message, cause: cause) }
}

extension PrimusError: EveryClientError {
    fileprivate static func error(_ message: String, cause: (any Error)?) -> PrimusError { PrimusError(.timedOut, message, cause: cause) }
}

/// Compares the clients with the article "What every client has".
@Suite(.timeLimit(.minutes(10))) struct EveryClientTests {
    private struct Failed: Error {}

    /// A client of a server in memory, and what keeps them alive.
    private struct Fixture<Client: EveryClient> {
        let configuration: Client.Configuration
        let clock: ManualClock
        let network: InMemoryNetwork
        /// Makes a value of the configuration invalid.
        let invalidate: (inout Client.Configuration) -> Void
        /// Changes a value of the configuration, and returns it.
        let changeTimeout: (inout Client.Configuration) -> Void
        let timeout: (Client.Configuration) -> Duration
        let server: any Sendable
    }

    private static func pusher() async throws -> Fixture<PusherClient> {
        let pusher = try await InMemoryPusher()
        return Fixture(
            configuration: pusher.configuration(), clock: pusher.clock, network: pusher.network, invalidate: { $0.connectTimeout = .zero },
            changeTimeout: { $0.connectTimeout = .seconds(7) }, timeout: { $0.connectTimeout }, server: pusher.server)
    }

    private static func hub() async throws -> Fixture<HubClient> {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/hub")
        var configuration = signalR.configuration("/hub")
        configuration.retry = .delays([.seconds(1), .seconds(1)])
        configuration.allowedTransports = .webSockets
        configuration.skipsNegotiation = true
        return Fixture(
            configuration: configuration, clock: signalR.clock, network: signalR.network, invalidate: { $0.connectTimeout = .zero },
            changeTimeout: { $0.connectTimeout = .seconds(7) }, timeout: { $0.connectTimeout }, server: signalR.server)
    }

    private static func primus() async throws -> Fixture<PrimusConnection> {
        let primus = try await InMemoryPrimus()
        return Fixture(
            configuration: primus.configuration(), clock: primus.clock, network: primus.network, invalidate: { $0.connectTimeout = .zero },
            changeTimeout: { $0.connectTimeout = .seconds(7) }, timeout: { $0.connectTimeout }, server: primus.server)
    }

    @Test func `the members that the article lists are public`() throws {
        let page = try Snippets.lines(ofFile: "Sources/Core/RealtimeCore/Documentation.docc/WhatEveryClientHas.md")
        let rows = page.filter { $0.hasPrefix("| ") && !$0.hasPrefix("| |") }.map { row in
            row.split(separator: "|", omittingEmptySubsequences: false).dropFirst().map { cell in
                cell.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map {
                    "\($0.element)"
                }
            }
        }
        let folders = ["Sources/Pusher/PusherChannels", "Sources/SignalR/SignalRHubs", "Sources/Primus/PrimusClient"]
        var count = 0
        for (index, folder) in folders.enumerated() {
            let sources = try Snippets.paths(below: folder, ".swift").flatMap { try Snippets.lines(ofFile: $0) }
            let declarations = sources.filter { $0.hasPrefix("public ") || $0.hasPrefix("    public ") }
            for name in rows.filter({ $0.count > 2 && !$0[1].isEmpty && !$0[2].isEmpty }).flatMap({ $0[index + 1] }) {
                let base = String(name.prefix { $0 != "(" })
                let declaration = try Regex("\\b(var|let|func|struct|enum|class|typealias) \(base)\\b")
                let isDeclared = declarations.contains { $0.firstMatch(of: declaration) != nil }
                #expect(isDeclared, "\(folder) doesn't declare \(name)")
                count += 1
            }
        }
        #expect(count > 75)
    }

    @Test func `an invalid configuration is an error of the start, and of a change`() async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            var configuration = fixture.configuration
            fixture.invalidate(&configuration)
            let invalid = Client(configuration)
            let error = await #expect(throws: Client.Failure.self) { try await invalid.run() }
            #expect(error?.code.description == "invalidConfiguration")
            #expect(error?.message == "Invalid configuration: The connectTimeout must be greater than zero, but is 0.0 seconds.")
            #expect(invalid.counters.messagesSent == 0)

            let client = Client(fixture.configuration)
            let refused = #expect(throws: Client.Failure.self) { try client.update(fixture.invalidate) }
            #expect(refused == error)
            #expect(fixture.timeout(client.configuration) == fixture.timeout(fixture.configuration))
            try client.update(fixture.changeTimeout)
            #expect(fixture.timeout(client.configuration) == .seconds(7))
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test func `run returns when the client ends, and ends it with its task`() async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            let client = Client(fixture.configuration)
            let initial = client.state
            for isCancelled in [false, true] {
                let task = Task { try await client.run() }
                try await eventually { client.state != initial }
                _ = try await client.connected(within: .seconds(10))
                if isCancelled { task.cancel() } else { client.end() }
                try await task.value
                let ended = client.state
                #expect(await client.states.first { _ in true } == ended)
            }
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test func `a cancelled run ends the client immediately, and the next one starts it again`() async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            let client = Client(fixture.configuration)
            let cancelled = Task { try await client.run() }
            _ = try await client.connected(within: .seconds(10))
            let running = client.state
            cancelled.cancel()
            #expect(client.state != running)
            let next = Task { try await client.run() }
            _ = try await client.connected(within: .seconds(10))
            try await cancelled.value
            #expect(client.isConnected, "\(client.state)")
            client.end()
            try await next.value
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test func `waiting doesn't start a client, and ends with its limit`() async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            let client = Client(fixture.configuration)
            let error = await #expect(throws: Client.Failure.self) { _ = try await client.connected(within: .zero) }
            #expect(error?.code.description == "timedOut")
            let task = Task { _ = try await client.connected(within: .seconds(10)) }
            task.cancel()
            let cancelled = await #expect(throws: Client.Failure.self) { try await task.value }
            #expect(cancelled?.code.description == "cancelled")
            #expect(client.counters.messagesSent == 0)
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test func `observations follow a loss and a reconnect, and end when they are released`() async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            let client = Client(fixture.configuration)
            let (errors, changes, delays, frames) = (
                client.errors, client.stateChanges, client.connectingIn, client.frames(buffer: .standard)
            )
            let updates = EventRecorder<String>()
            var observation: CallbackObservation? = client.observe(on: CallbackExecutor { $0() }) { updates.record("\($0)") }
            let task = Task { try await client.run() }
            _ = try await client.connected(within: .seconds(10))
            try await client.exchange()

            fixture.network.cut()
            #expect(await errors.pending().map(\.code.description) == ["connectionLost"])
            #expect(await delays.pending().count == 1)
            #expect((client.reconnectDelay ?? .zero) > .zero)
            // Another thread may deliver the updates: the one on which the client has connected.
            try await eventually { updates.all.last?.hasPrefix("connectingIn") == true }
            let count = updates.all.count
            #expect(count > 2)
            withExtendedLifetime(observation) {}
            observation = nil

            client.checkConnection()
            _ = try await client.connected(within: .seconds(10))
            #expect(client.reconnectDelay == nil && client.counters.reconnects == 1)
            #expect(updates.all.count == count)
            let pairs = await changes.pending()
            #expect(zip(pairs, pairs.dropFirst()).allSatisfy { $0.new == $1.old } && pairs.count > 3)
            #expect(await !frames.pending().isEmpty)
            client.end()
            try await task.value
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test(arguments: [1, 47, 70, 3_600, 86_400])
    func `a process that stood still keeps its connections, and finds those that are dead`(seconds: Int) async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            let client = Client(fixture.configuration)
            let task = Task { try await client.run() }
            _ = try await client.connected(within: .seconds(10))
            try await client.exchange()
            // Also before its first probe has been answered.
            for time in [0, 10, 125] {
                fixture.clock.advance(by: .seconds(time))
                fixture.clock.standStill(for: .seconds(seconds))
                #expect(client.isConnected && client.counters.reconnects == 0, "\(Client.self) \(client.state)")
            }
            fixture.clock.advance(by: .seconds(600))
            #expect(client.isConnected && client.counters.reconnects == 0, "\(Client.self) \(client.state)")
            fixture.network.condition = .silent
            fixture.clock.standStill(for: .seconds(seconds))
            fixture.clock.advance(by: .seconds(151))
            #expect(!client.isConnected, "\(Client.self)")
            client.end()
            try await task.value
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test func `sequences finish when the client is released`() async throws {
        func check<Client: EveryClient>(_ fixture: Fixture<Client>) async throws {
            var client: Client? = Client(fixture.configuration)
            let (states, updates) = (client!.states, client!.allUpdates())
            client = nil
            #expect(await states.reduce(0) { count, _ in count + 1 } >= 1)
            for await _ in updates {}
        }
        try await check(Self.pusher())
        try await check(Self.hub())
        try await check(Self.primus())
    }

    @Test func `errors that differ in their causes are equal, and show no text of the application`() {
        func check<Failure: EveryClientError>(_ type: Failure.Type) {
            let (plain, caused) = (Failure.error("Failed.", cause: nil), Failure.error("Failed.", cause: Failed()))
            #expect(plain == caused && plain.hashValue == caused.hashValue)
            #expect(plain != Failure.error("Other.", cause: nil))
            #expect(caused.cause is Failed && caused.status == nil && "\(caused)" == "Failed.")
        }
        check(PusherError.self)
        check(HubError.self)
        check(PrimusError.self)
    }
}

func errorReference(_ url: String) async {
    // snippet:every-client-errors
    do {
        let client = PrimusConnection(try PrimusConfiguration(url: url))
        client.open()
        try await client.opened(within: .seconds(10))
    } catch let error as PrimusError {
        print(error)
        if let cause = error.cause { print("The cause: \(cause)") }
    } catch {
        print("The URL can't be used: \(error)")
    }
    // end
}

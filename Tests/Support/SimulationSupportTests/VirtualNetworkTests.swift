import RealtimeCore
import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct VirtualNetworkTests {
    private static func seconds(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    // MARK: Messages

    @Test func `messages keep their order within a connection and not across connections`() {
        var overtakes = 0
        for seed in 0..<20 as Range<UInt64> {
            let world = World(seed)
            let clients = (1...2).map { _ in world.connect() }
            world.simulation.run(until: Self.seconds(5))
            for number in 1...20 {
                for (index, end) in world.server.connections.enumerated() { end.send("\(number) \(index)") }
            }
            world.simulation.run(until: Self.seconds(20))
            expectEqual(clients.map(\.events.messages.count), [20, 20])
            for client in clients {
                let numbers = client.events.messages.map { Int($0.split(separator: " ")[0])! }
                expectEqual(numbers, Array(1...20))
            }
            let all = world.log.filter { $0.contains("received") }
            if all != all.sorted() { overtakes += 1 }
            world.network.checkCounts()
            expectNil(world.simulation.violation)
        }
        expect(overtakes > 10)
    }

    @Test func `the end of a connection arrives after its messages`() {
        for seed in 0..<20 as Range<UInt64> {
            let world = World(seed)
            let client = world.connect()
            world.simulation.run(until: Self.seconds(5))
            let server = world.server.connections[0]
            server.send("a")
            server.send("b")
            server.connection.close(.goingAway, reason: "bye")
            world.simulation.run(until: Self.seconds(10))
            expectEqual(client.events.log, ["opened", "a", "b", "closed: \(CloseReason.peer(.goingAway, "bye"))"])
            expectEqual(server.events.log, ["opened", "closed: \(CloseReason.requested)"])
        }
    }

    @Test func `a side that doesn't read receives everything in one read when it resumes`() {
        let world = World(1)
        let client = world.connect()
        world.simulation.run(until: Self.seconds(5))
        client.connection.pauseReading()
        for number in 1...3 { world.server.connections[0].send("\(number)") }
        world.simulation.run(until: Self.seconds(10))
        expectEqual(client.events.log, ["opened"])
        client.connection.resumeReading()
        client.connection.flush()
        world.simulation.run(until: Self.seconds(11))
        expectEqual(client.events.log, ["opened", "1 2 3"])
    }

    @Test func `the sender is told to pause while the other side doesn't read`() {
        let world = World(1)
        world.network.conditions.window = 100
        let client = world.connect()
        world.simulation.run(until: Self.seconds(5))
        let server = world.server.connections[0]
        client.connection.pauseReading()
        for _ in 1...11 { server.send("0123456789") }
        world.simulation.run(until: Self.seconds(10))
        expectEqual(server.events.log, ["opened", "writing pauses"])
        client.connection.resumeReading()
        client.connection.flush()
        world.simulation.run(until: Self.seconds(11))
        expectEqual(server.events.log, ["opened", "writing pauses", "writing resumes"])
    }

    // MARK: Faults

    @Test func `a half-open connection loses messages and notifies neither side`() {
        let world = World(1)
        let client = world.connect()
        world.simulation.run(until: Self.seconds(5))
        world.network.conditions.silences = 100
        client.connection.enqueue(.text("the last one"))
        client.connection.flush()
        world.simulation.run(until: Self.seconds(6))
        world.server.connections[0].send("lost")
        client.connection.enqueue(.text("lost"))
        client.connection.flush()
        world.simulation.run(until: Self.seconds(600))
        expectEqual(client.events.log, ["opened"])
        expectEqual(world.server.connections[0].events.log, ["opened", "the last one"])
        expectEqual(world.network.totals.lost, 2)
        world.network.checkCounts()
        expectNil(world.simulation.violation)
    }

    @Test func `connections are refused, unanswered or slow`() {
        func log(until seconds: Int64, _ change: (inout NetworkConditions) -> Void) -> [String] {
            let world = World(1)
            change(&world.network.conditions)
            let client = world.connect()
            world.simulation.run(until: Self.seconds(seconds))
            return client.events.log
        }
        expectEqual(log(until: 5) { $0.refusedConnections = 100 }.first?.hasPrefix("closed: The virtual network refused"), true)
        expectEqual(log(until: 29) { $0.unansweredConnections = 100 }, [])
        expectEqual(log(until: 31) { $0.unansweredConnections = 100 }.first?.hasPrefix("closed: The virtual network did not respond"), true)
        func makeSlow(_ conditions: inout NetworkConditions) {
            conditions.slowConnections = 100
            conditions.slowConnectDelay = 20_000...20_000
        }
        expectEqual(log(until: 20, makeSlow), [])
        expectEqual(log(until: 21, makeSlow), ["opened"])
    }

    @Test func `a rejected upgrade reports the status`() {
        let world = World(1)
        world.server.rejection = HTTPResponse(status: 503)
        let client = world.connect()
        world.simulation.run(until: Self.seconds(5))
        expectEqual(client.events.log.first?.contains("503"), true)
    }

    @Test func `resets and closes by the network end a connection for both sides`() {
        for change: (inout NetworkConditions) -> Void in [{ $0.resets = 100 }, { $0.closes = 100 }] {
            let world = World(1)
            change(&world.network.conditions)
            let client = world.connect()
            world.simulation.run(until: Self.seconds(5))
            expect(client.events.log.count == 2 && client.events.log.last?.hasPrefix("closed") == true)
            expectEqual(world.server.connections[0].events.log.last?.hasPrefix("closed"), true)
        }
    }

    @Test func `events of an abandoned connection arrive late`() {
        let world = World(1)
        let client = world.connect()
        world.simulation.run(until: Self.seconds(5))
        world.server.connections[0].send("late")
        client.connection.abandon()
        world.simulation.run(until: Self.seconds(200))
        expectEqual(client.events.log.prefix(2), ["opened", "late (lateEvent)"])
        expect(client.events.log.count == 3 && client.events.log[2].hasPrefix("closed"))
        expectEqual(world.server.connections[0].events.log.last?.hasPrefix("closed"), true)
    }

    @Test func `a close ends after a while if the peer doesn't answer`() {
        let world = World(1)
        world.network.conditions.unansweredCloses = 100
        let client = world.connect()
        world.simulation.run(until: Self.seconds(5))
        client.connection.close(.normal, reason: "")
        world.simulation.run(until: Self.seconds(9))
        expectEqual(client.events.log, ["opened"])
        world.simulation.run(until: Self.seconds(40))
        expectEqual(client.events.log, ["opened", "closed: \(CloseReason.requested)"])
    }

    // MARK: HTTP

    @Test func `an HTTP request is answered, times out, or is cancelled`() async {
        func result(cancelling: Bool = false, _ change: (inout NetworkConditions) -> Void = { _ in }) -> String? {
            let world = World(1)
            change(&world.network.conditions)
            let http = world.network.http
            let result = Results()
            let task = world.simulation.task {
                do throws(TransportError) {
                    let response = try await http.send(HTTPRequest("GET", Endpoint(scheme: "http", host: "line", port: 80, target: "/a")))
                    result.all.append("\(response.head.status) \(String(decoding: response.body, as: UTF8.self))")
                } catch {
                    result.all.append("\(error.code)")
                }
            }
            world.simulation.schedule(in: 1...1) { if cancelling { task.cancel() } }
            world.simulation.run(until: Self.seconds(100))
            return result.all.first
        }
        expectEqual(result(), "200 GET /a")
        expectEqual(result { $0.failedRequests = 100 }, "refused")
        expectEqual(result { $0.unansweredRequests = 100 }, "timedOut")
        expectEqual(result(cancelling: true) { $0.unansweredRequests = 100 }, "cancelled")
    }

    @Test func `a response in pieces arrives in order, with delays`() {
        var (splits, times) = (0, Set<Instant>())
        for seed in 0..<20 as Range<UInt64> {
            let world = World(seed)
            let exchange = world.exchange("GET")
            world.simulation.run(until: Self.seconds(5))
            let responder = world.server.responders[0]
            responder.begin(HTTPResponseHead(status: 200))
            for text in ["abc", "def", "ghi"] { responder.write(Array(text.utf8)) }
            world.simulation.run(until: Self.seconds(10))
            expect(exchange.events.log.first == "200" && exchange.events.log.dropFirst().joined() == "abcdefghi")
            if exchange.events.log.count > 4 { splits += 1 }
            times.formUnion(exchange.events.times)
            responder.end()
            world.simulation.run(until: Self.seconds(15))
            expect(exchange.events.log.last == "end" && world.simulation.violation == nil)
        }
        expect(splits > 2 && times.count > 20)
    }

    @Test func `a task reads a response in pieces as it arrives`() {
        let world = World(1)
        let (http, results) = (world.network.http, Results())
        world.simulation.task {
            do throws(TransportError) {
                let response = try await http.open(World.request("GET"))
                while let bytes = try await response.body.next() { results.all.append(String(decoding: bytes, as: UTF8.self)) }
                results.all.append("end")
            } catch {
                results.all.append("\(error.code)")
            }
        }
        world.simulation.run(until: Self.seconds(5))
        let responder = world.server.responders[0]
        responder.begin(HTTPResponseHead(status: 200))
        responder.write(Array("a".utf8))
        world.simulation.run(until: Self.seconds(10))
        expectEqual(results.all, ["a"])
        responder.write(Array("b".utf8))
        responder.end()
        world.simulation.run(until: Self.seconds(15))
        expectEqual(results.all, ["a", "b", "end"])
    }

    @Test func `a paused exchange delivers nothing until it is resumed, and doesn't time out`() {
        let world = World(1)
        let exchange = world.exchange("GET")
        world.simulation.run(until: Self.seconds(5))
        let responder = world.server.responders[0]
        responder.begin(HTTPResponseHead(status: 200))
        world.simulation.run(until: Self.seconds(10))
        exchange.exchange.pauseReading()
        for text in ["a", "b", "c"] { responder.write(Array(text.utf8)) }
        responder.end()
        world.simulation.run(until: Self.seconds(300))
        expectEqual(exchange.events.log, ["200"])
        exchange.exchange.resumeReading()
        world.simulation.run(until: Self.seconds(301))
        expectEqual(exchange.events.log, ["200", "abc", "end"])
    }

    @Test func `a server is told to pause while the client doesn't read, and a task that sends waits`() {
        let world = World(1)
        world.network.conditions.window = 100
        let exchange = world.exchange("GET")
        world.simulation.run(until: Self.seconds(5))
        let (responder, results) = (world.server.responders[0], Results())
        responder.onWriting { results.all.append($0 ? "pause" : "resume") }
        responder.begin(HTTPResponseHead(status: 200))
        exchange.exchange.pauseReading()
        world.simulation.task {
            do throws(TransportError) {
                for _ in 1...12 { try await responder.send(Array("0123456789".utf8)) }
                results.all.append("sent")
            } catch {
                results.all.append("\(error.code)")
            }
        }
        world.simulation.run(until: Self.seconds(10))
        expectEqual(results.all, ["pause"])
        exchange.exchange.resumeReading()
        world.simulation.run(until: Self.seconds(20))
        expect(results.all == ["pause", "sent", "resume"] || results.all == ["pause", "resume", "sent"])
        expectEqual(exchange.events.log.dropFirst().joined().count, 120)
    }

    @Test func `the server learns that a client has cancelled, and the client receives nothing more`() {
        let world = World(1)
        let exchange = world.exchange("GET")
        world.simulation.run(until: Self.seconds(5))
        let (responder, results) = (world.server.responders[0], Results())
        responder.onDisconnect { results.all.append("disconnected") }
        responder.begin(HTTPResponseHead(status: 200))
        responder.write([65])
        exchange.exchange.cancel()
        expectEqual(results.all, [])
        world.simulation.run(until: Self.seconds(200))
        expect(results.all == ["disconnected"] && exchange.events.log == [])
        responder.onDisconnect { results.all.append("again") }
        expectEqual(results.all, ["disconnected", "again"])
    }

    @Test func `an exchange on a half-open connection times out, and the server isn't notified`() {
        let world = World(1)
        let exchange = world.exchange("GET")
        world.simulation.run(until: Self.seconds(5))
        let (responder, results) = (world.server.responders[0], Results())
        responder.onDisconnect { results.all.append("disconnected") }
        responder.begin(HTTPResponseHead(status: 200))
        world.network.conditions.silences = 100
        world.simulation.run(until: Self.seconds(10))
        responder.write([65])
        world.simulation.run(until: Self.seconds(200))
        expect(exchange.events.log == ["200", "timedOut"] && results.all == [])
    }

    @Test func `resets, closes and cuts end an exchange for both sides`() {
        for fault in 0..<3 {
            let world = World(1)
            let exchange = world.exchange("GET")
            world.simulation.run(until: Self.seconds(5))
            let (responder, results) = (world.server.responders[0], Results())
            responder.onDisconnect { results.all.append("disconnected") }
            responder.begin(HTTPResponseHead(status: 200))
            if fault == 0 { world.network.conditions.resets = 100 }
            if fault == 1 { world.network.conditions.closes = 100 }
            world.simulation.run(until: Self.seconds(10))
            if fault == 2 { world.network.cut() }
            world.simulation.run(until: Self.seconds(20))
            expect(exchange.events.log == ["200", fault == 1 ? "closed" : "reset"] && results.all == ["disconnected"])
        }
    }

    @Test func `a request that is cut on its way never arrives`() {
        let world = World(1)
        world.network.conditions.delay = 1_000...1_000
        let exchange = world.exchange("GET")
        world.network.cut()
        world.simulation.run(until: Self.seconds(20))
        expect(exchange.events.log == ["reset"] && world.server.responders.isEmpty)
    }

    @Test func `an intermediary repeats requests that it may repeat, and passes one response on`() {
        var answers: Set<String> = []
        for seed in 0..<20 as Range<UInt64> {
            for method in ["GET", "POST"] {
                let world = World(seed)
                world.network.conditions.repeatedRequests = 100
                let exchange = world.exchange(method)
                world.simulation.run(until: Self.seconds(5))
                expectEqual(world.server.responders.count, (method == "GET" ? 2 : 1))
                let disconnects = Results()
                for (index, responder) in world.server.responders.enumerated() {
                    responder.onDisconnect { disconnects.all.append("\(index)") }
                    responder.begin(HTTPResponseHead(status: 200))
                    responder.write(Array("\(index)".utf8))
                }
                world.simulation.run(until: Self.seconds(200))
                expectEqual(exchange.events.log.first, "200")
                if method == "GET" {
                    answers.insert(exchange.events.log[1])
                    // The intermediary, and then the client, whose time is up.
                    expectEqual(disconnects.all.sorted(), ["0", "1"])
                }
            }
        }
        expectEqual(answers, ["0", "1"])
    }

    // MARK: Time

    @Test func `a timer in the past is a violation`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let timer = Timer { _ in }
        simulation.run(until: Self.seconds(1))
        simulation.schedule(timer, at: Instant(nanoseconds: 5))
        expectEqual(simulation.violation?.text, "a timer was set for 0.000 s, which has passed")
    }

    @Test func `a timer that fires forever is a violation`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let timer = Timer { simulation.schedule($0, at: simulation.now) }
        simulation.schedule(timer, at: Self.seconds(1))
        simulation.run(until: Self.seconds(2))
        expectEqual(simulation.violation?.text.contains("it would fire forever"), true)
    }

    @Test func `a run without an advance of time is a violation`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let again = Again(simulation)
        again.run()
        simulation.run(until: Self.seconds(1))
        expectEqual(simulation.violation?.text, "20000 steps without an advance of time")
    }

    @Test func `tasks and sleeps run in virtual time and in order`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let results = Results()
        for number in [3, 1, 2] as [Int64] {
            simulation.task {
                await simulation.sleep(in: number * 1_000...number * 1_000)
                results.all.append("\(number) at \(simulation.now.nanoseconds / 1_000_000_000)")
            }
        }
        simulation.run(until: Self.seconds(10))
        expectEqual(results.all, ["1 at 1", "2 at 2", "3 at 3"])
    }
}

// The following classes are `@unchecked Sendable`, because a simulation uses them on one thread only.

private final class Results: @unchecked Sendable {
    var all: [String] = []
}

private final class Timer: TimerClient, @unchecked Sendable {
    private let action: (Timer) -> Void

    init(_ action: @escaping (Timer) -> Void) {
        self.action = action
    }

    func timerFired() { self.action(self) }
}

private final class Again: @unchecked Sendable {
    private let simulation: Simulation

    init(_ simulation: Simulation) {
        self.simulation = simulation
    }

    func run() { self.simulation.schedule(in: 0...0) { [self] in self.run() } }
}

/// A simulation with a server that records what happens.
private final class World {
    let simulation: Simulation
    let network: VirtualNetwork
    let server: RecordingServer

    var log: [String] { self.simulation.trace }

    init(_ seed: UInt64) {
        self.simulation = Simulation(seed: seed, isTracing: true)
        self.network = VirtualNetwork(self.simulation)
        self.server = RecordingServer(self.simulation)
        self.network.setServer(self.server, host: "line", port: 80)
    }

    deinit { self.simulation.release() }

    func connect() -> End {
        let events = RecordingEvents(self.simulation)
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "line", port: 80))
        let connection = self.network.connect(request, id: ConnectionID(rawValue: 1), events: events)
        connection.open()
        return End(connection, events)
    }

    static func request(_ method: String) -> HTTPRequest {
        HTTPRequest(method, Endpoint(scheme: "http", host: "line", port: 80, target: "/pieces"))
    }

    func exchange(_ method: String) -> ClientExchange {
        let events = ExchangeRecorder(self.simulation)
        let exchange = self.network.http.makeExchange(Self.request(method), id: ExchangeID(rawValue: 1), events: events)
        exchange.start()
        return ClientExchange(exchange, events)
    }
}

private final class ClientExchange: @unchecked Sendable {
    let exchange: any HTTPExchange
    let events: ExchangeRecorder

    init(_ exchange: any HTTPExchange, _ events: ExchangeRecorder) {
        self.exchange = exchange
        self.events = events
    }
}

private final class ExchangeRecorder: HTTPExchangeEvents, @unchecked Sendable {
    private let simulation: Simulation
    private(set) var log: [String] = []
    private(set) var times: [Instant] = []

    init(_ simulation: Simulation) {
        self.simulation = simulation
    }

    private func record(_ text: String) {
        self.log.append(text)
        self.times.append(self.simulation.now)
    }

    func received(_ head: HTTPResponseHead, of id: ExchangeID) { self.record("\(head.status)") }
    func received(_ body: [UInt8], of id: ExchangeID) { self.record(String(decoding: body, as: UTF8.self)) }
    func ended(_ id: ExchangeID, _ error: TransportError?) { self.record(error.map { "\($0.code)" } ?? "end") }
}

private final class End: @unchecked Sendable {
    let connection: any MessageConnection
    let events: RecordingEvents

    init(_ connection: any MessageConnection, _ events: RecordingEvents) {
        self.connection = connection
        self.events = events
    }

    func send(_ text: String) {
        self.connection.enqueue(.text(text))
        self.connection.flush()
    }
}

private final class RecordingEvents: MessageEvents, @unchecked Sendable {
    private let simulation: Simulation
    private(set) var log: [String] = []
    private(set) var messages: [String] = []

    init(_ simulation: Simulation) {
        self.simulation = simulation
    }

    private func record(_ text: String) { self.log.append(self.simulation.cause == .lateEvent ? "\(text) (lateEvent)" : text) }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.record("opened") }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        let texts = batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }
        self.messages += texts
        self.record(texts.joined(separator: " "))
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.record("closed: \(reason)") }

    func writing(_ id: ConnectionID, paused: Bool) { self.record("writing \(paused ? "pauses" : "resumes")") }
}

private final class RecordingServer: SimulatedServer, @unchecked Sendable {
    private let simulation: Simulation
    private(set) var connections: [End] = []
    /// Those of the requests that a test answers.
    private(set) var responders: [any HTTPResponder] = []
    var rejection: HTTPResponse?

    init(_ simulation: Simulation) {
        self.simulation = simulation
    }

    func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult {
        if let rejection { return .reject(rejection) }
        let events = RecordingEvents(self.simulation)
        self.connections.append(End(connection, events))
        return .accept(events)
    }

    func respond(to request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        if request.target == "/pieces" { return self.responders.append(responder) }
        responder.respond(HTTPResponse(status: 200, text: "\(request.method) \(request.target)"))
    }
}

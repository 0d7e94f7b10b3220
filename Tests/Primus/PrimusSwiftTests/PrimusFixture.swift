import Dispatch
import Foundation
import PrimusSwift
import PrimusTesting
import RealtimeCore
import RealtimeTesting
import TestSupport

/// A client of the API of Primus-Objc, and the embedded server in memory, with the manual clock.
final class PrimusFixture: Sendable {
    static let events = [
        "initialised", "open", "data", "error", "close", "end", "destroy", "reconnecting", "reconnect scheduled", "reconnect",
        "reconnected",
        "reconnect timeout", "reconnect failed", "timeout", "online", "offline", "readyStateChange", "outgoing::open",
        "outgoing::reconnect",
        "outgoing::data", "outgoing::end", "outgoing::pong", "outgoing::ping", "outgoing::url", "incoming::open", "incoming::data",
        "incoming::error", "incoming::end", "incoming::ping", "incoming::pong", "incoming::id",
    ]

    let memory: InMemoryPrimus
    let options: PrimusConnectOptions
    let primus: Primus
    /// The names of the events, in their order. What both names of the scheduling mean is recorded once.
    let trace = EventRecorder<String>()
    let queue = DispatchQueue(label: "listeners")
    /// The kind of the connection, when it has moved.
    private let transport: PrimusTransport?

    init(
        _ server: PrimusServerConfiguration = PrimusServerConfiguration(), transport: PrimusTransport? = nil,
        _ change: (PrimusConnectOptions) -> Void = { _ in }
    ) async throws {
        self.transport = transport
        self.memory = try await InMemoryPrimus(configuration: server)
        self.options = Self.options(self.memory)
        change(self.options)
        self.primus = Primus(url: URL(string: self.memory.url)!, options: self.options)
        self.record(self.primus)
    }

    convenience init(_ kind: TraceKind, _ change: (PrimusConnectOptions) -> Void = { _ in }) async throws {
        var server = PrimusServerConfiguration()
        server.transformer = kind.transformer
        try await self.init(server, transport: kind.transport) { options in
            // What the server would say, so that an attempt begins with the connection also where the specification isn't requested.
            (options.transformer, options.websockets) = (kind.transformer.description, kind.websockets)
            options.configure = {
                $0.startsWithPolling = kind.moves
                $0.connectionKinds = kind.connection.map { [$0] }
            }
            change(options)
        }
    }

    // A client that is open keeps itself alive.
    deinit { self.primus.end() }

    static func options(_ memory: InMemoryPrimus) -> PrimusConnectOptions {
        let options = PrimusConnectOptions()
        (options.manual, options.transports, options.log) = (true, memory.network.transports(), .none)
        return options
    }

    func record(_ primus: Primus) {
        for event in Self.events where event != "reconnecting" {
            let trace = self.trace
            if event == "readyStateChange" {
                primus.on(event, queue: self.queue) { (state: String) in trace.record("readyStateChange \(state)") }
            } else {
                primus.on(event, queue: self.queue) { trace.record(event) }
            }
        }
    }

    func open() async throws {
        self.primus.open()
        try await self.awaits("open")
        // Another thread may not have sent the first request for messages yet.
        try await eventually { self.memory.server.isLastSparkRead }
        if let transport { try await eventually("a connection over \(transport)") { self.primus.client.transport == transport } }
        _ = self.trace.take()
    }

    /// Waits until an event is the last one. The clock advances only while an attempt is scheduled, or while the last event is one after which
    /// nothing happens until a time limit expires, so that limits don't expire before what the client waits for.
    func awaits(_ event: String, advancingAfter idle: Set<String> = [], containing other: String? = nil) async throws {
        try await eventually {
            let all = self.trace.all
            if all.last == event, other.map({ all.contains($0) }) ?? true { return true }
            if self.primus.attemptOptions?.backoff == true || all.last.map({ idle.contains($0) }) ?? false {
                self.memory.clock.advance(by: .milliseconds(250))
            }
            return false
        }
    }

    /// Lets everything happen that would happen in ten minutes.
    func settle() async throws {
        for _ in 0..<20 {
            self.memory.clock.advance(by: .seconds(30))
            await self.drainQueue()
        }
    }

    /// Waits until the queue of the listeners has run what waits on it.
    func drainQueue() async {
        await withCheckedContinuation { continuation in self.queue.async { continuation.resume() } }
    }
}

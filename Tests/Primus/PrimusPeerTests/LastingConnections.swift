import PrimusClient
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

/// Whether the connections of a test last, and move to a WebSocket if they can.
final class ConnectionWatch: Sendable {
    /// The shortest time limit of the servers: SockJS waits for the next poll for five seconds, Node.js for the next request on a connection.
    /// engine.io and the client give a move ten seconds.
    private static let shortestLimit = Duration.seconds(5)

    private struct State: Sendable {
        var begin = ContinuousClock.now
        var end: (reason: String, after: Duration)?
        var observations: [PrimusObservation] = []
    }

    private let state = Lock(State())
    private let hasEnded = Signal()

    /// The end of a connection that should have lasted, and its age.
    var end: (reason: String, after: Duration)? { self.state.withLock { $0.end } }

    /// Whether a connection has ended after the time limit of a server, which a processor that is busy elsewhere may exceed.
    var isLate: Bool { self.end.map { $0.after >= Self.shortestLimit } ?? false }

    /// Follows a client from its opening.
    func client(_ configuration: PrimusConfiguration) -> PrimusConnection {
        var configuration = configuration
        configuration.log = LogSink(minimumLevel: .info) { [weak self] _, _, text in
            if text.contains("stays with polling") { self?.ended(text) }
        }
        let primus = PrimusConnection(configuration)
        let observation = primus.onUpdate(on: PrimusCallbackExecutor { $0() }) { [weak self] update in
            switch update {
            case .reconnecting(let error), .state(.closed(let error?)): self?.ended(error.message)
            default: break
            }
        }
        self.state.withLock { state in
            state.begin = .now
            state.observations.append(observation)
        }
        return primus
    }

    private func ended(_ reason: String) {
        self.state.withLock { state in
            if state.end == nil { state.end = (reason, .now - state.begin) }
        }
        self.hasEnded.send()
    }

    /// Runs a body whose clients need connections that last, up to five times, until none has ended after the time limit of a server.
    /// Issues of the other runs are known ones. A connection that ends earlier fails the test.
    static func run(_ body: @escaping @Sendable (ConnectionWatch) async throws -> Void) async throws {
        for _ in 0..<5 {
            let watch = ConnectionWatch()
            try await watch.run(body)
            if !watch.isLate { return }
        }
        Issue.record("connections have ended because the processor was busy elsewhere, five times")
    }

    private func run(_ body: @escaping @Sendable (ConnectionWatch) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await withKnownIssue("the processor was busy elsewhere", isIntermittent: true) {
                    try await body(self)
                } matching: { _ in
                    self.isLate
                }
            }
            group.addTask { await self.hasEnded.wait() }
            try await group.next()
            group.cancelAll()
            try await group.waitForAll()
        }
        if let end, !self.isLate { Issue.record("a connection ended after \(end.after): \(end.reason)") }
    }
}

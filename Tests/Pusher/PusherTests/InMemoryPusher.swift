import RealtimeSystem
import RealtimeCore
import PusherChannels
import PusherServer
import PusherWire
import RealtimeTesting

/// A server and its clients on a network in memory, with a clock that the test moves.
///
/// Nothing here waits: when a call returns, what it set off has happened.
struct InMemoryPusher {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let server: PusherServer
    let address: ListenerAddress

    init(hooks: PusherServerHooks = PusherServerHooks(), _ change: (inout PusherApp) -> Void = { _ in }) async throws {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        change(&app)
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = PusherServer(app: app, network: self.network, hooks: hooks, log: .none)
        self.address = try await self.server.start(on: self.network.listener())
    }

    func client(
        key: String = "key", user: String? = nil, _ change: (inout PusherConfiguration) -> Void = { _ in }
    ) -> PusherClient {
        var configuration = PusherConfiguration(key: key, host: self.address.host, port: self.address.port, useTLS: false)
        configuration.transports = self.network.transports()
        configuration.authorizer = .secret("secret", userID: user)
        configuration.log = .none
        change(&configuration)
        return PusherClient(configuration)
    }
}

extension InMemoryPusher {
    /// What the application's server would answer.
    var signed: @Sendable (PusherAuthorizationRequest) -> PusherChannelAuthorization {
        { request in
            PusherChannelAuthorization(
                auth: ChannelSignature.token(key: "key", secret: "secret", socketID: request.socketID, channel: request.channel))
        }
    }
}

/// An application's server with one route.
final class ApplicationServer: ListenerHandler {
    private let answer: @Sendable (HTTPRequestHead, [UInt8]) -> HTTPResponse

    init(_ answer: @escaping @Sendable (HTTPRequestHead, [UInt8]) -> HTTPResponse) {
        self.answer = answer
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { responder.respond(self.answer(request, body)) }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .refuse(HTTPResponse(status: 404)) }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        preconditionFailure("it refuses every upgrade")
    }
}

/// Holds questions up until the test answers them, whatever becomes of the task that asks.
final class Gate<Question: Sendable, Answer: Sendable>: Sendable {
    struct Asked: Sendable {
        let question: Question
        let waiter: Waiter<Answer>

        func answer(_ answer: Answer) { self.waiter.fulfill(answer)?.resume() }
    }

    private let asked = AsyncStream<Asked>.makeStream()
    /// How many of those who asked were cancelled before they had their answer.
    let cancelled = EventRecorder<Question>()

    private let counts = Lock((now: 0, most: 0))

    /// How many wait for an answer.
    var asking: Int { self.counts.withLock { $0.now } }

    /// How many ever waited at once.
    var most: Int { self.counts.withLock { $0.most } }

    func ask(_ question: Question) async -> Answer {
        self.counts.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        defer { self.counts.withLock { $0.now -= 1 } }
        let waiter = Waiter<Answer>()
        self.asked.continuation.yield(Asked(question: question, waiter: waiter))
        return await waiter.value { self.cancelled.record(question) }
    }

    func next() async -> Asked {
        for await asked in self.asked.stream { return asked }
        preconditionFailure("nobody asks any more")
    }
}

typealias AuthorizationGate = Gate<PusherAuthorizationRequest, PusherChannelAuthorization>

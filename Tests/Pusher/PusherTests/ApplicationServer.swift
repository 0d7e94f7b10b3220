import RealtimeSystem
import RealtimeCore
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeTesting

extension InMemoryPusher {
    /// Signs a request the way the application's server does.
    var signed: @Sendable (PusherAuthorizationRequest) -> PusherChannelAuthorization {
        { request in
            PusherChannelAuthorization(
                auth: ChannelSignature.token(key: "key", secret: "secret", socketID: request.socketID, channel: request.channel))
        }
    }
}

extension InMemoryPusher {
    /// Creates a publisher for the server, or for the server at another address.
    func publisher(at address: ListenerAddress? = nil) -> PusherPublisher {
        let address = address ?? self.address
        return PusherPublisher(
            appID: "1", key: "key", secret: "secret", endpoint: Endpoint(scheme: "http", host: address.host, port: address.port),
            http: self.network.transports().http)
    }
}

/// An application's server that passes all requests to a closure.
final class ApplicationServer: ListenerHandler {
    private let respond: @Sendable (HTTPRequestHead, [UInt8]) -> HTTPResponse

    init(_ respond: @escaping @Sendable (HTTPRequestHead, [UInt8]) -> HTTPResponse) {
        self.respond = respond
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(self.respond(request, body))
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        preconditionFailure("all upgrades are rejected")
    }
}

/// Suspends calls until the test resumes them with a result, even if their tasks are cancelled.
final class Gate<Input: Sendable, Output: Sendable>: Sendable {
    struct Call: Sendable {
        let input: Input
        let waiter: Waiter<Output>

        func resume(returning output: Output) { self.waiter.fulfill(output)?.resume() }
    }

    private let calls = AsyncStream<Call>.makeStream()
    /// The calls whose tasks were cancelled while they were suspended.
    let cancelled = EventRecorder<Input>()

    private let counts = Lock((current: 0, maximum: 0))

    /// The number of suspended calls.
    var suspendedCount: Int { self.counts.withLock { $0.current } }

    /// The maximum number of calls that were suspended at the same time.
    var maximumSuspendedCount: Int { self.counts.withLock { $0.maximum } }

    func call(_ input: Input) async -> Output {
        self.counts.withLock { $0 = ($0.current + 1, max($0.maximum, $0.current + 1)) }
        defer { self.counts.withLock { $0.current -= 1 } }
        let waiter = Waiter<Output>()
        self.calls.continuation.yield(Call(input: input, waiter: waiter))
        return await waiter.value { self.cancelled.record(input) }
    }

    /// Returns the next call.
    func next() async -> Call {
        for await call in self.calls.stream { return call }
        preconditionFailure("the stream has finished")
    }
}

typealias AuthorizationGate = Gate<PusherAuthorizationRequest, PusherChannelAuthorization>

import RealtimeSystem
package import RealtimeCore
package import PusherChannels
import PusherServer
package import PusherTesting
import PusherWire
package import RealtimeTesting

extension InMemoryPusher {
    /// Signs a request the way the application's server does.
    package var signed: @Sendable (PusherAuthorizationRequest) -> PusherChannelAuthorization {
        { request in
            PusherChannelAuthorization(
                auth: ChannelSignature.token(key: "key", secret: "secret", socketID: request.socketID, channel: request.channel))
        }
    }
}

extension InMemoryPusher {
    /// Creates a publisher for the server at another address.
    package func publisher(at address: ListenerAddress) -> PusherPublisher {
        PusherPublisher(
            appID: "1", key: "key", secret: "secret", endpoint: Endpoint(scheme: "http", host: address.host, port: address.port),
            http: self.network.transports().http)
    }
}

/// An application's server that passes all requests to a closure.
package final class ApplicationServer: ListenerHandler {
    private let respond: @Sendable (HTTPRequestHead, [UInt8]) -> HTTPResponse

    package init(_ respond: @escaping @Sendable (HTTPRequestHead, [UInt8]) -> HTTPResponse) {
        self.respond = respond
    }

    package func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(self.respond(request, body))
    }
}

/// Suspends calls until the test resumes them with a result, even if their tasks are cancelled.
package final class Gate<Input: Sendable, Output: Sendable>: Sendable {
    package struct Call: Sendable {
        package let input: Input
        let waiter: Waiter<Output>

        package func resume(returning output: Output) { self.waiter.fulfill(output)?.resume() }
    }

    package init() {}

    private let calls = AsyncStream<Call>.makeStream()
    /// The calls whose tasks were cancelled while they were suspended.
    package let cancelled = EventRecorder<Input>()

    private let counts = Lock((current: 0, maximum: 0))

    /// The number of suspended calls.
    package var suspendedCount: Int { self.counts.withLock { $0.current } }

    /// The maximum number of calls that were suspended at the same time.
    package var maximumSuspendedCount: Int { self.counts.withLock { $0.maximum } }

    package func call(_ input: Input) async -> Output {
        self.counts.withLock { $0 = ($0.current + 1, max($0.maximum, $0.current + 1)) }
        defer { self.counts.withLock { $0.current -= 1 } }
        let waiter = Waiter<Output>()
        self.calls.continuation.yield(Call(input: input, waiter: waiter))
        return await waiter.value { self.cancelled.record(input) }
    }

    /// Returns the next call.
    package func next() async -> Call {
        for await call in self.calls.stream { return call }
        preconditionFailure("the stream has finished")
    }
}

package typealias AuthorizationGate = Gate<PusherAuthorizationRequest, PusherChannelAuthorization>

import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Header fields of authorization requests that are determined for each request.
@Suite struct AuthorizationHeaderTests {
    private struct ExpiredError: Error {}

    /// An application's server that records the tokens, and authorizes requests with the current one.
    private struct Application {
        let tokens = EventRecorder<String?>()
        let url: String

        init(_ pusher: InMemoryPusher) async throws {
            let (tokens, server) = (self.tokens, pusher.server)
            let handler = ApplicationServer { request, body in
                tokens.record(request.headers["Authorization"])
                let signed = pusher.signed
                guard let channel = String(decoding: body, as: UTF8.self).split(separator: "&").first?.split(separator: "=").last,
                    let socketID = server.socketIDs.last
                else { return HTTPResponse(status: 400) }
                let authorization = signed(PusherAuthorizationRequest(channel: String(channel), socketID: socketID))
                return HTTPResponse(status: 200, text: #"{"auth":"\#(authorization.auth)"}"#)
            }
            let address = try await pusher.network.listener(host: "app").start(handler)
            self.url = "http://app:\(address.port)/auth"
        }
    }

    @Test func `a token is requested again for each subscription`() async throws {
        let pusher = try await InMemoryPusher()
        let application = try await Application(pusher)
        let count = Lock(0)
        let authorizer = try PusherAuthorizer.endpoint(application.url) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            return ["Authorization": "Bearer \(number)"]
        }
        let client = pusher.client { $0.authorizer = authorizer }
        client.connect()
        let orders = try client.subscribe("private-orders")
        try await orders.subscribed()
        pusher.server.drop(try #require(client.socketID))
        pusher.clock.advance(by: .seconds(1))
        try await orders.subscribed()
        expectEqual(application.tokens.all, ["Bearer 1", "Bearer 2"])
    }

    @Test func `an error of the closure fails the subscription until a later request succeeds`() async throws {
        let pusher = try await InMemoryPusher()
        let application = try await Application(pusher)
        let isExpired = Lock(true)
        let authorizer = try PusherAuthorizer.endpoint(application.url) {
            if isExpired.withLock({ $0 }) { throw ExpiredError() }
            return ["Authorization": "Bearer 1"]
        }
        let client = pusher.client { $0.authorizer = authorizer }
        client.connect()
        let error = try await client.subscriptionError("private-orders")
        let orders = try #require(client.channel("private-orders"))
        expect(error.code == .authorizationFailed && error.cause is ExpiredError && error.message.contains("ExpiredError"))
        expect(application.tokens.all.isEmpty)
        isExpired.withLock { $0 = false }
        // The retry, which the test doesn't have to wait for: another call starts it immediately.
        try client.subscribe("private-orders")
        try await orders.subscribed()
        expectEqual(application.tokens.all, ["Bearer 1"])
    }

    @Test func `an invalid URL is rejected`() {
        let error = #expect(throws: TransportError.self) { try PusherAuthorizer.endpoint("nonsense") { [:] } }
        expectEqual(error?.code, .invalidURL)
    }

    @Test func `several fields with the same name replace those of the endpoint`() async throws {
        let pusher = try await InMemoryPusher()
        let cookies = EventRecorder<[String]>()
        let handler = ApplicationServer { request, _ in
            cookies.record(request.headers.filter { $0.name == "Cookie" }.map(\.value))
            return HTTPResponse(status: 403)
        }
        let address = try await pusher.network.listener(host: "app").start(handler)
        let endpoint = PusherAuthorizationEndpoint(
            Endpoint(scheme: "http", host: "app", port: address.port), headers: ["Cookie": "old=1"],
            freshHeaders: {
                var headers = HTTPHeaders()
                headers.add("Cookie", "a=1")
                headers.add("Cookie", "b=2")
                return headers
            })
        let client = pusher.client { $0.authorizer = .endpoint(endpoint) }
        client.connect()
        await #expect(throws: PusherError.self) { try await client.subscribe("private-one").subscribed() }
        expectEqual(cookies.all, [["a=1", "b=2"]])
    }
}

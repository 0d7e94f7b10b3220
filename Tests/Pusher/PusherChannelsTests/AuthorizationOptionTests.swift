import PusherTestSupport
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeEncoding
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// The ways of authorizing a subscription other than a form with fixed fields.
@Suite struct AuthorizationOptionTests {
    private struct UnknownError: Error {}

    /// Starts an application's server that passes the fields of each request to a closure.
    private func start(
        on pusher: InMemoryPusher, _ respond: @escaping @Sendable (_ fields: [String: String], _ body: String) -> HTTPResponse
    ) async throws -> Endpoint {
        let handler = ApplicationServer { _, body in
            let text = String(decoding: body, as: UTF8.self)
            let fields = PercentEncoding.fields(text, plusIsSpace: true) ?? []
            return respond(Dictionary(fields.map { ($0.name, $0.value) }) { $1 }, text)
        }
        let address = try await pusher.network.listener(host: "app").start(handler)
        return Endpoint(scheme: "http", host: "app", port: address.port, target: "/auth")
    }

    private func auth(_ channel: String, _ socketID: String, _ pusher: InMemoryPusher) -> String {
        pusher.signed(PusherAuthorizationRequest(channel: channel, socketID: socketID)).auth
    }

    /// Waits for a subscription and returns the error with which it fails.
    private func failure(_ channel: PusherChannel) async throws -> PusherError {
        try await #require(throws: PusherError.self) { try await channel.subscribed() }
    }

    private func count(_ counter: borrowing Lock<Int>) -> Int {
        counter.withLock { count in
            count += 1
            return count
        }
    }

    // MARK: Parameters

    @Test func `parameters are determined for each request and do not replace those of the protocol`() async throws {
        let pusher = try await InMemoryPusher()
        let devices = EventRecorder<[String: String]>()
        let counter = Lock(0)
        let endpoint = try await self.start(on: pusher) { fields, _ in
            devices.record(fields.filter { $0.key != "socket_id" })
            return HTTPResponse(
                status: 200, text: #"{"auth":"\#(self.auth(fields["channel_name"] ?? "", fields["socket_id"] ?? "", pusher))"}"#)
        }
        let authorization = PusherAuthorizationEndpoint(
            endpoint, parameters: ["device": "old", "app": "1"],
            freshParameters: { ["device": "\(self.count(counter))", "channel_name": "private-other", "socket_id": "9.9"] })
        let client = pusher.client { $0.authorizer = .endpoint(authorization) }
        client.connect()
        let orders = try client.subscribe("private-orders")
        try await orders.subscribed()
        pusher.server.drop(try #require(client.socketID))
        pusher.clock.advance(by: .seconds(1))
        try await orders.subscribed()
        expectEqual(devices.all, ["1", "2"].map { ["channel_name": "private-orders", "device": $0, "app": "1"] })
    }

    @Test func `an error of the closure for parameters fails the subscription and is retried`() async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await self.start(on: pusher) { _, _ in HTTPResponse(status: 403) }
        let client = pusher.client {
            $0.authorizer = .endpoint(PusherAuthorizationEndpoint(endpoint, freshParameters: { throw UnknownError() }))
        }
        client.connect()
        let error = try await client.subscriptionError("private-orders")
        expect(error.cause is UnknownError && error.isTransient)
        expect(error.message.contains("the closure for the parameters threw an error of type UnknownError."))
    }

    // MARK: Custom requests

    @Test func `a request of the application authorizes`() async throws {
        let pusher = try await InMemoryPusher()
        let bodies = EventRecorder<String>()
        let endpoint = try await self.start(on: pusher) { _, body in
            bodies.record(body)
            let parts = body.split(separator: " ").map { String($0) }
            return HTTPResponse(status: 201, text: #"{"auth":"\#(self.auth(parts[0], parts[1], pusher))"}"#)
        }
        let client = pusher.client {
            $0.authorizer = .request { request in
                HTTPRequest("PUT", endpoint, body: Array("\(request.channel) \(request.socketID)".utf8))
            }
        }
        client.connect()
        try await client.subscribe("private-orders").subscribed()
        expectEqual(bodies.all, ["private-orders \(try #require(client.socketID))"])
    }

    @Test(arguments: [(403, false), (500, true), (200, false)])
    func `the response to a request of the application determines whether it is retried`(status: Int, isTransient: Bool) async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await self.start(on: pusher) { _, _ in HTTPResponse(status: status, text: "{}") }
        let client = pusher.client { $0.authorizer = .request { _ in HTTPRequest("POST", endpoint) } }
        client.connect()
        let error = try await self.failure(try client.subscribe("private-orders"))
        expect(error.code == .authorizationFailed && error.status == status && error.isTransient == isTransient)
        expect(error.message.hasPrefix("Authorization of private-orders at http://app"))
    }

    @Test func `an error of the closure for the request is the cause`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .request { _ in throw UnknownError() } }
        client.connect()
        let error = try await client.subscriptionError("private-orders")
        expect(error.cause is UnknownError && error.isTransient)
    }

    // MARK: Completion handlers

    @Test func `a completion handler may be called immediately, and only the first answer counts`() async throws {
        let pusher = try await InMemoryPusher()
        let signed = pusher.signed
        let client = pusher.client {
            $0.authorizer = .completion { request, complete in
                complete(.success(signed(request)))
                complete(.failure(UnknownError()))
                complete(.success(PusherChannelAuthorization(auth: "wrong")))
            }
        }
        client.connect()
        let (errors, orders) = (client.errors, try client.subscribe("private-orders"))
        try await orders.subscribed()
        await expect(errors.pending().isEmpty && orders.state == .subscribed)
    }

    @Test func `a completion handler may be called later and on another thread`() async throws {
        let pusher = try await InMemoryPusher()
        let signed = pusher.signed
        let calls = AsyncStream<(PusherAuthorizationRequest, PusherAuthorizer.Completion)>.makeStream()
        let client = pusher.client { $0.authorizer = .completion { calls.continuation.yield(($0, $1)) } }
        client.connect()
        let orders = try client.subscribe("private-orders")
        var iterator = calls.stream.makeAsyncIterator()
        let (request, complete) = try #require(await iterator.next())
        expectEqual(orders.state, .pending)
        await Task.detached { complete(.success(signed(request))) }.value
        expectEqual(orders.state, .subscribed)
        complete(.failure(UnknownError()))
        expectEqual(orders.state, .subscribed)
    }

    @Test func `an answer after the client was released or the channel was unsubscribed has no effect`() async throws {
        let pusher = try await InMemoryPusher()
        let signed = pusher.signed
        let calls = AsyncStream<(PusherAuthorizationRequest, PusherAuthorizer.Completion)>.makeStream()
        var client: PusherClient? = pusher.client { $0.authorizer = .completion { calls.continuation.yield(($0, $1)) } }
        client?.connect()
        try client?.subscribe("private-one")
        var iterator = calls.stream.makeAsyncIterator()
        let first = try #require(await iterator.next())
        client?.unsubscribe("private-one")
        first.1(.success(signed(first.0)))
        expectEqual(client?.channelNames, [])
        try client?.subscribe("private-two")
        let second = try #require(await iterator.next())
        client = nil
        second.1(.success(signed(second.0)))
    }

    @Test func `a completion handler that is never called fails the subscription after its time limit`() async throws {
        let pusher = try await InMemoryPusher()
        let called = EventRecorder<String>()
        let client = pusher.client { $0.authorizer = .completion { request, _ in called.record(request.channel) } }
        client.connect()
        let orders = try client.subscribe("private-orders")
        try await eventually("the closure is called") { called.all.count == 1 }
        pusher.clock.advance(by: .seconds(30))
        guard case .failed(let error) = orders.state else { return expect(false, "it is \(orders.state)") }
        expectEqual(error.code, .timedOut)
    }

    // MARK: Refusals

    @Test(arguments: ["callback", "completion", "request", "headers", "parameters"])
    func `a refusal is not retried`(kind: String) async throws {
        let pusher = try await InMemoryPusher()
        let counter = Lock(0)
        let refusal = PusherAuthorizationRefusal("Only members may join.")
        let endpoint = Endpoint(scheme: "http", host: "app", port: 80)
        let client = pusher.client { configuration in
            configuration.authorizer =
                switch kind {
                case "callback":
                    .callback { _ in
                        _ = self.count(counter)
                        throw refusal
                    }
                case "completion":
                    .completion { _, complete in
                        _ = self.count(counter)
                        complete(.failure(refusal))
                    }
                case "request":
                    .request { _ in
                        _ = self.count(counter)
                        throw refusal
                    }
                case "headers":
                    .endpoint(
                        PusherAuthorizationEndpoint(
                            endpoint,
                            freshHeaders: {
                                _ = self.count(counter)
                                throw refusal
                            }))
                default:
                    .endpoint(
                        PusherAuthorizationEndpoint(
                            endpoint,
                            freshParameters: {
                                _ = self.count(counter)
                                throw refusal
                            }))
                }
        }
        client.connect()
        let orders = try client.subscribe("private-orders")
        let error = try await self.failure(orders)
        expect(error.code == .authorizationFailed && error.cause as? PusherAuthorizationRefusal == refusal && !error.isTransient)
        expect(error.message.hasSuffix("refused it: Only members may join."))
        pusher.clock.advance(by: .seconds(600))
        expect(orders.state == .failed(error) && counter.withLock { $0 } == 1)
        guard case .failed(let stored) = orders.state else { return }
        expect(stored.cause is PusherAuthorizationRefusal)
    }

    @Test func `a refusal ends a sign-in`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client {
            $0.userAuthenticator = .callback { _ in throw PusherAuthorizationRefusal("No.") }
        }
        client.connect()
        client.user.signIn()
        let error = try await #require(throws: PusherError.self) { try await client.user.signedIn() }
        expect(error.message.hasSuffix("refused it: No.") && !error.isTransient)
    }

    // MARK: An authorization passed with the subscription

    @Test func `an authorization that is passed is used for the first attempt only`() async throws {
        let pusher = try await InMemoryPusher()
        let (requests, signed) = (EventRecorder<String>(), pusher.signed)
        let client = pusher.client {
            $0.authorizer = .callback { request in
                requests.record(request.channel)
                return signed(request)
            }
        }
        client.connect()
        let socketID = try await client.connected()
        let authorization = signed(PusherAuthorizationRequest(channel: "private-orders", socketID: socketID))
        let orders = try client.subscribe("private-orders", authorization: authorization)
        expect(orders.state == .subscribed && requests.all.isEmpty)
        pusher.server.drop(socketID)
        pusher.clock.advance(by: .seconds(1))
        try await orders.subscribed()
        expectEqual(requests.all, ["private-orders"])
    }

    @Test func `an authorization that is passed needs no authorizer`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = nil }
        client.connect()
        let socketID = try await client.connected()
        let authorization = pusher.signed(PusherAuthorizationRequest(channel: "private-orders", socketID: socketID))
        let orders = try client.subscribe("private-orders", authorization: authorization)
        expectEqual(orders.state, .subscribed)
        pusher.server.drop(socketID)
        pusher.clock.advance(by: .seconds(1))
        try await expectEqual(self.failure(orders).code, .authorizationMissing)
    }

    @Test func `a wrong authorization fails the subscription and another call uses the authorizer`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let orders = try client.subscribe("private-orders", authorization: PusherChannelAuthorization(auth: "key:00"))
        try await expectEqual(self.failure(orders).code, .subscriptionRejected)
        try client.subscribe("private-orders")
        expectEqual(orders.state, .subscribed)
    }

    @Test func `an authorization that is passed has no effect on public and subscribed channels`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let wrong = PusherChannelAuthorization(auth: "key:00")
        try expectEqual(client.subscribe("prices", authorization: wrong).state, .subscribed)
        let orders = try client.subscribe("private-orders")
        try client.subscribe("private-orders", authorization: wrong)
        pusher.server.drop(try #require(client.socketID))
        pusher.clock.advance(by: .seconds(1))
        try await orders.subscribed()
        #expect(throws: PusherError.self) { try client.subscribe("", authorization: wrong) }
    }

    // MARK: By channel

    @Test func `a closure chooses an authorizer for each channel`() async throws {
        let pusher = try await InMemoryPusher()
        let asked = EventRecorder<String>()
        let endpoint = try await self.start(on: pusher) { fields, _ in
            let channel = fields["channel_name"] ?? fields["channel_name[0]"] ?? ""
            let auth = self.auth(channel, fields["socket_id"] ?? "", pusher)
            asked.record("\(fields["kind"] ?? "") \(channel)")
            let response = fields["channel_name"] == nil ? #"{"\#(channel)":{"auth":"\#(auth)"}}"# : #"{"auth":"\#(auth)"}"#
            return HTTPResponse(status: 200, text: response)
        }
        func form(_ kind: String) -> PusherAuthorizationEndpoint { PusherAuthorizationEndpoint(endpoint, parameters: ["kind": kind]) }
        let authorizers: [String: PusherAuthorizer] = [
            "private-endpoint": .endpoint(form("one")), "private-batch": .batchEndpoint(form("several")),
            "private-secret": .secret("secret"), "presence-secret": .secret("secret", userID: "anna"),
            "private-callback": .callback { request in pusher.signed(request) },
            "private-completion": .completion { request, complete in complete(.success(pusher.signed(request))) },
            "private-request": .request { request in
                let body = "kind=own&channel_name=\(request.channel)&socket_id=\(request.socketID)"
                return HTTPRequest("POST", endpoint, body: Array(body.utf8))
            },
        ]
        let client = pusher.client {
            $0.authorizer = .byChannel { channel in
                // One of them chooses again.
                channel.hasPrefix("presence-") ? .byChannel { authorizers[$0] } : authorizers[channel]
            }
        }
        let channels = try authorizers.keys.map { name in try client.subscribe(name) }
        client.connect()
        for channel in channels { try await channel.subscribed() }
        expectEqual(Set(asked.all), ["one private-endpoint", "several private-batch", "own private-request"])
        expectEqual(client.channel("presence-secret")?.members.map(\.id), ["anna"])
    }

    @Test func `a subscription fails if no authorizer is chosen, and one that fails is that of the chosen authorizer`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client {
            $0.authorizer = .byChannel { $0 == "private-none" ? nil : .callback { _ in throw UnknownError() } }
        }
        client.connect()
        let none = try await self.failure(try client.subscribe("private-none"))
        expect(none.code == .authorizationMissing && none.channel == "private-none" && !none.isTransient)
        expect(none.message.contains("byChannel(_:)"))
        let failing = try await client.subscriptionError("private-failing")
        expect(failing.code == .authorizationFailed && failing.cause is UnknownError && failing.isTransient)
    }

    @Test func `the closure that chooses may call the client, and one that chooses itself only fails its channel`() async throws {
        let pusher = try await InMemoryPusher()
        let box = Lock<PusherClient?>(nil)
        let client = pusher.client {
            // A closure that returns its own authorizer never comes to an end.
            @Sendable func choose(_ channel: String) -> PusherAuthorizer? {
                if channel == "private-endless" { return .byChannel(choose) }
                return box.withLock { $0 }?.channelNames.contains(channel) == true ? .secret("secret") : nil
            }
            $0.authorizer = .byChannel(choose)
        }
        box.withLock { $0 = client }
        client.connect()
        let orders = try client.subscribe("private-orders")
        try await orders.subscribed()
        let endless = try client.subscribe("private-endless")
        pusher.clock.advance(by: .seconds(30))
        guard case .failed(let error) = endless.state else {
            Issue.record("The subscription is \(endless.state).")
            return
        }
        expectEqual(error.code, .timedOut)
        client.unsubscribe("private-endless")
        box.withLock { $0 = nil }
    }

    // MARK: Batches

    @Test func `one request authorizes all channels of a client that connects`() async throws {
        let pusher = try await InMemoryPusher()
        let forms = EventRecorder<[String: String]>()
        let endpoint = try await self.start(on: pusher) { fields, _ in
            forms.record(fields)
            let socketID = fields["socket_id"] ?? ""
            let items = (0..<3).map { index in
                let channel = fields["channel_name[\(index)]"] ?? ""
                return #""\#(channel)":{"status":200,"data":{"auth":"\#(self.auth(channel, socketID, pusher))"}}"#
            }
            return HTTPResponse(status: 200, text: "{\(items.joined(separator: ","))}")
        }
        let client = pusher.client {
            $0.authorizer = .batchEndpoint(PusherAuthorizationEndpoint(endpoint, parameters: ["device": "phone"]))
        }
        let channels = try ["private-a", "private-b", "private-c"].map { name in try client.subscribe(name) }
        client.connect()
        for channel in channels { try await channel.subscribed() }
        let socketID = try #require(client.socketID)
        expectEqual(
            forms.all,
            [
                [
                    "socket_id": socketID, "device": "phone", "channel_name[0]": "private-a", "channel_name[1]": "private-b",
                    "channel_name[2]": "private-c",
                ]
            ])
    }

    @Test func `each channel of a batch has a result of its own`() async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await self.start(on: pusher) { fields, _ in
            let auth = self.auth("private-a", fields["socket_id"] ?? "", pusher)
            return HTTPResponse(
                status: 200,
                text: #"""
                    {"private-a":{"auth":"\#(auth)"},"private-b":{"status":403},"private-c":{"status":503},"private-d":{"status":200}}
                    """#)
        }
        let client = pusher.client { $0.authorizer = .batchEndpoint(PusherAuthorizationEndpoint(endpoint)) }
        let names = ["private-a", "private-b", "private-c", "private-d", "private-e"]
        let channels = try names.map { name in try client.subscribe(name) }
        client.connect()
        try await channels[0].subscribed()
        var errors: [PusherError] = []
        for channel in channels.dropFirst() {
            guard case .failed(let error) = channel.state else { continue }
            errors.append(error)
        }
        expect(errors.map(\.channel) == names.dropFirst().map { $0 } && errors.map(\.status) == [403, 503, 200, nil])
        expectEqual(errors.map(\.isTransient), [false, true, false, false])
    }

    @Test func `the failure of a batch is that of each of its channels`() async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await self.start(on: pusher) { _, _ in HTTPResponse(status: 500) }
        let client = pusher.client { $0.authorizer = .batchEndpoint(PusherAuthorizationEndpoint(endpoint)) }
        let channels = try ["private-a", "private-b"].map { name in try client.subscribe(name) }
        client.connect()
        for channel in channels {
            let error = try await self.failure(channel)
            expect(error.channel == channel.name && error.status == 500 && error.isTransient)
        }
    }
}

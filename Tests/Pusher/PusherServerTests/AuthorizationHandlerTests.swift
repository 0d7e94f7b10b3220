import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct AuthorizationHandlerTests {
    private let pusher: InMemoryPusher

    init() async throws {
        self.pusher = try await InMemoryPusher()
    }

    private func start(_ handler: PusherAuthorizationHandler) async throws {
        _ = try await self.pusher.network.listener(host: "app", port: 80).start(handler)
    }

    /// A client that asks the handler.
    private func client(headers: HTTPHeaders = [:], parameters: [String: String] = [:]) throws -> PusherClient {
        let endpoint = PusherAuthorizationEndpoint(try Endpoint("http://app/pusher/auth"), headers: headers, parameters: parameters)
        let client = self.pusher.client { $0.authorizer = .endpoint(endpoint) }
        client.connect()
        return client
    }

    private func send(_ method: String, headers: HTTPHeaders = [:], _ body: String = "") async throws -> HTTPResponse {
        let endpoint = try Endpoint("http://app/pusher/auth")
        return try await self.pusher.network.http.send(HTTPRequest(method, endpoint, headers: headers, body: Array(body.utf8)))
    }

    @Test func `private and presence channels are authorized`() async throws {
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app))
        let client = try self.client()
        try await client.subscribe("private-orders").subscribed()
        let room = try client.subscribe("presence-room")
        try await room.subscribed()
        expectEqual(room.members.me?.id, client.socketID)
    }

    @Test func `the closure chooses the user of a presence channel`() async throws {
        try await self.start(
            PusherAuthorizationHandler(app: self.pusher.server.app) { _ in .accept(userID: "anna", userInfo: ["name": "Anna \"A.\""]) })
        let room = try self.client().subscribe("presence-room")
        try await room.subscribed()
        expectEqual(room.members.me?.id, "anna")
        expectEqual(room.members.me?.info?["name"], "Anna \"A.\"")
    }

    @Test func `the closure receives the request, the socket ID, the channel and the other fields`() async throws {
        let attempts = EventRecorder<PusherAuthorizationAttempt>()
        try await self.start(
            PusherAuthorizationHandler(app: self.pusher.server.app) { attempt in
                attempts.record(attempt)
                return .accept()
            })
        let client = try self.client(headers: ["Authorization": "Bearer token"], parameters: ["session": "a b&c=d"])
        try await client.subscribe("private-orders").subscribed()
        let attempt = try #require(attempts.all.first)
        expectEqual(attempts.all.count, 1)
        expectEqual(attempt.socketID, client.socketID)
        expectEqual(attempt.channel, "private-orders")
        expectEqual(attempt.parameters, ["session": "a b&c=d"])
        expectEqual(attempt.request.target, "/pusher/auth")
        expectEqual(attempt.request.headers["Authorization"], "Bearer token")
    }

    @Test func `a rejected subscription fails with status 403 and the message`() async throws {
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app) { _ in .reject(message: "Only for staff.") })
        let staff = try self.client().subscribe("private-staff")
        let error = await #expect(throws: PusherError.self) { try await staff.subscribed() }
        expectEqual(error?.code, .authorizationFailed)
        expectEqual(error?.message.contains("403"), true)
        let response = try await self.send("POST", "socket_id=1.2&channel_name=private-staff")
        expectEqual(response, HTTPResponse(status: 403, headers: ["Content-Type": "text/plain; charset=utf-8"], text: "Only for staff.\n"))
    }

    @Test func `the closure is cancelled when the client disconnects`() async throws {
        let gate = Gate<PusherAuthorizationAttempt, PusherAuthorizationDecision>()
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app) { await gate.call($0) })
        let client = try self.client()
        try client.subscribe("private-orders")
        let call = await gate.next()
        client.disconnect()
        while gate.cancelled.all.isEmpty { await Task.yield() }
        call.resume(returning: .accept())
    }

    @Test func `the handler shares a listener with the server`() async throws {
        let server = PusherServer(app: self.pusher.server.app, network: self.pusher.network, log: .none)
        let authorization = PusherAuthorizationHandler(app: server.app)
        let router = ListenerRouter([.exactPath("/pusher/auth", authorization), .path("/", server.listenerHandler)])
        _ = try await self.pusher.network.listener(host: "app", port: 80).start(router)
        var configuration = PusherConfiguration(key: server.app.key, host: "app", port: 80, useTLS: false)
        configuration.transports = self.pusher.network.transports()
        configuration.authorizer = try .endpoint("http://app/pusher/auth")
        let client = PusherClient(configuration)
        client.connect()
        try await client.subscribe("private-orders").subscribed()
        expectEqual(server.subscribers(of: "private-orders").count, 1)
        for (path, status) in [("/pusher/auth", 405), ("/pusher/auth?x", 405), ("/pusher/auth/", 404), ("/pusher/auth/x", 404)] {
            let request = HTTPRequest("GET", try Endpoint("http://app\(path)"))
            try await expectEqual(self.pusher.network.http.send(request).head.status, status)
        }
    }

    @Test(arguments: [
        ("GET", "", 405, "Unsupported method GET"),
        ("POST", "", 400, "the fields socket_id and channel_name"),
        ("POST", "socket_id=1.2", 400, "the fields socket_id and channel_name"),
        ("POST", #"{"socket_id":"1.2","channel_name":"private-a"}"#, 400, "the fields socket_id and channel_name"),
        ("POST", "socket_id=1.2&channel_name=private-%zz", 400, "percent-encoded"),
        ("POST", "socket_id=1.2&channel_name=%ff", 400, "percent-encoded"),
        ("POST", "socket_id=1.2:private-b&channel_name=private-a", 400, "Invalid socket_id"),
        ("POST", "socket_id=1.&channel_name=private-a", 400, "Invalid socket_id"),
        ("POST", "socket_id=1.2.3&channel_name=private-a", 400, "Invalid socket_id"),
        ("POST", "socket_id=1.2&channel_name=private-a:b", 400, "invalid character"),
        ("POST", "socket_id=1.2&channel_name=prices", 400, "prices is a public channel"),
        ("POST", "socket_id=1.2&channel_name=private-encrypted-a", 501, "set the encryptionMasterKey"),
        ("POST", "socket_id=1.2" + String(repeating: "&channel_name[]=private-a", count: 101), 400, "101 instead of at most 100"),
    ])
    func `an invalid request receives a response that says why`(
        row: (method: String, body: String, status: Int, message: String)
    ) async throws {
        var app = self.pusher.server.app
        app.encryptionMasterKey = nil
        try await self.start(
            PusherAuthorizationHandler(app: app) { _ in
                Issue.record("the closure should not be called")
                return .accept()
            })
        let response = try await self.send(row.method, row.body)
        expectEqual(response.head.status, row.status)
        expect(String(decoding: response.body, as: UTF8.self).contains(row.message))
        expectEqual(response.head.headers["Allow"], (row.status == 405 ? "POST" : nil))
    }

    @Test func `the channels of one request have a status each`() async throws {
        let attempts = EventRecorder<String>()
        try await self.start(
            PusherAuthorizationHandler(app: self.pusher.server.app) { attempt in
                attempts.record("\(attempt.channel) \(attempt.parameters["session"] ?? "")")
                return attempt.channel == "private-b" ? .reject(message: "Not private-b.") : .accept(userID: "anna")
            })
        let channels = ["private-a", "private-b", "prices", "presence-a", "private-encrypted-a"]
        let form = channels.enumerated().map { "channel_name%5B\($0.offset)%5D=\($0.element)" }.joined(separator: "&")
        let response = try await self.send("POST", form + "&socket_id=1.2&session=x")
        let json = try JSONValue(parsing: response.body)
        expectEqual(response.head.status, 200)
        expectEqual(channels.map { json[$0]?["status"]?.int }, [200, 403, 400, 200, 200])
        expect(json["private-b"]?["error"] == "Not private-b." && json["private-b"]?["data"] == nil)
        expectEqual(json["presence-a"]?["data"]?["channel_data"], #"{"user_id":"anna"}"#)
        expectEqual(json["private-encrypted-a"]?["data"]?["shared_secret"]?.string?.isEmpty, false)
        expectEqual(attempts.all.sorted(), ["presence-a x", "private-a x", "private-b x", "private-encrypted-a x"])
    }

    @Test func `a client authorizes its channels with one request`() async throws {
        let requests = EventRecorder<HTTPRequestHead>()
        try await self.start(
            PusherAuthorizationHandler(app: self.pusher.server.app) { attempt in
                requests.record(attempt.request)
                return attempt.channel == "private-3" ? .reject() : .accept()
            })
        let endpoint = PusherAuthorizationEndpoint(try Endpoint("http://app/pusher/auth"))
        let client = self.pusher.client { $0.authorizer = .batchEndpoint(endpoint) }
        let channels = try (1...5).map { try client.subscribe("private-\($0)") }
        client.connect()
        for (index, channel) in channels.enumerated() where index != 2 { try await channel.subscribed() }
        let error = await #expect(throws: PusherError.self) { try await channels[2].subscribed() }
        expect(error?.code == .authorizationFailed && error?.message.contains("403") == true)
        expect(requests.all.count == 5 && Set(requests.all.map { $0.headers["Content-Length"] }).count == 1)
    }

    @Test func `a WebSocket is rejected`() async throws {
        let handler = PusherAuthorizationHandler(app: self.pusher.server.app)
        guard case .reject(let response) = handler.upgrade(HTTPRequestHead(method: "GET", target: "/app/key")) else {
            Issue.record("the upgrade should be rejected")
            return
        }
        expectEqual(response.head.status, 404)
    }

    // MARK: Users

    @Test func `a closure decides about users who sign in`() async throws {
        let handler = PusherAuthorizationHandler(app: self.pusher.server.app) { _ in
            .accept()
        } authenticateUser: { attempt in
            guard let user = attempt.parameters["user"] else { return .reject() }
            return .accept(userID: user, userInfo: ["socket": .string(attempt.socketID)], watchlist: ["bert"])
        }
        try await self.start(handler)
        let endpoint = PusherAuthorizationEndpoint(try Endpoint("http://app/pusher/user-auth"), parameters: ["user": "anna"])
        let client = self.pusher.client { $0.userAuthenticator = .endpoint(endpoint) }
        client.connect()
        client.user.signIn()
        try await expectEqual(client.user.signedIn().id, "anna")
        expectEqual(self.pusher.server.socketIDs(ofUser: "anna").count, 1)
        let accepted = try await self.send("POST", "socket_id=1.2&user=anna")
        let userData = #"{"id":"anna","user_info":{"socket":"1.2"},"watchlist":["bert"]}"#
        let json = try JSONValue(parsing: accepted.body)
        expect(accepted.head.status == 200 && json["user_data"]?.string == userData)
        expectEqual(json["auth"]?.string, UserSignature.token(key: "key", secret: "secret", socketID: "1.2", userData: userData))
        let rejected = try await self.send("POST", "socket_id=1.2")
        expect(rejected.head.status == 403 && rejected.body == Array("The user is not authenticated.\n".utf8))
        // The ID of the user is a part of the name of a channel.
        try await expectEqual(self.send("POST", "socket_id=1.2&user=a+b").head.status, 400)
        // Of another text, the signature could be valid for something else.
        try await expectEqual(self.send("POST", "socket_id=1.2::user&user=anna").head.status, 400)
        // Channels are authorized as without the closure.
        try await expectEqual(self.send("POST", "socket_id=1.2&channel_name=prices").head.status, 400)
    }

    // MARK: Web pages

    private static let form = "socket_id=1.2&channel_name=private-a"

    @Test func `a page of a listed origin may send cookies and read the response`() async throws {
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app, origins: ["https://example.org"]))
        let headers: HTTPHeaders = [
            "Origin": "https://example.org", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization",
        ]
        let preflight = try await self.send("OPTIONS", headers: headers)
        expectEqual(preflight.head.status, 204)
        expectEqual(preflight.head.headers["Access-Control-Allow-Methods"], "POST")
        expectEqual(preflight.head.headers["Access-Control-Allow-Headers"], "authorization")
        for response in [preflight, try await self.send("POST", headers: headers, Self.form)] {
            expectEqual(response.head.headers["Access-Control-Allow-Origin"], "https://example.org")
            expectEqual(response.head.headers["Access-Control-Allow-Credentials"], "true")
            expectEqual(response.head.headers["Vary"], "Origin")
        }
        // A page also reads why a request was rejected.
        let invalid = try await self.send("POST", headers: headers)
        expectEqual(invalid.head.status, 400)
        expectEqual(invalid.head.headers["Access-Control-Allow-Origin"], "https://example.org")
    }

    @Test func `a page of any origin may read the response if all origins are allowed`() async throws {
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app, origins: ["*"]))
        let response = try await self.send("POST", headers: ["Origin": "https://example.org"], Self.form)
        expectEqual(response.head.status, 200)
        expectEqual(response.head.headers["Access-Control-Allow-Origin"], "*")
        expectNil(response.head.headers["Access-Control-Allow-Credentials"])
    }

    @Test func `the response to a page of another origin has no fields that let it be read`() async throws {
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app, origins: ["https://example.org"]))
        let preflight = try await self.send("OPTIONS", headers: ["Origin": "https://example.com"])
        expectEqual(preflight.head.status, 403)
        expect(String(decoding: preflight.body, as: UTF8.self).contains("https://example.com"))
        for headers: HTTPHeaders in [["Origin": "https://example.com"], [:]] {
            let response = try await self.send("POST", headers: headers, Self.form)
            expectNil(response.head.headers["Access-Control-Allow-Origin"])
        }
    }

    @Test func `a user without an ID is rejected for a presence channel`() async throws {
        try await self.start(PusherAuthorizationHandler(app: self.pusher.server.app) { _ in .accept(userID: "") })
        let client = try self.client()
        try await client.subscribe("private-orders").subscribed()
        let error = await #expect(throws: PusherError.self) { try await client.subscribe("presence-room").subscribed() }
        expectEqual(error?.status, 400)
    }

    @Test(
        arguments: [
            (["user_id": "x129"], "The user_id has 129 characters; it can have at most 128. Use a shorter value.\n"),
            (["user_id": "a\u{7}b"], "The user_id contains a control character, such as a line break. Remove it.\n"),
            (["user_id": "a\u{85}b"], "The user_id contains a control character, such as a line break. Remove it.\n"),
            (["user_id": "anna", "info": "x"], "The user_info has 1025 bytes; it can have at most 1024. Use a shorter value.\n"),
            (["user_id": "x128"], nil), (["user_id": "\u{1F600} Anna"], nil),
        ] as [([String: String], String?)])
    func `a user whom the server would reject isn't signed`(fields: [String: String], message: String?) async throws {
        let id = try #require(fields["user_id"])
        let count = id.hasPrefix("x") ? Int(id.dropFirst()) : nil
        let userID = count.map { String(repeating: "x", count: $0) } ?? id
        let info = fields["info"].map { ["n": .string(String(repeating: $0, count: 1_017))] as JSONValue }
        let handler = PusherAuthorizationHandler(app: self.pusher.server.app) { _ in
            .accept(userID: userID, userInfo: info)
        } authenticateUser: { _ in
            .accept(userID: "anna", userInfo: info)
        }
        try await self.start(handler)
        let response = try await self.send("POST", "socket_id=1.2&channel_name=presence-a")
        expectEqual(response.head.status, (message == nil ? 200 : 400))
        if let message { expectEqual(String(decoding: response.body, as: UTF8.self), message) }
        // The user of a private channel has no meaning.
        try await expectEqual(self.send("POST", "socket_id=1.2&channel_name=private-a").head.status, 200)
        try await expectEqual(self.send("POST", "socket_id=1.2").head.status, (info == nil ? 200 : 400))
    }
}

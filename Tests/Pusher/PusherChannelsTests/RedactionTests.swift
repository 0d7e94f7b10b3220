import Foundation
import PusherChannels
import PusherTesting
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherServer

/// The text of public values: what `print`, `dump`, interpolation, `String(reflecting:)` and mirrors show.
@Suite struct RedactionTests {
    /// A part of every secret in these tests.
    private static let marker = "hunter2"

    private struct MarkerError: Error, CustomStringConvertible {
        var description: String { RedactionTests.marker }
    }

    private final class Body: HTTPBody {
        func next() async throws(TransportError) -> [UInt8]? { nil }
    }

    // MARK: The values

    private static let text = "secret-\(marker)"
    private static let headers: HTTPHeaders = [
        "Authorization": "Bearer \(text)", "Cookie": text, "X-Token": text, "Content-Type": "text/plain",
    ]
    private static let endpoint = Endpoint(scheme: "https", host: "\(marker):\(marker)@host", port: 443, target: "/auth?token=\(marker)")
    private static let identity = TLSIdentity(certificateChain: .file("/certificate.pem"), privateKey: .text(text))
    private static let response = HTTPResponse(status: 401, headers: headers, text: text)
    private static let request = HTTPRequestHead(method: "GET", target: "/app?auth_signature=\(marker)", headers: headers)
    private static let message = TransportMessage.text(#"{"event":"pusher:subscribe","data":{"auth":"key:\#(marker)"}}"#)
    private static let error = PusherError(.failed, "Failed.", cause: MarkerError())
    private static let member = PusherMember(id: "me", info: ["name": "Anna"])

    private static let authorizationEndpoint = PusherAuthorizationEndpoint(
        endpoint, headers: headers, parameters: ["session": text], freshHeaders: { headers }, freshParameters: { ["session": text] })

    private static let authorizers: [PusherAuthorizer] = [
        .secret(text, userID: "me", userInfo: .string(text)), .endpoint(authorizationEndpoint),
        .callback { _ in PusherChannelAuthorization(auth: text) }, .batchEndpoint(authorizationEndpoint),
        .request { _ in HTTPRequest("POST", endpoint) }, .completion { _, complete in complete(.failure(MarkerError())) },
        .byChannel { _ in .secret(text) },
    ]

    private static let proxyCredentials = ProxyConfiguration.Credentials(username: "anna-\(marker)", password: text)

    private static let proxies: [ProxyConfiguration] = [
        .http(host: "proxy.test", port: 3128, credentials: proxyCredentials), .socks5(host: "proxy.test", credentials: proxyCredentials),
        // The wrong place for credentials.
        .http(host: "\(marker):\(marker)@proxy.test", port: 3128),
    ]

    private static func tls() -> TLSConfiguration {
        var configuration = TLSConfiguration()
        configuration.identity = Self.identity
        configuration.trustRoots = .only([.text(Self.text)])
        return configuration
    }

    private static var webhooks: PusherServerWebhooks {
        var webhooks = PusherServerWebhooks([Self.endpoint])
        webhooks.headers = Self.headers
        return webhooks
    }

    private static func configuration(_ authorizer: PusherAuthorizer) -> PusherConfiguration {
        var configuration = PusherConfiguration(key: "key", endpoint: Self.endpoint)
        configuration.authorizer = authorizer
        configuration.userAuthenticator = .secret(Self.text, user: Self.member)
        configuration.headers = Self.headers
        configuration.transports = Transports(
            webSocket: SocketWebSocketTransport(tls: Self.tls(), proxy: Self.proxies[0]),
            http: SocketHTTPTransport(tls: Self.tls(), proxy: Self.proxies[1]), time: ManualClock().time)
        return configuration
    }

    private static func authorizationForm() throws -> PusherAuthorizationForm {
        var request = Self.request
        request.method = "POST"
        let body = "socket_id=1.2&channel_name=private-one&session=\(Self.text)"
        return try PusherAuthorizationForm(request, body: Array(body.utf8))
    }

    /// Values that contain the marker wherever they can contain a secret, by the names of their types.
    private static func secretValues() throws -> [String: [Any]] {
        let app = PusherApp(id: "1", key: "key", secret: Self.text)
        let clients = Self.authorizers.map { PusherClient(Self.configuration($0)) }
        return [
            "Endpoint": [Self.endpoint],
            "HTTPHeaders": [Self.headers],
            "HTTPHeaders.Field": Self.headers.fields,
            "HTTPRequest": [HTTPRequest("POST", Self.endpoint, headers: Self.headers, body: Array(Self.text.utf8))],
            "HTTPRequestHead": [Self.request],
            "HTTPResponse": [Self.response],
            "HTTPResponseHead": [Self.response.head],
            "HTTPStreamedResponse": [HTTPStreamedResponse(Self.response.head, body: Body())],
            "MessageBatch": [MessageBatch([Self.message])],
            "PEM": [PEM.text(Self.text)],
            "ProxyConfiguration": Self.proxies,
            "ProxyConfiguration.Credentials": [Self.proxyCredentials],
            "PusherApp": [app],
            "PusherAuthorizationAttempt": [
                try PusherAuthorizationAttempt(Self.authorizationForm(), channel: "private-a", PusherApp.random())
            ],
            "PusherAuthorizationEndpoint": [Self.authorizationEndpoint],
            "PusherAuthorizationHandler": [PusherAuthorizationHandler(app: app)],
            "PusherAuthorizer": Self.authorizers,
            "PusherUserAuthenticator": [
                PusherUserAuthenticator.endpoint(Self.authorizationEndpoint),
                PusherUserAuthenticator.callback { _ in throw CancellationError() },
                PusherUserAuthenticator.secret(Self.text, user: PusherMember(id: "me", info: .string(Self.text))),
            ],
            "PusherUser": clients.map(\.user),
            "PusherChannel": try clients.map { try $0.subscribe("private-one") },
            "PusherChannelAuthorization": [
                PusherChannelAuthorization(auth: Self.text, channelData: Self.text, sharedSecret: Self.text)
            ],
            "PusherClient": clients,
            "PusherConfiguration": Self.authorizers.map(Self.configuration),
            "PusherConnectionAttempt": [PusherConnectionAttempt(socketID: "1.2", request: Self.request)],
            "PusherConnectionState": [PusherConnectionState.failed(Self.error), PusherConnectionState.disconnected(Self.error)],
            "PusherEcho": clients.map { PusherEcho($0) },
            "PusherEchoChannel": try clients.map { try PusherEcho($0).private("one") },
            "PusherError": [Self.error, PusherError(.failed, "Failed.", cause: Self.error)],
            "PusherPublisher": [PusherPublisher(appID: "1", key: "key", secret: Self.text, endpoint: Self.endpoint)],
            "PusherRetryContext": [PusherRetryContext(retryCount: 1, elapsed: .zero, reason: Self.error)],
            "PusherServer": [PusherServer(app: app)],
            "PusherServerEvent": [PusherServerEvent.received(socketID: "1.2", frame: String(decoding: Self.message.bytes, as: UTF8.self))],
            "PusherServerWebhooks": [Self.webhooks],
            "StateChange": [PusherStateChange<PusherConnectionState>(old: .connecting, new: .failed(Self.error))],
            "PusherSubscriptionState": [PusherSubscriptionState.failed(Self.error)],
            "PusherUserAuthenticationAttempt": [PusherUserAuthenticationAttempt(try Self.authorizationForm())],
            "PusherUserAuthentication": [PusherUserAuthentication(auth: Self.text, userData: Self.text)],
            "PusherUpdate": [PusherUpdate.error(Self.error), PusherUpdate.state(.failed(Self.error))],
            "SocketHTTPTransport": [SocketHTTPTransport(tls: Self.tls(), proxy: Self.proxies[0])],
            "SocketListener": [SocketListener(tls: TLSServerConfiguration(Self.identity))],
            "SocketWebSocketTransport": [SocketWebSocketTransport(tls: Self.tls(), proxy: Self.proxies[1])],
            "TLSConfiguration": [Self.tls()],
            "TLSConfiguration.TrustRoots": [Self.tls().trustRoots, TLSConfiguration.TrustRoots.systemAnd([.text(Self.text)])],
            "TLSIdentity": [Self.identity],
            "TLSServerConfiguration": [TLSServerConfiguration(Self.identity)],
            "TLSServerConfiguration.ClientCertificates": [
                TLSServerConfiguration.ClientCertificates.required(roots: [.text(Self.text)])
            ],
            "TransportError": [TransportError(.requestRejected, "Rejected.", response: Self.response)],
            "Transports": [Self.configuration(Self.authorizers[0]).transports],
            "UpgradeDecision": [
                UpgradeDecision.reject(Self.response),
                UpgradeDecision.accept(subprotocol: Self.text, headers: Self.headers, to: Acceptor()),
            ],
            "UpgradeResponder.Answer": [
                UpgradeResponder.Answer.reject(Self.response),
                UpgradeResponder.Answer.accept(subprotocol: Self.text, headers: Self.headers, to: Acceptor()),
            ],
            "TransportMessage": [Self.message],
            "WebSocketRequest": [WebSocketRequest(Self.endpoint, headers: Self.headers, subprotocols: [Self.text])],
        ]
    }

    private struct Acceptor: UpgradeAcceptor {
        let text = RedactionTests.text

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents { preconditionFailure("not called") }
    }

    private static func conditionErrors() async throws -> [ConditionError] {
        do {
            try await eventually("true", within: .zero) { false }
            return []
        } catch let error as ConditionError {
            return [error]
        }
    }

    /// Values of the types that contain no secrets.
    private static func otherValues() async throws -> [String: [Any]] {
        let network = InMemoryNetwork(clock: ManualClock())
        let members = PusherMembers([Self.member], myID: "me")
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("one")
        let events = channel.events()
        pusher.server.publish("a", to: "one", data: "1")
        return [
            "ConditionError": try await Self.conditionErrors(),
            "Backoff": [Backoff(base: .seconds(1), cap: .seconds(2))],
            "BufferPolicy": [BufferPolicy.standard],
            "CloseCode": [CloseCode.normal],
            "CloseReason": [CloseReason.requested],
            "ConnectionID": [ConnectionID(rawValue: 1)], "ExchangeID": [ExchangeID(rawValue: 1)],
            "Counters": [Counters()],
            "EndReason": [EndReason.ended],
            "EventRecorder": [EventRecorder<Int>()],
            "EventSequence": [events],
            "EventSequence.AsyncIterator": [channel.events().makeAsyncIterator()],
            "InMemoryPusher": [pusher],
            "InMemoryListener": [network.listener()],
            "InMemoryNetwork": [network],
            "InMemoryNetwork.Condition": [InMemoryNetwork.Condition.up],
            "JSONError": [JSONError(.notAnObject, at: 1)],
            "JSONError.Code": [JSONError.Code.notAnObject],
            "CodingLimits": [CodingLimits()],
            "JSONNumber": [JSONNumber(1)],
            "JSONObject": [["a": 1] as JSONObject],
            "JSONValue": [["a": 1] as JSONValue],
            "JSONValueDecoder": [JSONValueDecoder()],
            "JSONValueDecoder.DataStrategy": [JSONValueDecoder.DataStrategy.base64],
            "JSONValueDecoder.DateStrategy": [JSONValueDecoder.DateStrategy.iso8601],
            "JSONValueDecoder.KeyStrategy": [JSONValueDecoder.KeyStrategy.useDefaultKeys],
            "JSONValueEncoder": [JSONValueEncoder()],
            "JSONValueEncoder.KeyStrategy": [JSONValueEncoder.KeyStrategy.useDefaultKeys],
            "KeepAliveLimits": [KeepAliveLimits()],
            "ListenerAddress": [ListenerAddress(host: "host", port: 1)],
            "ListenerLimits": [ListenerLimits()],
            "ListenerRouter": [ListenerRouter([])],
            "ListenerRouter.Route": [ListenerRouter.Route.path("/", ListenerRouter([]))],
            "LogSink": [LogSink(minimumLevel: .debug) { _, _, _ in }],
            "LogSink.Level": [LogSink.Level.debug],
            "ManualClock": [ManualClock()],
            "ManualClock.Instant": [ManualClock().now],
            "MessageBatch.Entry": [MessageBatch.Entry(.text, 0..<1)],
            "MessagePackDecoder": [MessagePackDecoder()],
            "MessagePackDecoder.KeyStrategy": [MessagePackDecoder.KeyStrategy.ignoreCase],
            "MessagePackEncoder": [MessagePackEncoder()],
            "MessagePackEncoder.KeyStrategy": [MessagePackEncoder.KeyStrategy.convertToPascalCase],
            "MessagePackError": [MessagePackError(.unexpectedEnd, at: 1)],
            "MessagePackError.Code": [MessagePackError.Code.unexpectedEnd],
            "MessagePackTimestamp": [MessagePackTimestamp(seconds: 1)],
            "MessagePackValue": [["a": 1] as MessagePackValue],
            "MessagePackValue.Member": [MessagePackValue.Member("a", 1)],
            "NetworkPathMonitor": [NetworkPathMonitor()],
            "PusherAuthorizationDecision": [PusherAuthorizationDecision.accept(), PusherAuthorizationDecision.reject()],
            "PusherUserAuthenticationDecision": [
                PusherUserAuthenticationDecision.accept(userID: "a"), PusherUserAuthenticationDecision.reject(),
            ],
            "PusherAuthorizationRefusal": [PusherAuthorizationRefusal()],
            "PusherAuthorizationRequest": [PusherAuthorizationRequest(channel: "private-one", socketID: "1.2")],
            "PusherBatchEvent": [try PusherBatchEvent("a", on: "one", data: 1)],
            "PusherChannelAttribute": [PusherChannelAttribute.userCount],
            "PusherChannelInfo": [PusherChannelInfo(userCount: 1)],
            "PusherChannelInfo.CachedEvent": [PusherChannelInfo.CachedEvent(data: "1")],
            "PusherChannelKind": [PusherChannelKind.private],
            "PusherChannelUser": [PusherChannelUser(id: "me")],
            "PusherClientEventAttempt": [
                PusherClientEventAttempt(socketID: "1.2", channel: "private-one", name: "client-a", data: "1")
            ],
            "PusherClientEventLimit": [PusherClientEventLimit()],
            "PusherClientEventLimit.Excess": [PusherClientEventLimit.Excess.wait],
            "PusherDecryptionFailure": [PusherDecryptionFailure(event: PusherEvent(name: "a", data: Self.marker), reason: .wrongKey)],
            "PusherDecryptionFailure.Reason": [PusherDecryptionFailure.Reason.wrongKey],
            "PusherDecodedEvents": [channel.events("a", as: Int.self)],
            "PusherDecodedEvents.AsyncIterator": [channel.events("a", as: Int.self).makeAsyncIterator()],
            "CallbackExecutor": [PusherCallbackExecutor.tasks],
            "CallbackObservation": [client.on(on: .tasks) { _ in }],
            "TracedFrame": [PusherFrameTrace(.sent, "{}")],
            "TracedFrame.Direction": [PusherFrameTrace.Direction.received],
            "PusherRetryPolicy": [PusherRetryPolicy.delays([.seconds(1)]), PusherRetryPolicy.custom { _ in nil }],
            "PusherError.Code": [PusherError.Code.failed],
            "PusherEvent": await events.pending(),
            "PusherGap": [PusherGap(channel: "one", duration: .seconds(1))],
            "PusherRecovery": [PusherRecovery.sockudo], "PusherDeltaCompression": [PusherDeltaCompression.fossil],
            "PusherFilter": [PusherFilter.all([.equals("region", "eu"), .isIn("kind", ["a", "b"])])],
            "PusherRecoveryFailure": [PusherRecoveryFailure.streamReset, PusherRecoveryFailure.other("no")],
            "PusherMember": [Self.member],
            "PusherMemberChange": [
                PusherMemberChange.joined(Self.member), PusherMemberChange.subscribed(members),
                PusherMemberChange.resubscribed(members, joined: [Self.member], left: []),
            ],
            "PusherMembers": [members],
            "PusherMembers.Iterator": [members.makeIterator()],
            "PusherDataForm": [PusherDataForm.json],
            "PusherServerDecision": [PusherServerDecision.accept],
            "PusherServerFaults": [PusherServerFaults()],
            "PusherServerHooks": [PusherServerHooks()],
            "PusherServerRouter": [PusherServerRouter([pusher.server])],
            "PusherServerProfile": [PusherServerProfile.pusher, PusherServerProfile.slanger],
            "PusherServerProfile.Pings": [PusherServerProfile.Pings.events],
            "PusherServerProfile.SubscriptionErrors": [PusherServerProfile.SubscriptionErrors.error],
            "PusherServerProfile.WatchlistEvents": [PusherServerProfile.WatchlistEvents.grouped],
            "PusherSignInState": [PusherSignInState.pending, PusherSignInState.signedIn(Self.member)],
            "PusherWatchlistChange": [PusherWatchlistChange.online(["anna"])],
            "PusherSubscriptionAttempt": [PusherSubscriptionAttempt(socketID: "1.2", channel: "presence-one", userID: "me")],
            "PusherWebhook": [PusherWebhook(key: "key", unixMilliseconds: 1, events: [])],
            "PusherWebhookEvent": [PusherWebhookEvent.channelOccupied(channel: "one")],
            "TLSConfiguration.Verification": [TLSConfiguration.Verification.full],
            "TLSVersion": [TLSVersion.tls12],
            "TransportError.Code": [TransportError.Code.closed],
            "UpgradeResponder": [UpgradeResponder { _ in }],
            "TransportMessage.Kind": [TransportMessage.Kind.text],
        ]
    }

    // MARK: The tests

    @Test func `the text of a value contains no secret`() async throws {
        for (name, values) in try Self.secretValues() {
            for value in values {
                expectEqual(PrintedText.typeName(of: value), name)
                let leak = PrintedText.texts(of: value).first { $0.contains(Self.marker) }
                expectNil(leak, "\(name)")
            }
        }
    }

    /// Encoders and decoders, which print their settings as Swift does.
    private static let coders: Set<String> = ["JSONValueDecoder", "JSONValueEncoder", "MessagePackDecoder", "MessagePackEncoder"]

    @Test func `the text of a value shows nothing of how it is stored`() async throws {
        for (name, values) in try await Self.secretValues().merging(Self.otherValues(), uniquingKeysWith: +) {
            if Self.coders.contains(name) { continue }
            for value in values { expectNil(PrintedText.internals(of: value), "\(name)") }
        }
    }

    @Test func `the text of a value says what it means`() async throws {
        let (pusher, member) = (try await InMemoryPusher(), Self.member)
        let client = pusher.client()
        let channel = try client.subscribe("one")
        let members = PusherMembers([member], myID: "me")
        let texts: [(Any, String)] = [
            (PusherConnectionState.connecting, "connecting"),
            (PusherConnectionState.connected(socketID: "1.2"), #"connected(socketID: "1.2")"#),
            (PusherConnectionState.disconnected(nil), "disconnected"),
            (PusherConnectionState.disconnected(Self.error), "disconnected(Failed.)"),
            (PusherStateChange<PusherConnectionState>(old: .connecting, new: .failed(Self.error)), "connecting -> failed(Failed.)"),
            (PusherSubscriptionState.failed(Self.error), "failed(Failed.)"),
            (PusherSignInState.signedIn(member), #"signedIn(PusherMember(id: "me", info: {"name":"Anna"}))"#),
            (PusherMemberChange.joined(PusherMember(id: "x")), #"joined(PusherMember(id: "x", info: nil))"#),
            (PusherMemberChange.subscribed(members), "subscribed(\(members))"),
            (PusherUpdate.event(PusherEvent(name: "a", data: "1")), "event(\(PusherEvent(name: "a", data: "1")))"),
            (PusherUpdate.sentFrame("{}"), "sentFrame({})"), (PusherUpdate.state(.connecting), "state(connecting)"),
            (PusherUpdate.subscription(channel: "one", .pending), #"subscription(channel: "one", pending)"#),
            (PusherUpdate.watchlist(.online(["anna"])), #"watchlist(online(["anna"]))"#),
            (
                PusherGap(channel: "one", duration: .seconds(1)),
                #"PusherGap(channel: "one", duration: 1.0 seconds, recoveryFailure: nil)"#
            ), (PusherFrameTrace(.sent, "{}"), "sent {}"),
            (PusherRetryPolicy.delays([.seconds(1)]), "delays([1.0 seconds])"), (PusherRetryPolicy.custom { _ in nil }, "custom"),
            (
                PusherRetryContext(retryCount: 1, elapsed: .zero, reason: Self.error),
                "PusherRetryContext(retryCount: 1, elapsed: 0.0 seconds, reason: Failed.)"
            ), (PusherChannelInfo(userCount: 1), "PusherChannelInfo(isOccupied: nil, userCount: 1, subscriptionCount: nil, cache: nil)"),
            (PusherChannelAttribute.userCount, "user_count"), (Set([PusherChannelAttribute.userCount]), "[user_count]"),
            (
                PusherWebhook(key: "key", unixMilliseconds: 1, events: [.channelOccupied(channel: "one")]),
                #"PusherWebhook(key: "key", unixMilliseconds: 1, events: [channelOccupied(channel: "one")])"#
            ),
            (
                PusherWebhookEvent.clientEvent(channel: "one", event: "a", data: "1", socketID: "1.2", userID: nil),
                #"clientEvent(channel: "one", event: "a", data: "1", socketID: "1.2")"#
            ), (client.user, "PusherUser(state: signedOut)"),
            (channel.events("a", as: Int.self), #"PusherDecodedEvents<Int>(type: "Int")"#),
            (channel.events(), "EventSequence<PusherEvent>(dropped: 0, endReason: nil)"),
            (PusherServerDecision.reject(code: nil, message: "no"), #"reject(message: "no")"#),
            (PusherAuthorizationDecision.accept(userID: "me"), #"accept(userID: "me")"#),
            (ListenerAddress(host: "::1", port: 80), "[::1]:80"),
            (PusherServerRouter([pusher.server]), #"PusherServerRouter(apps: ["1"])"#),
            (
                PusherServerFaults(), "PusherServerFaults(delay: 0.0 seconds, dropRate: 0.0, isSilent: false, rejectionCode: nil)"
            ), (LogSink(minimumLevel: .debug) { _, _, _ in }, "LogSink(minimumLevel: debug)"),
        ]
        for (value, text) in texts { expectEqual("\(value)", text) }
    }

    @Test func `every public type is in the lists of this test`() async throws {
        let others = try await Self.otherValues()
        for (name, values) in others { for value in values { expectEqual(PrintedText.typeName(of: value), name) } }
        let listed = Set(try Self.secretValues().keys).union(others.keys)
        // `PusherSwift` and `NWWebSocket`, whose types have the same names, have a test of their own.
        let folders = [
            "Core", "Network", "Tool", "Pusher/PusherWire", "Pusher/PusherChannels", "Pusher/PusherServer", "Pusher/PusherTesting",
        ]
        let declared = Set(try folders.flatMap { try PublicDeclarations.types(in: "Sources/\($0)") })
        expect(declared.count > 80)
        expectEqual(declared.subtracting(listed).sorted(), [], "add a value of each new type to one of the lists")
        expectEqual(listed.subtracting(declared).sorted(), [], "remove the types that no longer exist")
    }

    @Test func `the text of a value shows that a secret is set`() throws {
        expectEqual(
            "\(Self.headers)", "[Authorization: <redacted>, Cookie: <redacted>, X-Token: <redacted>, Content-Type: text/plain]")
        expect("\(PusherApp(id: "1", key: "key", secret: Self.text))".hasPrefix(#"PusherApp(id: "1", key: "key", secret: <redacted>, "#))
        expectEqual(
            "\(Self.authorizers[0])", #"PusherAuthorizer(secret: <redacted>, userID: "me", userInfo: <redacted>, encryptionMasterKey: nil)"#
        )
        let authorization = PusherChannelAuthorization(auth: Self.text, channelData: Self.text)
        expectEqual("\(authorization)", "PusherChannelAuthorization(auth: <redacted>, channelData: <redacted>, sharedSecret: nil)")
        expect(
            "\(WebSocketRequest(Self.endpoint, headers: ["Cookie": Self.text], subprotocols: [Self.text]))".hasPrefix(
                "WebSocketRequest(endpoint: https://host/auth, headers: [Cookie: <redacted>], subprotocols: [<redacted>], "))
        expect("\(Self.response)".contains("headers: [Authorization: <redacted>, "))
        expect("\(Self.request)".hasPrefix(#"HTTPRequestHead(method: "GET", target: "/app?<redacted>", headers: ["#))
        expectEqual("\(TransportMessage.text("abc"))", "TransportMessage(kind: text, bytes: <3 bytes>)")
        expect("\(Self.configuration(Self.authorizers[0]))".contains("authorizer: PusherAuthorizer(secret: <redacted>, "))
        expect("\(Self.configuration(Self.authorizers[0]))".contains("userAuthenticator: PusherUserAuthenticator(secret: <redacted>, "))
        var dumped = ""
        dump(Self.authorizers[0], to: &dumped)
        expect(dumped.contains("secret: <redacted>"))
    }
}

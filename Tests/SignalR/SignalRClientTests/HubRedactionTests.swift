import Foundation
import RealtimeCore
import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

@testable import SignalRHubs
@testable import SignalRWire

/// The text of the public values of SignalR.
@Suite(.timeLimit(.minutes(10))) struct HubRedactionTests {
    /// A part of every secret in these tests.
    private static let marker = "hunter2"
    private static let text = "secret-\(marker)"
    private static let headers: HTTPHeaders = ["Authorization": "Bearer \(text)", "Cookie": text, "X-Token": text]
    private static let endpoint = Endpoint(scheme: "https", host: "\(marker):\(marker)@host", port: 443, target: "/hub?token=\(marker)")
    private static let request = HTTPRequestHead(method: "GET", target: "/hub?access_token=\(marker)", headers: headers)

    private static var configuration: HubConfiguration {
        var configuration = HubConfiguration(Self.endpoint)
        configuration.headers = Self.headers
        let token = Self.text
        configuration.accessToken = { token }
        var encoder = JSONValueEncoder()
        encoder.userInfo[CodingUserInfoKey(rawValue: "key")!] = Self.text
        configuration.hubProtocol = .json(encoder, JSONValueDecoder())
        return configuration
    }

    private static var options: HttpConnectionOptions {
        var options = HttpConnectionOptions()
        options.headers = ["Authorization": Self.text]
        let token = Self.text
        options.accessTokenFactory = { token }
        return options
    }

    /// Values that contain the marker wherever they can contain a secret, by the names of their types.
    private static func secretValues(_ running: HubClient, _ iterator: HubStreamResult<Int>.AsyncIterator) throws -> [String: [Any]] {
        let client = HubClient(Self.configuration)
        let url = "https://host/hub?token=\(Self.marker)"
        return [
            "HubClient": [client],
            "HubConfiguration": [Self.configuration],
            "HubProtocolType": [Self.configuration.hubProtocol],
            "HubHandlerToken": [client.on("M") {}],
            "HubUpload": [HubUpload(AsyncStream<String> { $0.yield(Self.text) })],
            "HubStreamResult": [try running.stream("Numbers", of: Int.self)],
            "HubStreamResult.AsyncIterator": [iterator],
            "HubConnection": [HubConnection(client)],
            "HubConnectionBuilder": [HubConnectionBuilder().withUrl(url: url, options: Self.options)],
            "HttpConnectionOptions": [Self.options],
            "HttpRequest": [HttpRequest(method: .POST, url: url, content: .string(Self.text), headers: ["Authorization": Self.text])],
            "HttpResponse": [HttpResponse(statusCode: 200, headers: ["Set-Cookie": Self.text])],
            "SignalRAuthenticationRequest": [
                SignalRAuthenticationRequest(hub: "/hub", token: Self.text, isNegotiation: true, request: Self.request)
            ],
            "SignalRAuthenticationRefresh": [
                SignalRAuthenticationRefresh(
                    connectionID: "1", userID: "anna",
                    authentication: SignalRAuthenticationRequest(
                        hub: "/hub", token: Self.text, isNegotiation: false, isRefresh: true, request: Self.request))
            ],
            "SignalRServerEvent": [SignalRServerEvent.received(connectionID: "1", .text(Self.text))],
            "SignalRServerFaults": [
                {
                    var faults = SignalRServerFaults()
                    faults.expiredTokens = [Self.text]
                    return faults
                }()
            ],
        ]
    }

    /// A call of the server, which the application prints because it wants to see it.
    private static func call(_ payload: HubPayload) -> HubMethodCall {
        HubMethodCall(target: "Receive", payload: payload, coder: HubClient(Self.configuration).coder)
    }

    @Test func `a call of the server prints its arguments`() {
        let calls: [(HubPayload, String)] = [
            (HubPayload(.json, Array(#"["hello", {"n": 2}]"#.utf8)), #"Receive("hello",{"n":2})"#),
            (HubPayload(.json, [0x5B, 0x5D]), "Receive()"), (HubPayload(.json, [1, 2, 3]), "Receive(<3 bytes>)"),
            (HubPayload(.messagePack, [0x92, 0xA1, 0x61, 0xC0]), #"Receive("a",null)"#),
        ]
        for (payload, text) in calls {
            expectEqual("\(Self.call(payload))", text)
            expectEqual("\([Self.call(payload)])", "[\(text)]")
        }
    }

    @Test func `the text of a value says what it means`() async throws {
        let (signalR, error) = (try await InMemorySignalR(), HubError(.connectionLost, "Failed."))
        let texts: [(Any, String)] = [
            (HubState.stopped(nil), "stopped"), (HubState.stopped(error), "stopped(Failed.)"), (HubState.connecting, "connecting"),
            (HubState.connected(connectionID: "1"), #"connected(connectionID: "1")"#),
            (HubStateChange(old: .connecting, new: .connected(connectionID: nil)), "connecting -> connected"),
            (HubUpdate.state(.reconnecting(error)), "state(reconnecting(Failed.))"), (HubUpdate.closed(nil), "closed"),
            (HubUpdate.transport(.longPolling), "transport(LongPolling)"),
            (HubUpdate.connectingIn(.seconds(2)), "connectingIn(2.0 seconds)"),
            (HubRetryPolicy.delays([.zero]), "delays([0.0 seconds])"), (HubRetryPolicy.custom { _ in nil }, "custom"),
            (
                HubRetryPolicy.backoff(Backoff(base: .seconds(1), cap: .seconds(2))),
                "backoff(Backoff(base: 1.0 seconds, cap: 2.0 seconds))"
            ),
            (
                HubRetryContext(retryCount: 1, elapsed: .zero, reason: error),
                "HubRetryContext(retryCount: 1, elapsed: 0.0 seconds, reason: Failed.)"
            ), (HubFrameTrace(.received, "{}"), "received {}"),
            (SignalRAuthenticationDecision.accept(userID: nil), "accept"),
            (SignalRAuthenticationDecision.accept(userID: "a"), #"accept(userID: "a")"#),
            (SignalRServerHooks(), "SignalRServerHooks(authenticate: nil, approveRefresh: nil)"),
            (HttpResponse(statusCode: 200), "HttpResponse(statusCode: 200, headers: [])"),
            (
                RetryContext(retryCount: 1, elapsed: 1, retryReason: error),
                "RetryContext(retryCount: 1, elapsed: 1.0, retryReason: Failed.)"
            ),
            (signalR, "InMemorySignalR(address: \(signalR.address), server: \(signalR.server))"),
        ]
        for (value, text) in texts { expectEqual("\(value)", text) }
    }

    /// Values of the types that contain no secrets.
    private static func otherValues(
        _ signalR: InMemorySignalR, _ caller: HubCaller, _ stream: HubStream<Int>
    ) -> [String: [Any]] {
        let hub = signalR.server.hub("/hub")
        let error = HubError(.connectionLost, "Failed.")
        return [
            "HubError": [error],
            "HubMethodCall": [Self.call(HubPayload(.json, Array("[1]".utf8)))],
            "HubError.Code": [HubError.Code.stopped],
            "HubState": [HubState.stopped(error)],
            "HubUpdate": [HubUpdate.error(error)],
            "HubRetryPolicy": [HubRetryPolicy.standard],
            "HubBufferLimit": [HubBufferLimit()],
            "HubRetryContext": [HubRetryContext(retryCount: 1, elapsed: .zero, reason: error)],
            "HubConnectionState": [HubConnectionState.Stopped],
            "HttpMethod": [HttpMethod.POST],
            "HttpTransportType": [HttpTransportType.webSockets],
            "InMemorySignalR": [signalR],
            "LogLevel": [LogLevel.debug],
            "LogMessage": ["message" as LogMessage],
            "MessageType": [MessageType.ping],
            "MsgpackTimestamp": [MsgpackTimestamp(seconds: 1, nanoseconds: 1)],
            "RetryContext": [RetryContext(retryCount: 1, elapsed: 1, retryReason: error)],
            "SignalRError": [SignalRError.connectionAborted],
            "HubStatefulReconnect": [HubStatefulReconnect()],
            "HubTransport": [HubTransport.longPolling],
            "HubTransportKinds": [HubTransportKinds.all],
            "StatefulReconnectOptions": [StatefulReconnectOptions()],
            "StringOrData": [StringOrData.string("text")],
            "TransferFormat": [TransferFormat.text],
            "Hub": [hub],
            "HubCaller": [caller],
            "HubCallerClients": [caller.clients],
            "HubClients": [hub.clients],
            "HubClientProxy": [hub.clients.client("1")],
            "HubClientSet": [hub.clients.all],
            "HubGroups": [hub.groups],
            "HubException": [HubException("Failed.")],
            "HubStream": [stream],
            "HubStream.AsyncIterator": [stream.makeAsyncIterator()],
            "SignalRAuthenticationDecision": [SignalRAuthenticationDecision.accept(userID: "anna")],
            "SignalRServer": [signalR.server],
            "SignalRServerConfiguration": [SignalRServerConfiguration()],
            "SignalRServerHooks": [SignalRServerHooks()],
        ]
    }

    /// Errors of calls to clients, which have no public initializer.
    private static func invocationErrors(_ hub: Hub) async -> [HubInvocationError] {
        do {
            try await hub.clients.client("none").invoke("M")
            return []
        } catch {
            return [error as? HubInvocationError].compactMap { $0 }
        }
    }

    @Test func `the text of a public value contains no secret, and every public type is tested`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        let received = Waiter<(HubCaller, HubStream<Int>)>()
        hub.stream("Numbers") { (caller) in AsyncStream<Int> { $0.yield(1) } }
        hub.on("Count") { (caller, numbers: HubStream<Int>) async throws -> Int in
            received.fulfill((caller, numbers))?.resume()
            return try await numbers.reduce(0) { count, _ in count + 1 }
        }
        let client = signalR.client("/hub") { $0.headers = Self.headers }
        try await client.start()
        let iterator = try client.stream("Numbers", of: Int.self).makeAsyncIterator()
        try await client.send("Count", HubUpload(AsyncStream<Int> { _ in }))
        let (caller, stream) = await received.value()
        let secrets = try Self.secretValues(client, iterator)
        var others = Self.otherValues(signalR, caller, stream)
        let errors = await Self.invocationErrors(hub)
        others["HubInvocationError"] = errors
        others["HubInvocationError.Code"] = errors.map(\.code)

        for (name, values) in secrets.merging(others, uniquingKeysWith: +) {
            expect(!values.isEmpty, "\(name)")
            for value in values {
                expectEqual(PrintedText.typeName(of: value), name)
                let leak = PrintedText.texts(of: value).first { $0.contains(Self.marker) }
                expectNil(leak, "\(name)")
                expectNil(PrintedText.internals(of: value), "\(name)")
            }
        }
        let declared = try PublicDeclarations.types(in: "Sources/SignalR")
        let listed = Set(secrets.keys).union(others.keys)
        expectEqual(declared.subtracting(listed).sorted(), [], "add a value of each new type to one of the lists")
        expectEqual(listed.subtracting(declared).sorted(), [], "remove the types that no longer exist")
        client.stop()
    }
}

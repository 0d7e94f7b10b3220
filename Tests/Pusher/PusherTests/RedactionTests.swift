import Foundation
import PusherChannels
import PusherTesting
import RealtimeCore
import RealtimeJSON
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
    private static let message = WebSocketMessage.text(#"{"event":"pusher:subscribe","data":{"auth":"key:\#(marker)"}}"#)
    private static let error = PusherError(.failed, "Failed.", cause: MarkerError())
    private static let member = PusherMember(id: "me", info: ["name": "Anna"])

    private static let authorizationEndpoint = PusherAuthorizationEndpoint(
        endpoint, headers: headers, parameters: ["session": text], freshHeaders: { headers })

    private static let authorizers: [PusherAuthorizer] = [
        .secret(text, userID: "me", userInfo: .string(text)), .endpoint(authorizationEndpoint),
        .callback { _ in PusherChannelAuthorization(auth: text) },
    ]

    private static func tls() -> TLSConfiguration {
        var configuration = TLSConfiguration()
        configuration.identity = Self.identity
        configuration.trustRoots = .only([.text(Self.text)])
        return configuration
    }

    private static func configuration(_ authorizer: PusherAuthorizer) -> PusherConfiguration {
        var configuration = PusherConfiguration(key: "key", endpoint: Self.endpoint)
        configuration.authorizer = authorizer
        configuration.headers = Self.headers
        configuration.transports = Transports(
            webSocket: SocketWebSocketTransport(tls: Self.tls()), http: SocketHTTPTransport(tls: Self.tls()), time: ManualClock().time)
        return configuration
    }

    private static func authorizationAttempt() throws -> PusherAuthorizationAttempt {
        var request = Self.request
        request.method = "POST"
        let body = "socket_id=1.2&channel_name=private-one&session=\(Self.text)"
        return try PusherAuthorizationAttempt(request, body: Array(body.utf8), channelNameLimit: 200)
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
            "PusherApp": [app],
            "PusherAuthorizationAttempt": [try Self.authorizationAttempt()],
            "PusherAuthorizationEndpoint": [Self.authorizationEndpoint],
            "PusherAuthorizationHandler": [PusherAuthorizationHandler(app: app)],
            "PusherAuthorizer": Self.authorizers,
            "PusherChannel": try clients.map { try $0.subscribe("private-one") },
            "PusherChannelAuthorization": [
                PusherChannelAuthorization(auth: Self.text, channelData: Self.text, sharedSecret: Self.text)
            ],
            "PusherClient": clients,
            "PusherConfiguration": Self.authorizers.map(Self.configuration),
            "PusherConnectionAttempt": [PusherConnectionAttempt(socketID: "1.2", request: Self.request)],
            "PusherConnectionState": [PusherConnectionState.failed(Self.error), PusherConnectionState.disconnected(Self.error)],
            "PusherError": [Self.error, PusherError(.failed, "Failed.", cause: Self.error)],
            "PusherPublisher": [PusherPublisher(appID: "1", key: "key", secret: Self.text, endpoint: Self.endpoint)],
            "PusherServer": [PusherServer(app: app)],
            "PusherServerEvent": [PusherServerEvent.received(socketID: "1.2", frame: String(decoding: Self.message.bytes, as: UTF8.self))],
            "PusherStateChange": [PusherStateChange<PusherConnectionState>(old: .connecting, new: .failed(Self.error))],
            "PusherSubscriptionState": [PusherSubscriptionState.failed(Self.error)],
            "PusherUpdate": [PusherUpdate.error(Self.error), PusherUpdate.state(.failed(Self.error))],
            "SocketHTTPTransport": [SocketHTTPTransport(tls: Self.tls())],
            "SocketListener": [SocketListener(tls: TLSServerConfiguration(Self.identity))],
            "SocketWebSocketTransport": [SocketWebSocketTransport(tls: Self.tls())],
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
                UpgradeDecision.reject(Self.response), UpgradeDecision.accept(subprotocol: nil, headers: Self.headers),
            ],
            "UpgradeResponder.Answer": [
                UpgradeResponder.Answer.reject(Self.response), UpgradeResponder.Answer.accept(subprotocol: nil, headers: Self.headers),
            ],
            "WebSocketMessage": [Self.message],
            "WebSocketRequest": [WebSocketRequest(Self.endpoint, headers: Self.headers, subprotocols: [Self.text])],
        ]
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
            "ConnectionID": [ConnectionID(rawValue: 1)],
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
            "JSONLimits": [JSONLimits()],
            "JSONNumber": [JSONNumber(1)],
            "JSONObject": [["a": 1] as JSONObject],
            "JSONValue": [["a": 1] as JSONValue],
            "JSONValueDecoder": [JSONValueDecoder()],
            "JSONValueDecoder.DataStrategy": [JSONValueDecoder.DataStrategy.base64],
            "JSONValueDecoder.DateStrategy": [JSONValueDecoder.DateStrategy.iso8601],
            "JSONValueDecoder.KeyStrategy": [JSONValueDecoder.KeyStrategy.useDefaultKeys],
            "JSONValueEncoder": [JSONValueEncoder()],
            "JSONValueEncoder.KeyStrategy": [JSONValueEncoder.KeyStrategy.useDefaultKeys],
            "ListenerAddress": [ListenerAddress(host: "host", port: 1)],
            "ListenerLimits": [ListenerLimits()],
            "ListenerRouter": [ListenerRouter([])],
            "ListenerRouter.Route": [ListenerRouter.Route.path("/", ListenerRouter([]))],
            "LogSink": [LogSink(minimumLevel: .debug) { _, _, _ in }],
            "LogSink.Level": [LogSink.Level.debug],
            "ManualClock": [ManualClock()],
            "ManualClock.Instant": [ManualClock().now],
            "MessageBatch.Entry": [MessageBatch.Entry(.text, 0..<1)],
            "NetworkPathMonitor": [NetworkPathMonitor()],
            "PusherAuthorizationDecision": [PusherAuthorizationDecision.accept(), PusherAuthorizationDecision.reject()],
            "PusherAuthorizationRequest": [PusherAuthorizationRequest(channel: "private-one", socketID: "1.2")],
            "PusherChannelKind": [PusherChannelKind.private],
            "PusherClientEventAttempt": [
                PusherClientEventAttempt(socketID: "1.2", channel: "private-one", name: "client-a", data: "1")
            ],
            "PusherDecodedEvents": [channel.events("a", as: Int.self)],
            "PusherDecodedEvents.AsyncIterator": [channel.events("a", as: Int.self).makeAsyncIterator()],
            "PusherError.Code": [PusherError.Code.failed],
            "PusherEvent": await events.pending(),
            "PusherMember": [Self.member],
            "PusherMemberChange": [PusherMemberChange.joined(Self.member), PusherMemberChange.subscribed(members)],
            "PusherMembers": [members],
            "PusherMembers.Iterator": [members.makeIterator()],
            "PusherServerDecision": [PusherServerDecision.accept],
            "PusherServerFaults": [PusherServerFaults()],
            "PusherServerHooks": [PusherServerHooks()],
            "PusherSubscriptionAttempt": [PusherSubscriptionAttempt(socketID: "1.2", channel: "presence-one", userID: "me")],
            "TLSConfiguration.Verification": [TLSConfiguration.Verification.full],
            "TLSVersion": [TLSVersion.tls12],
            "TransportError.Code": [TransportError.Code.closed],
            "UpgradeResponder": [UpgradeResponder { _ in }],
            "WebSocketMessage.Kind": [WebSocketMessage.Kind.text],
        ]
    }

    // MARK: The tests

    @Test func `the text of a value contains no secret`() async throws {
        for (name, values) in try Self.secretValues() {
            for value in values {
                #expect(Self.typeName(of: value) == name)
                let leak = Self.texts(of: value).first { $0.contains(Self.marker) }
                #expect(leak == nil, "\(name)")
            }
        }
    }

    @Test func `every public type is in the lists of this test`() async throws {
        let others = try await Self.otherValues()
        for (name, values) in others { for value in values { #expect(Self.typeName(of: value) == name) } }
        let listed = Set(try Self.secretValues().keys).union(others.keys)
        let declared = try PublicDeclarations.types(in: "Sources")
        #expect(declared.count > 80)
        #expect(declared.subtracting(listed).sorted() == [], "add a value of each new type to one of the lists")
        #expect(listed.subtracting(declared).sorted() == [], "remove the types that no longer exist")
    }

    @Test func `the text of a value shows that a secret is set`() throws {
        #expect(
            "\(Self.headers)"
                == "[Authorization: <redacted>, Cookie: <redacted>, X-Token: <redacted>, Content-Type: text/plain]")
        #expect("\(PusherApp(id: "1", key: "key", secret: Self.text))".hasPrefix(#"PusherApp(id: "1", key: "key", secret: <redacted>, "#))
        #expect("\(Self.authorizers[0])" == #"PusherAuthorizer(secret: <redacted>, userID: "me", userInfo: <redacted>)"#)
        let authorization = PusherChannelAuthorization(auth: Self.text, channelData: Self.text)
        #expect("\(authorization)" == "PusherChannelAuthorization(auth: <redacted>, channelData: <redacted>, sharedSecret: nil)")
        #expect(
            "\(WebSocketRequest(Self.endpoint, headers: ["Cookie": Self.text], subprotocols: [Self.text]))".hasPrefix(
                "WebSocketRequest(endpoint: https://host/auth, headers: [Cookie: <redacted>], subprotocols: [<redacted>], "))
        #expect("\(Self.response)".contains("headers: [Authorization: <redacted>, "))
        #expect("\(Self.request)".hasPrefix(#"HTTPRequestHead(method: "GET", target: "/app?<redacted>", headers: ["#))
        #expect("\(WebSocketMessage.text("abc"))" == "WebSocketMessage(kind: text, bytes: <3 bytes>)")
        #expect("\(Self.configuration(Self.authorizers[0]))".contains("authorizer: PusherAuthorizer(secret: <redacted>, "))
        var dumped = ""
        dump(Self.authorizers[0], to: &dumped)
        #expect(dumped.contains("secret: <redacted>"))
    }

    // MARK: The text of a value

    /// The name of a value's type without its module and generic arguments.
    private static func typeName(of value: Any) -> String {
        var name = ""
        var depth = 0
        for character in String(reflecting: type(of: value)) {
            if character == "<" { depth += 1 }
            if depth == 0 { name.append(character) }
            if character == ">" { depth -= 1 }
        }
        return name.split(separator: ".").dropFirst().joined(separator: ".")
    }

    private static func texts(of value: Any) -> [String] {
        var texts = ["\(value)", String(describing: value), String(reflecting: value), "\([value])", "\(["key": value])"]
        var dumped = ""
        dump(value, to: &dumped)
        texts.append(dumped)
        if let error = value as? any Error { texts += ["\(error)", error.localizedDescription] }
        var visited: Set<ObjectIdentifier> = []
        Self.walk(value, depth: 0, &visited, &texts)
        // Numbers may be the bytes of a text.
        return texts + texts.map(Self.decodedNumbers)
    }

    private static func walk(_ value: Any, depth: Int, _ visited: inout Set<ObjectIdentifier>, _ texts: inout [String]) {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .class, !visited.insert(ObjectIdentifier(value as AnyObject)).inserted || depth > 20 { return }
        var current: Mirror? = mirror
        while let mirror = current {
            for child in mirror.children {
                texts += [child.label ?? "", "\(child.value)", String(reflecting: child.value)]
                Self.walk(child.value, depth: depth + 1, &visited, &texts)
            }
            current = mirror.superclassMirror
        }
    }

    /// The text that the decimal numbers in a text encode.
    private static func decodedNumbers(in text: String) -> String {
        String(decoding: text.utf8.split { !(0x30...0x39).contains($0) }.compactMap { UInt8(String($0) ?? "") }, as: UTF8.self)
    }
}

/// The public declarations in the sources, which are formatted by `swift format`: the indentation shows the nesting.
private enum PublicDeclarations {
    /// Returns the public structures, enumerations, classes and actors, with the names of the types that contain them.
    static func types(in folder: String) throws -> Set<String> {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
        let files = try #require(FileManager.default.enumerator(atPath: "\(root)/\(folder)"))
        var names: Set<String> = []
        for case let file as String in files where file.hasSuffix(".swift") {
            names.formUnion(self.types(declaredIn: try String(contentsOfFile: "\(root)/\(folder)/\(file)", encoding: .utf8)))
        }
        return names
    }

    private static func types(declaredIn source: String) -> [String] {
        let declaration = /^(?<indent> *)(?<modifiers>(?:[@\w()]+ )*)(?<kind>struct|enum|class|actor|extension|protocol) (?<name>[\w.]+)/
        var names: [String] = []
        var enclosing: [(indent: Int, name: String)] = []
        for line in source.split(separator: "\n") {
            guard let match = line.firstMatch(of: declaration) else { continue }
            enclosing.removeAll { $0.indent >= match.indent.count }
            enclosing.append((match.indent.count, String(match.name)))
            let isType = match.kind != "extension" && match.kind != "protocol"
            let modifiers = match.modifiers.split(separator: " ")
            if isType, modifiers.contains("public"), !modifiers.contains("import") {
                names.append(enclosing.map(\.name).joined(separator: "."))
            }
        }
        return names
    }
}

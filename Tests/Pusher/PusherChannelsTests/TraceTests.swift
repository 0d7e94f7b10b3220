import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// The log level `trace`.
@Suite struct TraceTests {
    private static func recorder(_ level: LogSink.Level) -> (LogSink, EventRecorder<String>) {
        let lines = EventRecorder<String>()
        return (LogSink(minimumLevel: level) { level, _, message in if level == .trace { lines.record(message) } }, lines)
    }

    @Test func `every frame is logged in both directions`() async throws {
        let pusher = try await InMemoryPusher()
        let (log, lines) = Self.recorder(.trace)
        let client = pusher.client { $0.log = log }
        client.connect()
        let socketID = try #require(client.socketID)
        let prices = try client.subscribe("private-prices")
        try prices.trigger("client-seen", ["id": 7])
        pusher.server.publish("price", to: "private-prices", data: #"{"value":12.5}"#)
        client.checkConnection()
        client.disconnect()
        expectEqual(
            lines.all,
            [
                "#1 open",
                #"#1 received {"event":"pusher:connection_established","data":{"socket_id":"\#(socketID)","activity_timeout":120}}"#,
                #"#1 sent {"event":"pusher:subscribe","data":{"channel":"private-prices","auth":"<redacted>"}}"#,
                #"#1 received {"event":"pusher_internal:subscription_succeeded","channel":"private-prices","data":{}}"#,
                #"#1 sent {"event":"client-seen","channel":"private-prices","data":{"id":7}}"#,
                #"#1 received {"event":"price","channel":"private-prices","data":"{\"value\":12.5}"}"#,
                #"#1 sent {"event":"pusher:ping","data":{}}"#,
                #"#1 received {"event":"pusher:pong","data":{}}"#,
                "#1 sent close 1000",
                "#1 ended",
            ])
    }

    @Test(arguments: [LogSink.Level.debug, .info, .warning, .error])
    func `nothing is traced below the level`(_ level: LogSink.Level) async throws {
        let pusher = try await InMemoryPusher()
        let (log, lines) = Self.recorder(level)
        let client = pusher.client { $0.log = log }
        client.connect()
        try client.subscribe("prices")
        expect(client.state.name == "connected" && lines.all.isEmpty)
    }

    @Test func `a trace contains no signatures, tokens or signed user data`() async throws {
        let pusher = try await InMemoryPusher()
        let (log, lines) = Self.recorder(.trace)
        let client = pusher.client {
            $0.log = log
            $0.authorizer = .secret("secret", userID: "anna", userInfo: ["name": "user-info-1"])
            $0.headers = ["Authorization": #"Bearer header/token"1"#]
        }
        let serverEvents = pusher.server.events
        client.connect()
        let socketID = try #require(client.socketID)
        _ = try client.subscribe("private-one")
        let signature = String(repeating: "0a", count: 32)
        for frame in [
            #"{"event":"pusher:error","data":"{\"message\":\"expected \#(signature) of {\\\"user_id\\\":\\\"user-id-2\\\"}\"}"}"#,
            #"{"event":"pusher:error","data":{"code":4300,"message":"no: Bearer header/token\"1"}}"#,
            #"{"event":"echo","channel":"private-one","data":["header/token\"1"]}"#, "frame-that-is-invalid",
        ] { pusher.server.send(frame, to: socketID) }
        _ = try client.subscribe("presence-room")
        client.disconnect()
        let signatures = await serverEvents.pending().compactMap { event -> String? in
            guard case .received(_, let frame) = event else { return nil }
            return (try? JSONValue(parsing: frame))?["data"]?["auth"]?.string
        }
        expect(signatures.count == 2 && lines.all.count > 10)
        let sentUsers = lines.all.filter { $0.contains("sent") && $0.contains("user-info") }
        expectEqual(sentUsers, [])
        let hidden = signatures.map { String($0.dropFirst(4)) } + [signature, "user-id-2", "header/token", "frame-that"]
        for line in lines.all { for text in hidden { expect(!line.contains(text), "\(line)") } }
        expect(lines.all.contains("#1 received 21 bytes that aren't a JSON object"))
    }

    @Test(arguments: ["pusher", "sockudo"])
    func `frames of both versions of the protocol are traced without their secrets`(prefix: String) async throws {
        func trace(_ frame: String) -> String { FrameTrace().text(.text, Array(frame.utf8)[...]) }
        let user = #"{\\\"id\\\":\\\"anna\\\"}"#
        let data = #"{\"auth\":\"key:1\",\"user_data\":\"\#(user)\",\"channel\":\"a\"}"#
        expectEqual(
            trace(#"{"event":"\#(prefix):signin_success","data":"\#(data)"}"#),
            #"{"event":"\#(prefix):signin_success","data":{"auth":"<redacted>","user_data":"<redacted>","channel":"a"}}"#)
        let signature = String(repeating: "0a", count: 32)
        for event in ["\(prefix):error", "\(prefix):subscription_error", "\(prefix)_internal:subscription_error"] {
            let text = trace(#"{"event":"\#(event)","data":{"message":"\#(signature) of {\"user_id\":\"anna\"}"}}"#)
            expect(text.contains(event) && !text.contains("anna") && !text.contains("0a0a"), "\(text)")
        }
        // The data of the application stays.
        let event = #"{"event":"\#(prefix)","channel":"a","data":{"auth":"visible"}}"#
        expectEqual(trace(event), event)
    }

    @Test func `frames and the trace of a client that recovers events contain no signed user data`() async throws {
        let pusher = try await InMemoryPusher {
            $0.profile = .sockudo
            $0.recoveryLimit = 10
        }
        let (log, lines) = Self.recorder(.trace)
        let client = pusher.client {
            $0.log = log
            $0.recovery = .sockudo
            $0.userAuthenticator = .secret("secret", user: PusherMember(id: "anna", info: ["name": "user-info-1"]))
        }
        let frames = client.frames()
        client.user.signIn()
        client.connect()
        try await client.user.signedIn()
        client.disconnect()
        let texts = await frames.pending().map(\.text) + lines.all
        expect(texts.contains { $0.contains("pusher:signin\"") } && texts.contains { $0.contains("sockudo:signin_success") })
        for text in texts { expect(!text.contains("user-info"), "\(text)") }
    }

    @Test func `a long frame is shortened, and other messages are described by their size`() {
        let trace = FrameTrace()
        let data = String(repeating: "a", count: 10_000)
        let text = trace.text(.text, Array(#"{"event":"a","data":"\#(data)"}"#.utf8)[...])
        expect(text.utf8.count < 5_000 && text.hasSuffix("a… (10023 bytes)"))
        expectEqual(trace.text(.binary, [1, 2, 3]), "binary of 3 bytes")
        expectEqual(trace.text(.ping, []), "ping of 0 bytes")
        expectEqual(trace.text(.text, Array("[]".utf8)[...]), "2 bytes that aren't a JSON object")
    }

    @Test func `the sink is called without a lock`() async throws {
        let pusher = try await InMemoryPusher()
        let states = EventRecorder<String>()
        let box = Lock<PusherClient?>(nil)
        let client = pusher.client {
            $0.log = LogSink(minimumLevel: .trace) { _, _, _ in if let client = box.withLock({ $0 }) { states.record(client.state.name) } }
        }
        box.withLock { $0 = client }
        client.connect()
        try client.subscribe("private-one").trigger("client-a", ["id": 1])
        client.disconnect()
        box.withLock { $0 = nil }
        expect(Set(states.all).isSuperset(of: ["connecting", "connected", "disconnected"]))
    }
}

import Foundation
import RealtimeCore
import RealtimeCoding
import SignalRWire
import TestSupport
import Testing

/// Frames of other implementations; see Tests/Vectors/signalr.
@Suite struct VectorTests {
    private static func frames(_ name: String) throws -> [[UInt8]] {
        let text = try String(contentsOfFile: Vectors.path("signalr/\(name).txt"), encoding: .utf8)
        return text.split(separator: "\n").map { line in
            line.hasPrefix("{") ? bytes(line.replacingOccurrences(of: "␞", with: "\u{1E}")) : hex(String(line))
        }
    }

    /// Whether a frame is a handshake, which begins a connection.
    private static func isHandshake(_ frame: [UInt8]) -> Bool {
        frame.withUnsafeBytes { frame in
            if frame.first != UInt8(ascii: "{") { return false }
            if let request = try? HubHandshake.parseRequest(frame) { return request.consumed == frame.count }
            guard let response = try? HubHandshake.parseResponse(frame) else { return false }
            return response.consumed == frame.count
        }
    }

    /// The messages of a recording, without its handshakes. Fails for a message that is invalid or unknown.
    private static func messages(_ frames: [[UInt8]], _ format: HubFormat) throws -> [HubMessage] {
        var reader = HubMessageReader(format, messageLimit: 1 << 15)
        var messages: [HubMessage] = []
        for frame in frames where !self.isHandshake(frame) {
            for output in try reader.read(frame) {
                guard case .message(let message) = output else {
                    Issue.record("\(output)")
                    continue
                }
                messages.append(message)
            }
        }
        return messages
    }

    private static func value(_ payload: HubPayload) throws -> JSONValue {
        try HubValueCoder(payload.format).decode(JSONValue.self, from: payload)
    }

    @Test(arguments: HubFormat.allCases)
    func `the handshakes of the TypeScript client are read`(format: HubFormat) throws {
        let frame = try #require(try Self.frames("typescript-10.0.11-\(format.protocolName)").first)
        let request = try #require(try frame.withUnsafeBytes { try HubHandshake.parseRequest($0) })
        expect(request.protocolName == format.protocolName && request.version == 1 && request.consumed == frame.count)
        expectEqual(HubHandshake.request(format, version: 1), frame)
    }

    @Test(arguments: HubFormat.allCases)
    func `the messages of the TypeScript client are read`(format: HubFormat) throws {
        let messages = try Self.messages(Self.frames("typescript-10.0.11-\(format.protocolName)"), format)
        func payload(_ text: String) throws -> HubPayload {
            try HubValueCoder(format).payload(JSONValue(parsing: text))
        }
        func invocation(_ id: String?, _ target: String, _ arguments: String, _ streamIDs: [String] = []) throws -> HubInvocation {
            HubInvocation(id: id, target: target, arguments: try payload(arguments), streamIDs: streamIDs)
        }
        try expectEqual(
            messages,
            [
                .ping,
                .invocation(invocation(nil, "Send", #"[1,"a",null,true,1.5,[1,2],{"x":"é"}]"#)),
                .invocation(invocation("0", "Add", "[1,2]")),
                .streamInvocation(invocation("1", "Count", "[3]")),
                .streamInvocation(invocation("2", "Count", "[3]")),
                .cancelInvocation(id: "2"),
                .invocation(invocation(nil, "Sum", "[5]", ["3"])),
                .streamItem(id: "3", payload("7")),
                .streamItem(id: "3", payload("8")),
                .completion(id: "3", .void),
                .invocation(invocation(nil, "Sum", "[]", ["4"])),
                .streamItem(id: "4", payload("7")),
                .completion(id: "4", .error("broken")),
                .completion(id: "s1", .result(payload(#"{"a":1}"#))),
                .completion(id: "s2", .error("Client didn't provide a result.")),
                .close(error: nil, allowReconnect: false),
            ])
    }

    @Test(arguments: HubFormat.allCases)
    func `the messages of ASP.NET Core are read, and written in the same form`(format: HubFormat) throws {
        let frames = try Self.frames("aspnetcore-10.0.14-\(format.protocolName)")
        let messages = try Self.messages(frames, format)
        expect(messages.count > 20)
        var written: [UInt8] = []
        for message in messages { HubMessageWriter.append(message, format, to: &written) }
        // ASP.NET Core always writes both elements of a close message.
        let recorded = frames.filter { !Self.isHandshake($0) }.map { $0 == hex("4 93 7 c0 c2") ? hex("3 92 7 c0") : $0 }
        expectEqual(written, recorded.flatMap { $0 })
    }

    @Test(arguments: HubFormat.allCases)
    func `the values of ASP.NET Core are decoded`(format: HubFormat) throws {
        struct Person: Codable, Equatable {
            var name: String
            var age: Int
            var tags: [String]
            var friend: String?
        }
        var results: [String: HubPayload] = [:]
        for case .completion(let id, .result(let payload)) in try Self.messages(
            Self.frames("aspnetcore-10.0.14-\(format.protocolName)"), format)
        where results[id] == nil { results[id] = payload }
        func result<Value: Decodable>(_ type: Value.Type, _ id: String) throws -> Value {
            try HubValueCoder(format).decode(type, from: try #require(results[id]))
        }
        let date = Date(timeIntervalSinceReferenceDate: format == .json ? 791_555_696 : 791_554_736)
        try expectEqual(result(Int.self, "1"), 3)
        try expectNil(result(Int?.self, "2"))
        try expect(abs(result(Date.self, "4").timeIntervalSince(date) - 0.1234567) < 1e-6)
        try expectEqual(result(Data.self, "7"), Data([0, 1, 255]))
        try expectEqual(result(UUID.self, "8"), UUID(uuidString: "11111111-2222-3333-4444-55555555ABCD"))
        try expectEqual(result(String.self, "9"), "Blue")
        try expectEqual(result(Person.self, "10"), Person(name: "n", age: 3, tags: ["é"], friend: nil))
        try expectNil(result(String?.self, "11"))
        try expectEqual(result([String: Double].self, "12"), ["a": 1.5])
        try expectEqual(result([Int?].self, "13"), [1, nil])
        try expectEqual(result(Double.self, "20"), 3)
        switch format {
        case .json:
            try expectEqual(result(Date.self, "5"), date)
            try expectEqual(result(Date.self, "6"), date.addingTimeInterval(-7199.5))
            try expectEqual(result(String.self, "22"), "</é😀>")
        case .messagePack:
            // A `DateTimeOffset`, whose offset is two hours.
            try expectEqual(result(Date.self, "6"), date.addingTimeInterval(-7200))
            try expectEqual(result(String.self, "21"), String(repeating: "x", count: 40))
        }
    }

    @Test func `the responses of ASP.NET Core to negotiations are read, and written in the same form`() throws {
        let frames = try Self.frames("aspnetcore-10.0.14-negotiate")
        let all = HubTransport.allCases.map { HubTransportOffer($0) }
        let expected: [NegotiateResponse] = [
            .connection(
                NegotiateResponse.Connection(id: "BR30chtKdBG7cbMQ4syJzQ", secretToken: "JPDI132BPSuRTiTqRSjzpA", transports: all)),
            .connection(
                NegotiateResponse.Connection(
                    id: "oWETb749gJ4SATD8JMf3vg", secretToken: "YFDsiNggNj6O0VlKLhLOeA", transports: [HubTransportOffer(.serverSentEvents)])
            ),
            .connection(
                NegotiateResponse.Connection(
                    id: "E8bYrEXWLek1X9u4ndUEGg", secretToken: "rHBFYlFn8kGi475bGC5emg", transports: [HubTransportOffer(.webSockets)],
                    useStatefulReconnect: true)),
            .redirect(NegotiateResponse.Redirect(url: "http://127.0.0.1/auth?from=redirect", accessToken: "token-redirected")),
            .error("The hub says no."),
            .connection(
                NegotiateResponse.Connection(
                    id: "x", secretToken: "y", transports: [HubTransportOffer(name: "WebTransport", transferFormats: ["Binary"])])),
            .connection(NegotiateResponse.Connection(id: "m-UWDyxDuJmAGJ4ZwfuedQ", secretToken: nil, version: 0, transports: all)),
            .error("The client requested a non-integer protocol version."),
        ]
        try expectEqual(frames.map { try NegotiateResponse(parsing: $0) }, expected)
        // The body with the unknown transport was written in another order.
        for (frame, response) in zip(frames, expected) where !frame.starts(with: bytes(#"{"connectionId""#)) {
            expectEqual(response.bytes, frame)
        }
    }
}

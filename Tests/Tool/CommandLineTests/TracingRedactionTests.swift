import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

/// The output of `--verbose` for a negotiation whose response is larger than what is printed.
@Suite struct TracingRedactionTests {
    /// A transport that returns the same response to each request.
    private struct FixedResponse: HTTPTransport {
        let body: String

        func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
            HTTPStreamedResponse(HTTPResponse(status: 200, text: self.body))
        }
    }

    /// Negotiates with a server that responds with a body.
    ///
    /// - Returns: The body that the client receives, the body that is printed, and all printed lines.
    private func negotiate(_ body: String) async throws -> (received: String, printed: String, lines: String) {
        let lines = EventRecorder<Line>()
        let http = HTTPTrace.transport(FixedResponse(body: body), redact: HTTPTrace.redactTokens) { lines.record($0) }
        let endpoint = try Endpoint("http://host/chat/negotiate?negotiateVersion=1")
        let response = try await http.send(HTTPRequest("POST", endpoint))
        let texts = lines.all.map { String(decoding: $0.json.dropLast(), as: UTF8.self) }
        let printed = try JSONValue(parsing: try #require(texts.last))["body"]?.string
        return (String(decoding: response.body, as: UTF8.self), try #require(printed), texts.joined(separator: "\n"))
    }

    /// The number of bytes that are printed, without the suffix, and the length of the suffix.
    private static let limit = 4096
    private static let suffix = "… (5000 bytes)".utf8.count
    private static let names = ["accessToken", "connectionToken"]

    @Test(arguments: Self.names)
    func `a token in front of the part that isn't printed is redacted`(_ name: String) async throws {
        let url = "http://other/" + String(repeating: "a", count: 5_000)
        let body = #"{"\#(name)":"opensesame","url":"\#(url)"}"#
        let result = try await self.negotiate(body)
        expectEqual(result.received, body)
        expect(!result.lines.contains("opensesame"))
        expect(result.printed.hasPrefix(#"{"\#(name)":"<redacted>","url":"http://other/aaa"#))
        expect(result.printed.hasSuffix("a… (\(body.utf8.count) bytes)") && result.printed.utf8.count <= Self.limit + Self.suffix)
    }

    @Test(arguments: Self.names)
    func `a token that is longer than what is printed is redacted`(_ name: String) async throws {
        let body = #"{"url":"http://other/hub","\#(name)":"\#(String(repeating: "opensesame", count: 600))"}"#
        let result = try await self.negotiate(body)
        expectEqual(result.received, body)
        expect(!result.lines.contains("opensesame"))
        // What remains is short.
        expectEqual(result.printed, #"{"url":"http://other/hub","\#(name)":"<redacted>"}"#)
    }

    @Test(arguments: Self.names)
    func `a token at the end of what is printed is redacted`(_ name: String) async throws {
        for length in [4_000, 4_040, 4_060, 4_080] {
            let url = "http://other/" + String(repeating: "a", count: length)
            let body = #"{"url":"\#(url)","\#(name)":"opensesame\#(String(repeating: "-opensesame", count: 20))"}"#
            let result = try await self.negotiate(body)
            expectEqual(result.received, body)
            expect(!result.lines.contains("opens"), "\(length)")
            expect(result.printed.utf8.count <= Self.limit + Self.suffix)
        }
    }

    @Test func `a response that is printed completely isn't shortened`() async throws {
        let result = try await self.negotiate(#"{"negotiateVersion":1,"connectionId":"a","connectionToken":"opensesame"}"#)
        expectEqual(result.printed, #"{"negotiateVersion":1,"connectionId":"a","connectionToken":"<redacted>"}"#)
    }

    @Test(
        arguments: [
            (#"{"connectionId":"opensesame","availableTransports":[]}"#, #"{"connectionId":"<redacted>","availableTransports":[]}"#),
            (
                #"{"negotiateVersion":0,"connectionId":"opensesame","availableTransports":[]}"#,
                #"{"negotiateVersion":0,"connectionId":"<redacted>","availableTransports":[]}"#
            ),
            (
                #"{"negotiateVersion":1,"connectionId":"a","connectionToken":"opensesame","availableTransports":[]}"#,
                #"{"negotiateVersion":1,"connectionId":"a","connectionToken":"<redacted>","availableTransports":[]}"#
            ),
            // The response to a refresh.
            (#"{"connectionId":"a","refreshedAt":"now"}"#, #"{"connectionId":"a","refreshedAt":"now"}"#),
        ])
    func `a connection ID is redacted if it is the token, as in version 0`(_ body: String, _ printed: String) async throws {
        let result = try await self.negotiate(body)
        expect(result.received == body && result.printed == printed)
    }

    @Test(arguments: [
        #"{"type":"response","error":"you sent MYACCESSTOKEN99 and SECRETKEY77"}"#, "<p>MYACCESSTOKEN99 SECRETKEY77</p>",
        #"{"error":"MYACCESSTOKEN\u0039\u0039"}"#,
    ])
    func `header fields that a server repeats are redacted`(_ body: String) async throws {
        let lines = EventRecorder<Line>()
        let http = HTTPTrace.transport(FixedResponse(body: body), redact: HTTPTrace.redactTokens) { lines.record($0) }
        let headers: HTTPHeaders = ["Authorization": "Bearer MYACCESSTOKEN99", "X-Api-Key": "SECRETKEY77"]
        let response = try await http.send(HTTPRequest("POST", try Endpoint("http://host/chat/negotiate"), headers: headers))
        expectEqual(String(decoding: response.body, as: UTF8.self), body)
        let text = lines.all.map { String(decoding: $0.json, as: UTF8.self) }.joined()
        expect(!text.contains("MYACCESS") && !text.contains("SECRETKEY") && text.contains("<redacted>"))
    }

    @Test func `the query of a redirect's URL is redacted`() async throws {
        let result = try await self.negotiate(#"{"url":"http://other/hub?asrs=SECRETINQUERY","accessToken":"opensesame"}"#)
        expect(!result.lines.contains("SECRETINQUERY") && result.printed.contains("http://other/hub"))
    }

    @Test func `the values in the query of a request are redacted, also in the response`() async throws {
        let lines = EventRecorder<Line>()
        let body = "<p>no connection abc%2Bdefgh, abc+defgh</p>"
        let http = HTTPTrace.transport(FixedResponse(body: body), redact: HTTPTrace.redactTokens) { lines.record($0) }
        let endpoint = try Endpoint("http://host/chat?asrs=SECRETINQUERY&pin=12&id=abc%2Bdefgh&_=12")
        expectEqual(String(decoding: try await http.send(HTTPRequest("GET", endpoint)).body, as: UTF8.self), body)
        let texts = try lines.all.map { try JSONValue(parsing: $0.json) }
        expectEqual(texts.first?["url"]?.string, "http://host/chat?asrs=<redacted>&pin=<redacted>&id=<redacted>&_=<redacted>")
        expectEqual(texts.last?["body"]?.string, "<p>no connection <redacted>, <redacted></p>")
    }

    @Test func `the values in the query of a request of Primus are redacted, however short they are`() async throws {
        let lines = EventRecorder<Line>()
        let http = HTTPTrace.transport(FixedResponse(body: "ok"), redact: HTTPTrace.redactSession) { lines.record($0) }
        let endpoint = try Endpoint("http://host/primus/?EIO=4&transport=polling&token=abc&flag&sid=abcdefgh&t=1a")
        _ = try await http.send(HTTPRequest("GET", endpoint))
        let url = try JSONValue(parsing: try #require(lines.all.first).json)["url"]?.string
        expectEqual(url, "http://host/primus/?EIO=4&transport=polling&token=<redacted>&flag&sid=<redacted>&t=<redacted>")
    }

    // MARK: Responses that arrive in parts

    private final class Responders: ListenerHandler {
        let all = EventRecorder<any HTTPResponder>()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { self.all.record(responder) }
    }

    /// A request, the server's end, and what is printed.
    private struct Traced {
        let exchange: any HTTPExchange
        let responder: any HTTPResponder
        let lines: EventRecorder<Line>

        /// The bodies of the lines after the request, or the messages of lines of the log.
        var bodies: [String] {
            get throws {
                try self.lines.all.dropFirst().map { line in
                    let value = try JSONValue(parsing: line.json)
                    return value["body"]?.string ?? value["message"]?.string ?? ""
                }
            }
        }
    }

    /// Sends a request, and begins the response.
    private func begin(status: Int = 200, headers: HTTPHeaders = [:]) async throws -> Traced {
        let network = InMemoryNetwork(clock: ManualClock())
        let responders = Responders()
        let address = try await network.listener().start(responders)
        let lines = EventRecorder<Line>()
        let http = HTTPTrace.transport(network.http, redact: HTTPTrace.redactTokens) { lines.record($0) }
        let request = HTTPRequest("GET", Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat"))
        let exchange = http.exchange(request, id: ExchangeID(rawValue: 1), events: RecordedExchange())
        exchange.start()
        let traced = Traced(exchange: exchange, responder: try #require(responders.all.all.first), lines: lines)
        traced.responder.begin(HTTPResponseHead(status: status, headers: headers))
        return traced
    }

    @Test func `parts of a stream are printed as they arrive`() async throws {
        let stream = try await self.begin(headers: ["Content-Type": "text/event-stream"])
        try expectEqual(stream.bodies, [""])
        stream.responder.write(Array("data: 1\n\n".utf8))
        try expectEqual(stream.bodies, ["", "data: 1\n\n"])
        stream.responder.write(Array("data: 2\n\n".utf8))
        stream.responder.end()
        try expectEqual(stream.bodies, ["", "data: 1\n\n", "data: 2\n\n"])
        let text = try await self.begin()
        for part in ["  ", "a", "b"] { text.responder.write(Array(part.utf8)) }
        try expectEqual(text.bodies, ["  a", "b"])
    }

    @Test(
        arguments: [
            (200, [:]), (200, ["Content-Type": "text/event-stream"]), (200, ["Content-Length": "40"]), (400, [:]),
        ] as [(Int, HTTPHeaders)])
    func `a token in parts of a response is redacted`(_ status: Int, _ headers: HTTPHeaders) async throws {
        let traced = try await self.begin(status: status, headers: headers)
        for part in [" ", #" {"accessToken":"open"#, #"sesame"}"#] { traced.responder.write(Array(part.utf8)) }
        traced.responder.end()
        // The JSON of an error is left out, because it may quote the request.
        try expectEqual(traced.bodies.joined(), (status < 300 ? #"{"accessToken":"<redacted>"}"# : "{…}"))
    }

    @Test func `only the size of an incomplete response is printed`() async throws {
        let traced = try await self.begin()
        traced.responder.write(Array(#"{"accessToken":"open"#.utf8))
        traced.exchange.cancel()
        try expectEqual(traced.bodies, ["20 bytes, incomplete"])
        // Nothing follows, and the end of a request is printed once.
        traced.responder.write(Array(#"sesame"}"#.utf8))
        traced.exchange.cancel()
        try expectEqual(traced.bodies.count, 1)
    }

    @Test func `a request that fails is printed with the reason and without its query`() async throws {
        let lines = EventRecorder<Line>()
        let http = HTTPTrace.transport(InMemoryNetwork(clock: ManualClock()).http, redact: HTTPTrace.redactTokens) { lines.record($0) }
        let events = RecordedExchange()
        let request = HTTPRequest("GET", try Endpoint("http://nowhere.test/chat"))
        http.exchange(request, id: ExchangeID(rawValue: 1), events: events).start()
        let message = try JSONValue(parsing: try #require(lines.all.last).json)["message"]?.string
        expectEqual(message, "GET http://nowhere.test/chat failed: \(try #require(events.error).message)")
        expectEqual(lines.all.count, 2)
    }
}

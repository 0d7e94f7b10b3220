import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
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
        let http = TracingHTTPTransport(http: FixedResponse(body: body), redact: TracingHTTPTransport.redactTokens) { lines.record($0) }
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
        #expect(result.received == body)
        #expect(!result.lines.contains("opensesame"))
        #expect(result.printed.hasPrefix(#"{"\#(name)":"<redacted>","url":"http://other/aaa"#))
        #expect(result.printed.hasSuffix("a… (\(body.utf8.count) bytes)") && result.printed.utf8.count <= Self.limit + Self.suffix)
    }

    @Test(arguments: Self.names)
    func `a token that is longer than what is printed is redacted`(_ name: String) async throws {
        let body = #"{"url":"http://other/hub","\#(name)":"\#(String(repeating: "opensesame", count: 600))"}"#
        let result = try await self.negotiate(body)
        #expect(result.received == body)
        #expect(!result.lines.contains("opensesame"))
        // What remains is short.
        #expect(result.printed == #"{"url":"http://other/hub","\#(name)":"<redacted>"}"#)
    }

    @Test(arguments: Self.names)
    func `a token at the end of what is printed is redacted`(_ name: String) async throws {
        for length in [4_000, 4_040, 4_060, 4_080] {
            let url = "http://other/" + String(repeating: "a", count: length)
            let body = #"{"url":"\#(url)","\#(name)":"opensesame\#(String(repeating: "-opensesame", count: 20))"}"#
            let result = try await self.negotiate(body)
            #expect(result.received == body)
            #expect(!result.lines.contains("opens"), "\(length)")
            #expect(result.printed.utf8.count <= Self.limit + Self.suffix)
        }
    }

    @Test func `a response that is printed completely isn't shortened`() async throws {
        let result = try await self.negotiate(#"{"negotiateVersion":1,"connectionId":"a","connectionToken":"opensesame"}"#)
        #expect(result.printed == #"{"negotiateVersion":1,"connectionId":"a","connectionToken":"<redacted>"}"#)
    }

    @Test(arguments: [
        #"{"type":"response","error":"you sent MYACCESSTOKEN99 and SECRETKEY77"}"#, "<p>MYACCESSTOKEN99 SECRETKEY77</p>",
        #"{"error":"MYACCESSTOKEN\u0039\u0039"}"#,
    ])
    func `header fields that a server repeats are redacted`(_ body: String) async throws {
        let lines = EventRecorder<Line>()
        let http = TracingHTTPTransport(http: FixedResponse(body: body), redact: TracingHTTPTransport.redactTokens) { lines.record($0) }
        let headers: HTTPHeaders = ["Authorization": "Bearer MYACCESSTOKEN99", "X-Api-Key": "SECRETKEY77"]
        let response = try await http.send(HTTPRequest("POST", try Endpoint("http://host/chat/negotiate"), headers: headers))
        #expect(String(decoding: response.body, as: UTF8.self) == body)
        let text = lines.all.map { String(decoding: $0.json, as: UTF8.self) }.joined()
        #expect(!text.contains("MYACCESS") && !text.contains("SECRETKEY") && text.contains("<redacted>"))
    }

    @Test func `the query of a redirect's URL is redacted`() async throws {
        let result = try await self.negotiate(#"{"url":"http://other/hub?asrs=SECRETINQUERY","accessToken":"opensesame"}"#)
        #expect(!result.lines.contains("SECRETINQUERY") && result.printed.contains("http://other/hub"))
    }

    // MARK: Streams

    /// A body whose parts a test provides.
    private final class Parts: HTTPBody {
        let parts: Lock<[String]>

        init(_ parts: [String]) { self.parts = Lock(parts) }

        func next() async throws(TransportError) -> [UInt8]? {
            self.parts.withLock { $0.isEmpty ? nil : Array($0.removeFirst().utf8) }
        }
    }

    private struct Streaming: HTTPTransport {
        let head: HTTPResponseHead
        let body: Parts

        func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
            HTTPStreamedResponse(self.head, body: self.body)
        }
    }

    /// Opens a response.
    ///
    /// - Returns: The response, and the bodies of the lines.
    private func open(
        _ parts: [String], status: Int = 200, headers: HTTPHeaders = [:]
    ) async throws -> (response: HTTPStreamedResponse, bodies: @Sendable () throws -> [String]) {
        let lines = EventRecorder<Line>()
        let streaming = Streaming(head: HTTPResponseHead(status: status, headers: headers), body: Parts(parts))
        let http = TracingHTTPTransport(http: streaming, redact: TracingHTTPTransport.redactTokens) { lines.record($0) }
        let response = try await http.open(HTTPRequest("GET", try Endpoint("http://host/chat")))
        return (response, { try lines.all.dropFirst().map { try JSONValue(parsing: $0.json)["body"]?.string ?? "" } })
    }

    @Test func `parts of a stream are printed as they arrive`() async throws {
        let (response, bodies) = try await self.open(["data: 1\n\n", "data: 2\n\n"], headers: ["Content-Type": "text/event-stream"])
        #expect(try bodies() == [""])
        #expect(try await response.body.next() == Array("data: 1\n\n".utf8))
        #expect(try bodies() == ["", "data: 1\n\n"])
        _ = try await response.body.next()
        #expect(try await response.body.next() == nil)
        #expect(try bodies() == ["", "data: 1\n\n", "data: 2\n\n"])
        let (plain, plainBodies) = try await self.open(["  ", "a", "b"])
        for _ in 0..<4 { _ = try await plain.body.next() }
        #expect(try plainBodies() == ["  a", "b"])
    }

    @Test(
        arguments: [
            (200, [:]), (200, ["Content-Type": "text/event-stream"]), (200, ["Content-Length": "40"]), (400, [:]),
        ] as [(Int, HTTPHeaders)])
    func `a token in parts of a response is redacted`(_ status: Int, _ headers: HTTPHeaders) async throws {
        let (response, bodies) = try await self.open(
            [" ", #" {"accessToken":"open"#, #"sesame"}"#], status: status, headers: headers)
        while try await response.body.next() != nil {}
        // The JSON of an error is left out, because it may quote the request.
        #expect(try bodies().joined() == (status < 300 ? #"{"accessToken":"<redacted>"}"# : "{…}"))
    }

    @Test func `only the size of an incomplete response is printed`() async throws {
        let bodies: @Sendable () throws -> [String]
        do {
            let response: HTTPStreamedResponse
            (response, bodies) = try await self.open([#"{"accessToken":"open"#, #"sesame"}"#])
            _ = try await response.body.next()
        }
        #expect(try bodies() == ["20 bytes, incomplete"])
    }
}

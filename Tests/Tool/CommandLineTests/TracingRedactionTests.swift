import RealtimeCore
import RealtimeJSON
import RealtimeTesting
import Testing

@testable import CommandLineSupport
@testable import realtime

/// What `--verbose` prints of a negotiation whose response is larger than what is printed.
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

    /// The number of bytes that are printed, without the ellipsis.
    private static let limit = 4096
    private static let names = ["accessToken", "connectionToken"]

    @Test(arguments: Self.names)
    func `a token in front of the part that isn't printed is redacted`(_ name: String) async throws {
        let url = "http://other/" + String(repeating: "a", count: 5_000)
        let body = #"{"\#(name)":"opensesame","url":"\#(url)"}"#
        let result = try await self.negotiate(body)
        #expect(result.received == body)
        #expect(!result.lines.contains("opensesame"))
        #expect(result.printed.hasPrefix(#"{"\#(name)":"<redacted>","url":"http://other/aaa"#))
        #expect(result.printed.hasSuffix("a…") && result.printed.utf8.count == Self.limit + "…".utf8.count)
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
            #expect(result.printed.utf8.count <= Self.limit + "…".utf8.count)
        }
    }

    @Test func `a response that is printed completely isn't shortened`() async throws {
        let result = try await self.negotiate(#"{"negotiateVersion":1,"connectionId":"a","connectionToken":"opensesame"}"#)
        #expect(result.printed == #"{"negotiateVersion":1,"connectionId":"a","connectionToken":"<redacted>"}"#)
    }
}

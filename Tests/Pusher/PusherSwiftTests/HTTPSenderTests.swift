import Foundation
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Requests of the application over the package's own HTTP client.
@Suite struct HTTPSenderTests {
    /// Answers with the responses in their order, and repeats the last one.
    private final class StubHTTP: HTTPTransport {
        let requests = EventRecorder<HTTPRequest>()
        let clock = ManualClock()
        private let responses: [HTTPResponse]
        private let delay: Duration

        /// - Parameter delay: The time until a response.
        init(_ responses: [HTTPResponse], delay: Duration = .zero) {
            self.responses = responses
            self.delay = delay
        }

        func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
            self.requests.record(request)
            self.clock.advance(by: self.delay)
            return HTTPStreamedResponse(self.responses[min(self.requests.all.count, self.responses.count) - 1])
        }
    }

    private static func redirect(_ status: Int, to location: String) -> HTTPResponse {
        var response = HTTPResponse(status: status, text: "moved")
        response.head.headers["Location"] = location
        return response
    }

    private func send(_ request: URLRequest, _ http: StubHTTP) async -> (text: String?, response: HTTPURLResponse?, error: NSError?) {
        var transports = InMemoryNetwork(clock: http.clock).transports()
        transports.http = http
        let sender = HTTPSender(session: .shared, transports: transports, isCustom: true, cookies: RedirectingHTTP.Cookies())
        return await withCheckedContinuation { continuation in
            sender.send(request) { data, response, error in
                let text = data.map { String(decoding: $0, as: UTF8.self) }
                continuation.resume(returning: (text, response as? HTTPURLResponse, error))
            }
        }
    }

    private static func request(_ url: String = "https://app.test/auth/") throws -> URLRequest {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = "POST"
        request.httpBody = Data("a=1".utf8)
        request.setValue("Bearer token", forHTTPHeaderField: "Authorization")
        request.setValue("value", forHTTPHeaderField: "X-Other")
        return request
    }

    @Test(arguments: [(301, "GET", ""), (302, "GET", ""), (303, "GET", ""), (307, "POST", "a=1"), (308, "POST", "a=1")])
    func `redirects are followed`(status: Int, method: String, body: String) async throws {
        let http = StubHTTP([Self.redirect(status, to: "../other?x=1"), HTTPResponse(status: 200, text: "ok")])
        let result = await self.send(try Self.request(), http)
        expect(result.text == "ok" && result.error == nil && result.response?.url?.absoluteString == "https://app.test/other?x=1")
        let second = try #require(http.requests.all.last)
        expect(http.requests.all.count == 2 && second.method == method && String(decoding: second.body, as: UTF8.self) == body)
        expect(second.endpoint.host == "app.test" && second.endpoint.target == "/other?x=1" && second.endpoint.isSecure)
        expectEqual(second.headers["Authorization"], "Bearer token")
        expectEqual((second.headers["Content-Type"] == nil), body.isEmpty)
    }

    @Test(arguments: ["https://other.test/auth", "https://app.test:444/auth"])
    func `another server receives neither the credentials nor fields of the application`(location: String) async throws {
        let http = StubHTTP([Self.redirect(307, to: location), HTTPResponse(status: 200, text: "ok")])
        _ = await self.send(try Self.request(), http)
        let second = try #require(http.requests.all.last)
        expect(second.headers["Authorization"] == nil && second.headers["X-Other"] == nil)
    }

    @Test func `redirects without an end are an error, and one without a location is a response`() async throws {
        let loop = StubHTTP([Self.redirect(302, to: "/auth/")])
        let failed = await self.send(try Self.request(), loop)
        expect(failed.response == nil && failed.error?.localizedDescription.contains("redirected more than 20 times") == true)
        expectEqual(loop.requests.all.count, 21)
        let other = await self.send(try Self.request(), StubHTTP([HTTPResponse(status: 302, text: "nowhere")]))
        expectEqual(other.response?.statusCode, 302)
    }

    @Test(arguments: [("http://app.test/auth", "from https to http"), ("ftp://app.test/", "to an invalid URL")])
    func `redirects to unencrypted or unknown URLs are an error`(location: String, reason: String) async throws {
        let http = StubHTTP([Self.redirect(307, to: location), HTTPResponse(status: 200, text: "ok")])
        let result = await self.send(try Self.request(), http)
        expect(result.response == nil && result.error?.localizedDescription.contains(reason) == true)
        expectEqual(http.requests.all.count, 1)
    }

    @Test func `the time limit of a request is kept`() async throws {
        let http = StubHTTP([HTTPResponse(status: 200, text: "ok")])
        var request = try Self.request()
        _ = await self.send(request, http)
        request.timeoutInterval = 5
        _ = await self.send(request, http)
        expectEqual(http.requests.all.map(\.idleTimeout), [.seconds(60), .seconds(5)])
        expectEqual(http.requests.all.map(\.connectTimeout), [.seconds(10), .seconds(5)])
    }

    @Test func `all redirects of a request share its time limit`() async throws {
        let http = StubHTTP([Self.redirect(302, to: "/auth/")], delay: .seconds(20))
        let result = await self.send(try Self.request(), http)
        expectEqual(http.requests.all.map(\.idleTimeout), [.seconds(60), .seconds(40), .seconds(20)])
        expectEqual(result.error?.code, URLError.Code.timedOut.rawValue)
        expectEqual(result.error?.localizedDescription.contains("took more than 60.0 seconds"), true)
    }
}

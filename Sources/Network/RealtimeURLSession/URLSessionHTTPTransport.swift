internal import Foundation
package import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// An HTTP client on the system's URLSession, the default on Apple platforms.
///
/// URLSession does not report when a connection is established. Until the head of the response arrives, the request's idle timeout
/// therefore applies in place of its connect timeout.
package struct URLSessionHTTPTransport: HTTPTransport {
    private let host = SharedURLSession()

    package init() {}

    package func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        var urlRequest = try URLRequest(request.endpoint, request.headers)
        urlRequest.httpMethod = request.method
        if !request.body.isEmpty { urlRequest.httpBody = Data(request.body) }
        urlRequest.timeoutInterval = max(0.001, Double(request.idleTimeout.nanoseconds) / 1e9)
        let task = self.host.session.dataTask(with: urlRequest)
        let exchange = URLSessionExchange(self.host, task, request.endpoint)
        self.host.route(task, to: exchange)
        task.resume()
        return HTTPStreamedResponse(try await exchange.head(), body: URLSessionBody(exchange))
    }
}

/// The body of a response. Releasing it cancels the request.
private final class URLSessionBody: HTTPBody {
    private let exchange: URLSessionExchange

    init(_ exchange: URLSessionExchange) {
        self.exchange = exchange
    }

    func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

    deinit { self.exchange.abandon() }
}

extension URLRequest {
    /// - Throws: `invalidURL` if the endpoint cannot be converted to a URL.
    init(_ endpoint: Endpoint, _ headers: HTTPHeaders) throws(TransportError) {
        if let problem = endpoint.validationError { throw problem }
        guard let url = URL(string: endpoint.origin + endpoint.target) else {
            throw TransportError(
                .invalidURL, "Invalid URL: \(endpoint) has an invalid path or query. Percent-encode its special characters.")
        }
        self.init(url: url)
        self.httpShouldHandleCookies = false
        for field in headers { self.addValue(field.value, forHTTPHeaderField: field.name) }
    }
}

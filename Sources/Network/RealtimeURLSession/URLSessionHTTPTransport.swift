internal import Foundation
package import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// HTTP through the system's own URLSession: the default on Apple's systems.
///
/// URLSession does not say when a connection has come about, so until the head of the answer is there the limit is the
/// request's idle timeout, which covers its connect timeout.
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

/// Dropping it ends the connection.
final class URLSessionBody: HTTPBody {
    private let exchange: URLSessionExchange

    init(_ exchange: URLSessionExchange) {
        self.exchange = exchange
    }

    func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

    deinit { self.exchange.leave() }
}

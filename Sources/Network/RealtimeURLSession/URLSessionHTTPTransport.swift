internal import Foundation
package import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// An HTTP client on the system's URLSession, the default on Apple platforms.
///
/// URLSession does not report when a connection is established. Until the head of the response arrives, the request's idle timeout
/// therefore applies in place of its connect timeout.
package struct URLSessionHTTPTransport: HTTPExchangeTransport {
    private let host = SharedURLSession()

    package init() {}

    package func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        URLSessionExchange(self.host, request, id, events)
    }
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

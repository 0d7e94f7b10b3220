internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

extension URLRequest {
    init(_ endpoint: Endpoint, _ headers: HTTPHeaders) throws(TransportError) {
        if let error = endpoint.validationError { throw error }
        guard let url = URL(string: endpoint.origin + endpoint.target) else {
            throw TransportError(.invalidURL, "The path or the query of \(endpoint) cannot be sent; percent-encode what is special in it.")
        }
        self.init(url: url)
        self.httpShouldHandleCookies = false
        for field in headers { self.addValue(field.value, forHTTPHeaderField: field.name) }
    }
}

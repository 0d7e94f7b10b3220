import Foundation
import RealtimeCore
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Sends the requests of an application with its session, or with the package's own HTTP client.
struct HTTPSender {
    typealias Completion = @Sendable (Data?, URLResponse?, NSError?) -> Void

    let session: URLSession
    let transports: Transports
    /// Whether the transports aren't the standard ones.
    let isCustom: Bool
    /// The cookies of the package's own HTTP client.
    let cookies: RedirectingHTTP.Cookies

    /// Whether the package's own HTTP client is used instead of the shared session, which can't be one that the application has configured.
    private var usesTransport: Bool {
        guard self.session === URLSession.shared else { return false }
        #if canImport(FoundationNetworking)
        return true
        #else
        return self.isCustom
        #endif
    }

    func send(_ request: URLRequest, _ completion: @escaping Completion) {
        guard self.usesTransport else {
            self.session.dataTask(with: request) { data, response, error in completion(data, response, error.map { $0 as NSError }) }
                .resume()
            return
        }
        // An unstructured task, because the caller isn't asynchronous. It ends with the request, which has time limits.
        Task { [http = RedirectingHTTP(self.transports, cookies: self.cookies)] in
            do {
                let (data, response) = try await Self.response(to: request, over: http)
                completion(data, response, nil)
            } catch {
                completion(nil, nil, Self.error(error))
            }
        }
    }

    private static func response(to request: URLRequest, over http: RedirectingHTTP) async throws -> (Data, URLResponse) {
        guard let url = request.url else { throw TransportError(.invalidURL, "The request has no URL.") }
        var headers: HTTPHeaders = [:]
        for (name, value) in request.allHTTPHeaderFields ?? [:] { headers.add(name, value) }
        let body = request.httpBody.map { Array($0) } ?? []
        if !body.isEmpty, headers["Content-Type"] == nil { headers.add("Content-Type", "application/x-www-form-urlencoded") }
        var message = HTTPRequest(request.httpMethod ?? "GET", try Endpoint(url.absoluteString), headers: headers, body: body)
        let timeout = request.timeoutInterval
        if timeout > 0, timeout < 1e9 { message.idleTimeout = .nanoseconds(Int64(timeout * 1e9)) }
        message.connectTimeout = min(message.connectTimeout, message.idleTimeout)
        let (response, endpoint) = try await http.sendFollowingRedirects(message)
        return try Self.foundation(response, endpoint)
    }

    private static func foundation(_ response: HTTPResponse, _ endpoint: Endpoint) throws -> (Data, URLResponse) {
        var fields: [String: String] = [:]
        for field in response.head.headers { fields[field.name] = field.value }
        guard let url = URL(string: endpoint.origin + endpoint.target),
            let head = HTTPURLResponse(url: url, statusCode: response.head.status, httpVersion: "HTTP/1.1", headerFields: fields)
        else {
            throw TransportError(.protocolViolation, "The response isn't valid.")
        }
        return (Data(response.body), head)
    }

    private static func error(_ error: any Error) -> NSError {
        let failure = error as? TransportError
        let code: URLError.Code =
            switch failure?.code {
            case .invalidURL?: .badURL
            case .nameNotFound?: .cannotFindHost
            case .refused?, .unreachable?: .cannotConnectToHost
            case .timedOut?: .timedOut
            case .reset?, .closed?: .networkConnectionLost
            case .certificateRejected?: .serverCertificateUntrusted
            case .tlsFailed?, .tlsUnavailable?: .secureConnectionFailed
            default: .unknown
            }
        let message = failure?.message ?? "The request failed."
        return NSError(domain: NSURLErrorDomain, code: code.rawValue, userInfo: [NSLocalizedDescriptionKey: message])
    }
}

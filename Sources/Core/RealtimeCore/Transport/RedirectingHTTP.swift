import RealtimeSystem

/// Sends the requests of one client of a protocol over any transport: follows redirects, and keeps cookies.
///
/// Requests whose response is a redirect are repeated at the other URL, up to ``HTTPRequest/redirectLimit`` times; see
/// ``HTTPRequest/redirected(by:)``. Only the response to the last request is returned. The redirects share the request's `idleTimeout`.
package struct RedirectingHTTP: HTTPTransport {
    /// The cookies of a client, which stay when its transports change.
    package final class Cookies: Sendable {
        private let jar = Lock(CookieJar())

        package init() {}

        /// Adds the cookies of a response.
        package func store(_ headers: HTTPHeaders, from endpoint: Endpoint, now: Instant) {
            self.jar.withLock { $0.store(headers, from: endpoint, now: now) }
        }

        /// Removes the cookies whose lifetime has passed.
        package func removeExpired(now: Instant) { self.jar.withLock { $0.removeExpired(now: now) } }

        /// Returns header fields with the cookies for an endpoint. Cookies among the fields replace those with the same name.
        package func headers(_ headers: HTTPHeaders, for endpoint: Endpoint) -> HTTPHeaders {
            self.jar.withLock { $0.headers(headers, for: endpoint) }
        }

        /// The values of all cookies, which must not appear in errors and logs.
        package var secrets: [String] { self.jar.withLock { $0.secrets } }

        /// Returns a request with the cookies for its endpoint.
        package func added(to request: HTTPRequest, now: Instant) -> HTTPRequest {
            var request = request
            self.removeExpired(now: now)
            request.headers = self.headers(request.headers, for: request.endpoint)
            return request
        }
    }

    private let transport: any HTTPTransport
    private let time: any TimeSource
    private let cookies: Cookies

    package init(_ transport: any HTTPTransport, time: any TimeSource, cookies: Cookies) {
        self.transport = transport
        self.time = time
        self.cookies = cookies
    }

    package init(_ transports: Transports, cookies: Cookies) {
        self.init(transports.http, time: transports.time, cookies: cookies)
    }

    package func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        try await self.openFollowingRedirects(request).response
    }

    /// Sends a request as ``HTTPTransport/send(_:bodyLimit:)`` does. The body has the time limit of the request, also after redirects.
    ///
    /// - Returns: The response, and the endpoint that sent it.
    package func sendFollowingRedirects(
        _ request: HTTPRequest, bodyLimit: Int = 4 << 20
    ) async throws(TransportError) -> (response: HTTPResponse, endpoint: Endpoint) {
        var request = request
        request.limitsHead = true
        let (response, endpoint) = try await self.openFollowingRedirects(request)
        return (try await response.complete(from: endpoint, idleTimeout: request.idleTimeout, bodyLimit: bodyLimit), endpoint)
    }

    /// Sends a request as ``open(_:)`` does.
    ///
    /// - Returns: The response, and the endpoint that sent it.
    package func openFollowingRedirects(
        _ request: HTTPRequest
    ) async throws(TransportError) -> (response: HTTPStreamedResponse, endpoint: Endpoint) {
        var request = request
        // Of all requests: each of many redirects could otherwise take as long as one request may.
        let (limit, deadline) = (request.idleTimeout, self.time.now.advanced(by: request.idleTimeout))
        for _ in 0...HTTPRequest.redirectLimit {
            let response = try await self.transport.open(self.cookies.added(to: request, now: self.time.now))
            self.cookies.store(response.head.headers, from: request.endpoint, now: self.time.now)
            guard let next = try request.redirected(by: response.head) else { return (response, request.endpoint) }
            request = next
            request.idleTimeout = self.time.now.duration(to: deadline)
            request.connectTimeout = min(request.connectTimeout, request.idleTimeout)
            guard request.idleTimeout > .zero else {
                throw TransportError(
                    .timedOut, "The redirects to \(request.endpoint) took more than \(limit). Use the URL at which they end.")
            }
        }
        throw request.redirectLoop
    }
}

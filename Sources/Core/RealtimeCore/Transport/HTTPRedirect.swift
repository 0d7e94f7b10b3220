/// Redirects of HTTP requests.
///
/// Source: RFC 9110 section 15.4, and the Fetch standard for the methods.
extension HTTPRequest {
    /// The maximum number of redirects that are followed.
    package static let redirectLimit = 20

    /// Returns the request that follows a redirect.
    ///
    /// A POST becomes a GET without a body after 301 and 302, and any method but HEAD after 303. With 307 and 308, the method and the body
    /// stay. `Authorization` and cookies aren't sent to another origin, and neither are the application's own fields, which may contain a key.
    ///
    /// - Parameters:
    ///   - head: The head of the response to this request.
    ///   - keepsFields: Whether another origin receives all fields but those of credentials, because the caller decides about the others.
    /// - Returns: The next request, or `nil` if the response isn't a redirect.
    /// - Throws: ``TransportError/Code/requestRejected`` if the response redirects from https to http, or to an invalid URL.
    package func redirected(by head: HTTPResponseHead, keepsFields: Bool = false) throws(TransportError) -> HTTPRequest? {
        guard let location = head.location else { return nil }
        var next = self
        do throws(TransportError) {
            next.endpoint = try self.endpoint.resolving(location)
        } catch {
            throw self.rejection(head, "to an invalid URL. \(error.message) Check the server")
        }
        guard ["http", "https"].contains(next.endpoint.scheme) else {
            throw self.rejection(head, "to \(next.endpoint), which isn't an HTTP URL. Check the server")
        }
        guard next.endpoint.isSecure || !self.endpoint.isSecure else {
            throw self.rejection(
                head, "from https to http, to \(next.endpoint), which would send the request unencrypted. Use an https URL")
        }
        let becomesGET = head.status == 303 ? self.method != "HEAD" : [301, 302].contains(head.status) && self.method == "POST"
        if becomesGET {
            (next.method, next.body) = ("GET", [])
            for name in ["Content-Type", "Content-Encoding", "Content-Language", "Content-Location"] { next.headers[name] = nil }
        }
        if next.endpoint.origin != self.endpoint.origin {
            next.headers = next.headers.forOtherOrigin(keepsFields: keepsFields)
        }
        return next
    }

    /// Returns the request that follows a redirect, for a request that isn't the same with another method.
    ///
    /// - Parameter head: The head of the response to this request.
    /// - Returns: The next request, or `nil` if the response isn't a redirect.
    /// - Throws: As ``redirected(by:keepsFields:)``, and if the method would change.
    package func redirectedUnchanged(by head: HTTPResponseHead) throws(TransportError) -> HTTPRequest? {
        guard let next = try self.redirected(by: head) else { return nil }
        guard next.method == self.method else {
            let change = "to \(next.endpoint), for which a \(self.method) request becomes a \(next.method) request"
            throw self.rejection(head, "\(change). Use that URL, or redirect with the status 307 or 308")
        }
        return next
    }

    /// The error for more redirects than ``redirectLimit``.
    package var redirectLoop: TransportError {
        TransportError(
            .requestRejected,
            "\(self.endpoint) was redirected more than \(Self.redirectLimit) times. Check the server for a loop.")
    }

    private func rejection(_ head: HTTPResponseHead, _ reason: String) -> TransportError {
        TransportError(.requestRejected, "\(self.endpoint) redirects with the status \(head.status) \(reason).", status: head.status)
    }
}

extension HTTPHeaders {
    /// The fields that say what a request and its client are, and nothing that is meant for one server.
    private static let fieldsForAll: Set<String> = [
        "accept", "accept-encoding", "accept-language", "cache-control", "content-encoding", "content-language", "content-type",
        "user-agent",
    ]

    /// Returns the fields that another origin than the intended one receives.
    ///
    /// - Parameter keepsFields: Whether these are all but those of credentials, because the caller decides about the others.
    package func forOtherOrigin(keepsFields: Bool) -> HTTPHeaders {
        HTTPHeaders(
            self.filter { field in
                let name = field.name.lowercased()
                return keepsFields ? !["authorization", "cookie", "proxy-authorization"].contains(name) : Self.fieldsForAll.contains(name)
            })
    }
}

extension HTTPResponse {
    /// The message about a response that rejects a WebSocket. No client for JavaScript follows a redirect of one either.
    ///
    /// - Parameter endpoint: The endpoint of the WebSocket.
    package func rejectionOfUpgrade(at endpoint: Endpoint) -> String {
        let target = self.head.redirectTarget(from: endpoint).map {
            " It redirects to \($0), which a WebSocket doesn't follow: use that URL."
        }
        return "The server rejected the WebSocket with \(self.summary)\(target ?? "")"
    }
}

extension HTTPResponseHead {
    /// The URL reference to which the response redirects, if it does.
    fileprivate var location: String? {
        [301, 302, 303, 307, 308].contains(self.status) ? self.headers["Location"] : nil
    }

    /// Returns the endpoint to which the response redirects, for errors of clients that don't follow redirects.
    ///
    /// - Parameter endpoint: The endpoint that sent the response.
    package func redirectTarget(from endpoint: Endpoint) -> Endpoint? {
        self.location.flatMap { location in
            do throws(TransportError) {
                return try endpoint.resolving(location)
            } catch {
                return nil
            }
        }
    }
}

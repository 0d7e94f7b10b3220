import RealtimeSystem

internal import RealtimeEncoding

/// The parts of an endpoint, and endpoints derived from another one.
extension Endpoint {
    /// The path, percent-encoded, starting with a slash.
    ///
    /// Setting it keeps the query. A missing slash is added, and a question mark or number sign is percent-encoded.
    public var path: String {
        get { String(self.requestTarget.beforeQuery) }
        set {
            let query = self.query
            let encoded = newValue.replacingText("?", with: "%3F").replacingText("#", with: "%23")
            self.target = encoded.utf8.first == UInt8(ascii: "/") ? encoded : "/" + encoded
            self.query = query
        }
    }

    /// The query after the question mark, percent-encoded; `nil` if there is no question mark.
    ///
    /// Setting it keeps the path. A number sign is percent-encoded.
    public var query: String? {
        get {
            let target = self.requestTarget
            guard let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) else { return nil }
            return String(target[mark...].dropFirst())
        }
        set {
            let query = newValue.map { "?" + $0.replacingText("#", with: "%23") } ?? ""
            self.target = self.path + query
        }
    }

    /// The endpoint in a message about a response: the one that answered and, after a redirect, the one that was asked.
    ///
    /// - Parameter endpoint: The one that answered; `nil` for the one that was asked.
    package func place(answeredBy endpoint: Endpoint?) -> String {
        guard let endpoint, endpoint != self else { return "\(self)" }
        return "\(endpoint), to which \(self) redirected the request,"
    }

    /// Returns the decoded value of the first field of the query with a name.
    ///
    /// - Parameter name: The decoded name of the field.
    /// - Returns: The value, empty if the field has none; `nil` if there is no such field or the query can't be decoded.
    public func queryValue(_ name: String) -> String? {
        self.query.flatMap { PercentEncoding.value(of: name, in: $0) }
    }

    /// Appends a field to the query.
    ///
    /// - Parameters:
    ///   - name: The name of the field; it is percent-encoded.
    ///   - value: The value of the field; it is percent-encoded.
    public mutating func addQuery(_ name: String, _ value: String) {
        let field = "\(PercentEncoding.encode(name))=\(PercentEncoding.encode(value))"
        self.query = self.query.flatMap { $0.isEmpty ? nil : "\($0)&\(field)" } ?? field
    }

    /// Returns the endpoint with components appended to its path, and the same query.
    ///
    /// - Parameter components: One or more components, percent-encoded, separated by slashes. Exactly one slash separates them from the path.
    public func appending(path components: String) -> Endpoint {
        var endpoint = self
        let path = self.path
        let base = path.utf8.last == UInt8(ascii: "/") ? String(path.dropLast()) : path
        endpoint.path = components.utf8.first == UInt8(ascii: "/") ? base + components : "\(base)/\(components)"
        return endpoint
    }

    /// The endpoint with the scheme `ws` instead of `http`, or `wss` instead of `https`.
    public var webSocket: Endpoint { self.withScheme(self.isSecure ? "wss" : "ws") }

    /// The endpoint with the scheme `http` instead of `ws`, or `https` instead of `wss`.
    public var http: Endpoint { self.withScheme(self.isSecure ? "https" : "http") }

    private func withScheme(_ scheme: String) -> Endpoint {
        var endpoint = self
        endpoint.scheme = scheme
        return endpoint
    }

    /// Resolves a URL reference relative to this endpoint (RFC 3986 section 5), for example the value of a `Location` header field.
    ///
    /// - Parameter reference: An absolute URL, or a reference such as `//host/path`, `/path`, `../path` or `?query`. A fragment is removed.
    /// - Returns: The endpoint to which the reference refers.
    /// - Throws: ``TransportError/Code/invalidURL`` if the reference is invalid, or if its scheme isn't `ws`, `wss`, `http` or `https`. The
    ///   error doesn't contain the reference, which may contain a password or a token.
    public func resolving(_ reference: String) throws(TransportError) -> Endpoint {
        guard reference.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw TransportError(
                .invalidURL, "Invalid URL reference: spaces, control characters and non-ASCII characters must be percent-encoded.")
        }
        let text = String(reference.prefix { $0 != "#" })
        let first = text.prefix { !"/?".contains($0) }
        var resolved = self
        resolved.target = self.requestTarget
        if first.contains(":") {
            resolved = try Endpoint(text)
        } else if text.hasPrefix("//") {
            resolved = try Endpoint("\(self.scheme):\(text)")
        } else if text.isEmpty {
            return resolved
        } else if text.hasPrefix("?") {
            resolved.target = self.path + text
        } else if text.hasPrefix("/") {
            resolved.target = text
        } else {
            let folder = self.path.utf8.dropLast(self.path.utf8.reversed().prefix { $0 != UInt8(ascii: "/") }.count)
            resolved.target = String(decoding: folder, as: UTF8.self) + text
        }
        let query = resolved.query
        resolved.target = Self.removingDotSegments(resolved.path)
        resolved.query = query
        return resolved
    }

    /// Removes the segments `.` and `..` (RFC 3986 section 5.2.4).
    private static func removingDotSegments(_ path: String) -> String {
        var segments: [Substring.UTF8View] = []
        let all = path[...].utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst()
        for (index, segment) in zip(all.indices, all) {
            let isLast = index == all.endIndex - 1
            if segment.elementsEqual("..".utf8) {
                _ = segments.popLast()
                if isLast { segments.append(""[...].utf8) }
            } else if segment.elementsEqual(".".utf8) {
                if isLast { segments.append(""[...].utf8) }
            } else {
                segments.append(segment)
            }
        }
        return segments.map { "/" + String(Substring($0)) }.joined()
    }

    /// The path and query as they are sent: without a fragment, and with a slash at the beginning, which an endpoint that was created from
    /// parts may lack. `*`, which only the method `OPTIONS` allows, is unchanged.
    package var requestTarget: String {
        if self.target.utf8.first == UInt8(ascii: "/"), !self.target.utf8.contains(UInt8(ascii: "#")) { return self.target }
        let target = self.target.utf8.prefix { $0 != UInt8(ascii: "#") }
        let text = String(Substring(target))
        return target.first == UInt8(ascii: "/") || text == "*" ? text : "/" + text
    }
}

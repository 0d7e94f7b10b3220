/// The header fields of a message, in order. Names are compared case-insensitively.
public struct HTTPHeaders: Sendable, Hashable, ExpressibleByDictionaryLiteral, Sequence {
    /// A header field.
    public struct Field: Sendable, Hashable {
        /// The name, in the spelling in which it was received or is sent.
        public var name: String
        /// The value, without surrounding whitespace.
        public var value: String

        package init(name: String, value: String) {
            (self.name, self.value) = (name, value)
        }
    }

    /// The fields in order.
    public private(set) var fields: [Field] = []

    /// Creates an empty list of fields.
    public init() {}

    package init(_ fields: [Field]) {
        self.fields = fields
    }

    /// Creates a list of fields. A name may occur several times.
    public init(dictionaryLiteral elements: (String, String)...) {
        self.fields = elements.map { Field(name: $0.0, value: $0.1) }
    }

    /// The value of the first field with a name. Setting it replaces all fields with that name; `nil` removes them.
    public subscript(_ name: String) -> String? {
        get { self.fields.first { Self.isEqual($0.name.utf8, name.utf8) }?.value }
        set {
            self.fields.removeAll { Self.isEqual($0.name.utf8, name.utf8) }
            if let newValue { self.fields.append(Field(name: name, value: newValue)) }
        }
    }

    /// Returns the values of all fields with a name, in order.
    public func values(_ name: String) -> [String] {
        var values: [String] = []
        for field in self.fields where Self.isEqual(field.name.utf8, name.utf8) { values.append(field.value) }
        return values
    }

    /// Appends a field. Existing fields with the same name are kept.
    public mutating func add(_ name: String, _ value: String) {
        self.fields.append(Field(name: name, value: value))
    }

    /// Returns whether the comma-separated list in the fields with a name contains a token. Both are compared case-insensitively.
    ///
    /// - Parameters:
    ///   - name: The name of the fields, for example `Connection`.
    ///   - token: The token to look for, for example `upgrade`.
    public func contains(_ name: String, token: String) -> Bool {
        for field in self.fields where Self.isEqual(field.name.utf8, name.utf8) {
            var rest = field.value.utf8[...]
            while !rest.isEmpty {
                let item = rest.prefix { $0 != UInt8(ascii: ",") }
                if Self.isEqual(Self.trimmed(item), token.utf8) { return true }
                rest = rest[item.endIndex...].dropFirst()
            }
        }
        return false
    }

    /// Returns an iterator over the fields, in order.
    public func makeIterator() -> IndexingIterator<[Field]> { self.fields.makeIterator() }

    private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let start = text.drop(while: isSpace)
        guard let last = start.lastIndex(where: { !isSpace($0) }) else { return start }
        return start[...last]
    }

    /// Compares case-insensitively. Only ASCII letters have case in a field name.
    private static func isEqual(_ left: some Collection<UInt8>, _ right: some Collection<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return zip(left, right).allSatisfy { Self.lowercased($0) == Self.lowercased($1) }
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}

/// An HTTP request of a client.
public struct HTTPRequest: Sendable {
    /// The method, for example `GET` or `POST`.
    public var method: String
    /// The URL of the request.
    public var endpoint: Endpoint
    /// Additional header fields. The transport sets `Host`, `Content-Length` and `Connection`.
    public var headers: HTTPHeaders
    /// The body; empty for a request without one.
    public var body: [UInt8]
    /// The time limit for establishing the connection.
    public var connectTimeout: Duration
    /// The maximum time to wait for more data, both before the response and within it.
    public var idleTimeout: Duration
    /// Whether the server may receive the request twice. By default, this follows ``method``: `true` for `GET`, `HEAD`, `OPTIONS` and `DELETE`.
    ///
    /// A server may close a connection that was idle at the moment when the next request is sent on it. The client then can't know
    /// whether the server has processed the request. A transport that keeps connections open sends the request again, once and on a new
    /// connection, if this is `true`. Otherwise, the request fails, and so the transport sends it only on a connection that is new or was in use
    /// a short time ago. A transport of an application may ignore the value.
    public var isRepeatable: Bool {
        get { self.repeatability ?? ["GET", "HEAD", "OPTIONS", "DELETE"].contains(self.method) }
        set { self.repeatability = newValue }
    }

    private var repeatability: Bool?

    /// Whether the head of the answer has to make progress, as its body does: the answer is awaited as a whole.
    var limitsHead = false

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - method: The method, for example `GET` or `POST`.
    ///   - endpoint: The URL of the request.
    ///   - headers: Additional header fields.
    ///   - body: The body.
    ///   - connectTimeout: The time limit for establishing the connection.
    ///   - idleTimeout: The maximum time to wait for more data.
    public init(
        _ method: String, _ endpoint: Endpoint, headers: HTTPHeaders = [:], body: [UInt8] = [],
        connectTimeout: Duration = .seconds(10), idleTimeout: Duration = .seconds(60)
    ) {
        self.method = method
        self.endpoint = endpoint
        self.headers = headers
        self.body = body
        self.connectTimeout = connectTimeout
        self.idleTimeout = idleTimeout
    }
}

/// The head of a response.
public struct HTTPResponseHead: Sendable, Hashable, PrintedParts {
    /// The status code, for example 200.
    public var status: Int
    /// The reason phrase after the status code; often empty.
    public var reason: String
    /// The header fields.
    public var headers: HTTPHeaders

    /// Creates the head of a response.
    ///
    /// - Parameters:
    ///   - status: The status code.
    ///   - reason: The reason phrase. If it is empty, a server chooses the standard one.
    ///   - headers: The header fields.
    public init(status: Int, reason: String = "", headers: HTTPHeaders = [:]) {
        self.status = status
        self.reason = reason
        self.headers = headers
    }
}

/// A complete response.
public struct HTTPResponse: Sendable, Hashable {
    /// The status and the header fields.
    public var head: HTTPResponseHead
    /// The body, with any transfer coding removed.
    public var body: [UInt8]

    /// Creates a response.
    ///
    /// - Parameters:
    ///   - head: The status and the header fields.
    ///   - body: The body.
    public init(_ head: HTTPResponseHead, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    /// Creates a response with a text body, encoded as UTF-8.
    ///
    /// - Parameters:
    ///   - status: The status code.
    ///   - headers: The header fields. No `Content-Type` is added.
    ///   - text: The body.
    public init(status: Int, headers: HTTPHeaders = [:], text: String = "") {
        self.init(HTTPResponseHead(status: status, headers: headers), body: Array(text.utf8))
    }
}

/// The head of a request that a server received.
public struct HTTPRequestHead: Sendable {
    /// The method, for example `GET` or `POST`.
    public var method: String
    /// The path and query as received, percent-encoded.
    public var target: String
    /// The header fields.
    public var headers: HTTPHeaders

    /// Creates the head of a request.
    ///
    /// - Parameters:
    ///   - method: The method, for example `GET` or `POST`.
    ///   - target: The path and query, percent-encoded.
    ///   - headers: The header fields.
    public init(method: String, target: String, headers: HTTPHeaders = [:]) {
        self.method = method
        self.target = target
        self.headers = headers
    }

    /// The part of the target before the first question mark, percent-encoded.
    public var path: Substring { self.target.beforeQuery }

    /// The part of the target after the first question mark, percent-encoded; empty if there is none.
    public var query: Substring {
        guard let mark = self.target.utf8.firstIndex(of: UInt8(ascii: "?")) else { return "" }
        return self.target[self.target.utf8.index(after: mark)...]
    }
}

extension String {
    /// The part of a URL before the first question mark. A combining character may follow the mark, which isn't a `Character` then.
    var beforeQuery: Substring { Substring(self.utf8.prefix { $0 != UInt8(ascii: "?") }) }
}

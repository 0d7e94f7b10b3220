/// Header fields in their order. Names compare without regard to case.
public struct HTTPHeaders: Sendable, Hashable, ExpressibleByDictionaryLiteral, Sequence {
    /// One field.
    public struct Field: Sendable, Hashable {
        /// Its name, spelt as it came or as it is to be sent.
        public var name: String
        /// Its value, without white space around it.
        public var value: String
    }

    /// The fields, in order.
    public private(set) var fields: [Field] = []

    /// No fields.
    public init() {}

    /// These fields.
    public init(dictionaryLiteral elements: (String, String)...) {
        self.fields = elements.map { Field(name: $0.0, value: $0.1) }
    }

    /// The first value of that name. Setting replaces every field of the name; `nil` removes them.
    public subscript(_ name: String) -> String? {
        get { self.fields.first { Self.same($0.name, name) }?.value }
        set {
            self.fields.removeAll { Self.same($0.name, name) }
            if let newValue { self.fields.append(Field(name: name, value: newValue)) }
        }
    }

    /// Every value of that name, in order.
    public func values(_ name: String) -> [String] {
        self.fields.filter { Self.same($0.name, name) }.map(\.value)
    }

    /// Adds a field after the others.
    public mutating func add(_ name: String, _ value: String) {
        self.fields.append(Field(name: name, value: value))
    }

    /// Whether a field of that name holds this word in its comma-separated list, whatever the case of either.
    public func contains(_ name: String, token: String) -> Bool {
        self.values(name).contains { value in
            value.split(separator: ",").contains { Self.same(Self.trimmed($0), token) }
        }
    }

    /// The fields, in order.
    public func makeIterator() -> IndexingIterator<[Field]> { self.fields.makeIterator() }

    private static func trimmed(_ text: Substring) -> some StringProtocol {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) }) else {
            return text.prefix(0)
        }
        return text[first...last]
    }

    private static func same(_ lhs: some StringProtocol, _ rhs: some StringProtocol) -> Bool {
        let (left, right) = (lhs.utf8, rhs.utf8)
        guard left.count == right.count else { return false }
        return zip(left, right).allSatisfy { Self.lowered($0) == Self.lowered($1) }
    }

    private static func lowered(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}

/// A request over HTTP.
public struct HTTPRequest: Sendable {
    /// `GET`, `POST`, …
    public var method: String
    /// Where to.
    public var endpoint: Endpoint
    /// More header fields. `Host`, `Content-Length` and `Connection` are the transport's own.
    public var headers: HTTPHeaders
    /// The body; empty for none.
    public var body: [UInt8]
    /// How long the connection may take to come about.
    public var connectTimeout: Duration
    /// How long the server may be silent, before and within its answer.
    public var idleTimeout: Duration

    /// A request.
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

/// The head of an answer.
public struct HTTPResponseHead: Sendable, Hashable {
    /// The status, `200` and the like.
    public var status: Int
    /// The words after it; often empty.
    public var reason: String
    /// The fields.
    public var headers: HTTPHeaders

    /// A head.
    public init(status: Int, reason: String = "", headers: HTTPHeaders = [:]) {
        self.status = status
        self.reason = reason
        self.headers = headers
    }
}

/// A whole answer.
public struct HTTPResponse: Sendable {
    /// Status and fields.
    public var head: HTTPResponseHead
    /// The body, without its transfer coding.
    public var body: [UInt8]

    /// An answer.
    public init(_ head: HTTPResponseHead, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    /// An answer with a status and a body of text.
    public init(status: Int, headers: HTTPHeaders = [:], text: String = "") {
        self.init(HTTPResponseHead(status: status, headers: headers), body: Array(text.utf8))
    }
}

/// The head of a request, as a server sees it.
public struct HTTPRequestHead: Sendable {
    /// `GET`, `POST`, …
    public var method: String
    /// Path and query as they were sent, percent-encoding and all.
    public var target: String
    /// The fields.
    public var headers: HTTPHeaders

    /// A head.
    public init(method: String, target: String, headers: HTTPHeaders = [:]) {
        self.method = method
        self.target = target
        self.headers = headers
    }

    /// The target up to the question mark.
    public var path: Substring { self.target.prefix { $0 != "?" } }

    /// The target after the question mark; empty when there is none.
    public var query: Substring {
        guard let mark = self.target.firstIndex(of: "?") else { return "" }
        return self.target[self.target.index(after: mark)...]
    }
}

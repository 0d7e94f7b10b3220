public import RealtimeCore

/// The authorization of an attempt to connect: header fields, items of the query, or both.
///
/// ```swift
/// configuration.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] }
/// configuration.credentials = { PrimusCredentials(query: [("token", try await tokens.current())]) }
/// ```
public struct PrimusCredentials: Sendable, ExpressibleByDictionaryLiteral {
    /// Header fields. They replace fields of the configuration with the same names.
    public var headers: HTTPHeaders
    /// Items that are appended to the query, in order. They are percent-encoded.
    public var query: [(name: String, value: String)]

    /// Creates credentials.
    public init(headers: HTTPHeaders = [:], query: [(String, String)] = []) {
        self.headers = headers
        self.query = query.map { (name: $0.0, value: $0.1) }
    }

    /// Creates credentials from header fields.
    public init(dictionaryLiteral elements: (String, String)...) {
        self.init(headers: [:])
        for (name, value) in elements { self.headers.add(name, value) }
    }
}

extension PrimusCredentials: Hashable {
    /// Returns whether two credentials have the same fields and items.
    public static func == (left: Self, right: Self) -> Bool {
        left.headers == right.headers && left.query.elementsEqual(right.query) { $0.name == $1.name && $0.value == $1.value }
    }

    /// Hashes the fields and the items.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.headers)
        for item in self.query {
            hasher.combine(item.name)
            hasher.combine(item.value)
        }
    }
}

extension PrimusCredentials: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("headers", self.headers), ("query", self.query.isEmpty ? nil : Redacted.secret)]
    }
}

/// How a client learns what its server speaks.
public enum PrimusDetection: Hashable, Sendable {
    /// From the specification at `/spec`, which is requested once and kept until the server refuses a connection. If the server has none, or
    /// refuses the request, the client assumes what the configuration says and, where it says nothing, `websockets` and `json`.
    ///
    /// With a transformer in the configuration, the client connects whatever becomes of the request.
    case automatic
    /// As ``automatic``, but a server without a specification is an error.
    case required
    /// From the configuration alone.
    case off
}

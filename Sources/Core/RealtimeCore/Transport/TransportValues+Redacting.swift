// Requests carry credentials in header fields, queries and bodies, and messages carry signatures.

extension Endpoint: CustomDebugStringConvertible, Redacting {
    /// The same as ``description``.
    public var debugDescription: String { self.description }

    package var visibleFields: [(name: String, value: Any?)] {
        [("origin", self.origin), ("target", Redacted.query(of: self.target))]
    }
}

extension HTTPHeaders: Redacting {
    /// The fields. Values that may be credentials are omitted.
    public var description: String { "[\(self.fields.map(\.description).joined(separator: ", "))]" }

    package var visibleFields: [(name: String, value: Any?)] { self.fields.map { ($0.name, $0.visibleValue) } }
}

extension HTTPHeaders.Field: Redacting {
    /// The fields whose values are shown. All others may contain credentials: applications also define fields for tokens.
    private static let visibleNames: Set<String> = [
        "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-encoding", "content-length", "content-type",
        "date", "host", "keep-alive", "retry-after", "sec-websocket-extensions", "sec-websocket-version", "server", "transfer-encoding",
        "upgrade", "user-agent", "vary",
    ]

    /// The name and, unless it may be a credential, the value.
    public var description: String { "\(self.name): \(self.visibleValue)" }

    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name), ("value", self.visibleValue)] }

    fileprivate var visibleValue: Any { self.isVisible ? self.value : Redacted.secret }

    fileprivate var isVisible: Bool { Self.visibleNames.contains(self.name.lowercased()) }
}

extension HTTPHeaders {
    /// The parts of the values that may be credentials and that a server may repeat in a text: the words, and what follows an equals sign
    /// in them, such as the value of a cookie. Of `Bearer TOKEN`, only the token is included, and nothing that is shorter than six bytes.
    package var secrets: [String] {
        var secrets: [Substring] = []
        for field in self.fields where !field.isVisible {
            var words = field.value.split { $0 == " " || $0 == ";" || $0 == "," }[...]
            if words.count > 1, field.name.lowercased().hasSuffix("authorization") { words.removeFirst() }
            for word in words {
                secrets.append(word)
                secrets += word.split(separator: "=", maxSplits: 1).dropFirst()
            }
        }
        return secrets.filter { $0.utf8.count >= 6 }.map { String($0) }
    }
}

extension HTTPRequest: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("method", self.method), ("endpoint", self.endpoint), ("headers", self.headers),
            ("body", Redacted.data(self.body.count)), ("connectTimeout", self.connectTimeout), ("idleTimeout", self.idleTimeout),
        ]
    }
}

extension HTTPRequestHead: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("method", self.method), ("target", Redacted.query(of: self.target)), ("headers", self.headers)]
    }
}

extension HTTPResponse: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("head", self.head), ("body", Redacted.data(self.body.count))]
    }
}

extension HTTPStreamedResponse: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("head", self.head)] }
}

extension WebSocketRequest: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            // A subprotocol may be a token, because browsers cannot set header fields.
            ("endpoint", self.endpoint), ("headers", self.headers), ("subprotocols", self.subprotocols.map { _ in Redacted.secret }),
            ("messageLimit", self.messageLimit), ("timeout", self.timeout),
        ]
    }
}

extension TransportMessage: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("kind", self.kind), ("bytes", Redacted.data(self.bytes.count))]
    }
}

extension MessageBatch: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("entries", self.entries), ("bytes", Redacted.data(self.bytes.count))]
    }
}

extension Transports: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("webSocket", "\(type(of: self.webSocket))"), ("http", "\(type(of: self.http))")]
    }
}

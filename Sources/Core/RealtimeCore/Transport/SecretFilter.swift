import RealtimeSystem

/// Removes secrets from the texts of a peer, which may repeat what it has received, for errors and logs.
package struct SecretFilter: Sendable {
    /// The minimum size of a text that is removed, in bytes. Removing shorter ones would make texts unreadable, and protect little.
    package static let minimumSize = 6

    private let secrets: [String]
    private let replacement: String

    /// Creates a filter.
    ///
    /// - Parameters:
    ///   - secrets: The texts to remove. Those with fewer bytes than ``minimumSize`` are ignored.
    ///   - replacement: What takes the place of a secret.
    package init(_ secrets: some Sequence<String>, replacement: String = "…") {
        // The longest first: one may contain another.
        self.secrets = secrets.filter { $0.utf8.count >= Self.minimumSize }.sorted { $0.utf8.count > $1.utf8.count }
        self.replacement = replacement
    }

    /// Returns a text without the secrets.
    ///
    /// - Parameter limit: The maximum size of the result in bytes. Of a longer text, the start is returned. The secrets are removed first, so
    ///   that the limit divides none of them.
    package func redacted(_ text: String, limit: Int = .max) -> String {
        let redacted = self.secrets.reduce(text) { text, secret in text.replacingText(secret, with: self.replacement) }
        return Excerpt.of(redacted, limit: limit)
    }
}

extension CloseReason {
    /// Returns the reason with another form of the text that comes from the peer, if it contains one.
    package func mapText(_ transform: (String) -> String) -> CloseReason {
        switch self {
        case .peer(let code, let text): .peer(code, transform(text))
        case .transport(let error): .transport(error.withMessage(transform(error.message)))
        case .requested, .openTimeout, .heartbeatTimeout: self
        }
    }

    /// Describes the loss of a connection, or an attempt that failed, in a sentence.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the connection, of which only the origin appears.
    ///   - transport: The name of the transport, if the protocol has several.
    ///   - wasConnected: Whether the connection had been established.
    package func lossMessage(at endpoint: Endpoint, over transport: String? = nil, wasConnected: Bool) -> String {
        let reason = Excerpt.sentence(self.description)
        let kind = transport.map { " over \($0)" } ?? ""
        if wasConnected { return "Connection to \(endpoint.origin)\(kind) lost: \(reason)" }
        // Most errors of an attempt name the host and the port themselves.
        let isNamed = if case .transport(let error) = self { error.message.containsText(endpoint.authority) } else { false }
        return "Failed to connect\(isNamed ? "" : " to \(endpoint.origin)")\(kind): \(reason)"
    }

    /// The failure of the transport, if that is the reason.
    package var transportError: TransportError? { if case .transport(let error) = self { error } else { nil } }
}

import RealtimeCore

extension PusherAuth: CustomReflectable {
    /// A mirror without the contents, which are secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension OCAuthMethod: CustomReflectable {
    /// A mirror without the contents, which may be secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension AuthMethod: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        switch self {
        case .endpoint(let endpoint): [("endpoint", Redacted.query(of: endpoint))]
        case .authRequestBuilder: [("authRequestBuilder", Redacted.secret)]
        case .authorizer: [("authorizer", Redacted.secret)]
        case .inline: [("secret", Redacted.secret)]
        case .noMethod: []
        }
    }
}

extension PusherConnectionEvent: PrintedParts {}

import RealtimeCore

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

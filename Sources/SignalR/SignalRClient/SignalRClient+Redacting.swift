import RealtimeCore

extension HubConnection: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("client", self.client)] }
}

extension HubConnectionBuilder: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension HttpConnectionOptions: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("transport", self.transport), ("skipNegotiation", self.skipNegotiation),
            ("headers", (self.headers ?? [:]).mapValues { _ in Redacted.secret }),
            ("accessTokenFactory", Redacted.optional(self.accessTokenFactory)), ("timeout", self.timeout), ("logLevel", self.logLevel),
        ]
    }
}

extension HttpRequest: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("method", self.method), ("url", (try? Endpoint(self.url)).map { "\($0)" } ?? "\(Redacted.secret)"),
            ("headers", self.headers.mapValues { _ in Redacted.secret }), ("content", self.content.map { Redacted.data($0.bytes.count) }),
            ("timeout", self.timeout),
        ]
    }
}

extension RetryContext: PrintedParts {}

extension StatefulReconnectOptions: PrintedParts {}

extension HttpResponse: PrintedParts {}

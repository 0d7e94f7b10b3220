import RealtimeCore

extension PrimusConnection: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("configuration", self.configuration), ("state", self.state)] }
}

extension PrimusTransform: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("direction", self.direction)] }
}

extension PrimusDecodedMessages: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("type", "\(Value.self)")] }
}

extension PrimusDecodedMessages.AsyncIterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

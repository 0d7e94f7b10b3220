import RealtimeCore
import SignalRWire

extension HubClient: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("configuration", self.configuration), ("state", self.state)] }
}

extension HubProtocolType: Redacting {
    // Coders may contain values of the application.
    package var visibleFields: [(name: String, value: Any?)] { [("format", self.coder.format)] }
}

extension HubHandlerToken: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension HubUpload: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension HubMethodCall: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("target", self.target), ("arguments", Redacted.data(self.payload.bytes.count))]
    }
}

extension HubStreamResult: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("target", self.source.target)] }
}

extension HubStreamResult.AsyncIterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

import RealtimeCoding
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
    /// The name of the method with its arguments, such as `Receive("hello",{"count":2})`. What the server has sent to the application is shown,
    /// when the application prints it.
    public var description: String { "\(self.target)(\(self.visibleArguments))" }

    package var visibleFields: [(name: String, value: Any?)] { [("target", self.target), ("arguments", self.visibleArguments)] }

    /// The arguments in JSON, or the size of those that can't be read.
    private var visibleArguments: Redacted {
        let bytes = self.payload.bytes
        let array =
            switch self.payload.format {
            case .json: try? JSONValue(parsing: bytes)
            case .messagePack: (try? MessagePackValue(parsing: bytes)).map { JSONValue(showing: $0) }
            }
        guard let arguments = array?.array else { return .data(bytes.count) }
        return Redacted(visible: arguments.map(\.description).joined(separator: ","))
    }
}

extension HubStreamResult: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("target", self.source.target)] }
}

extension HubStreamResult.AsyncIterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

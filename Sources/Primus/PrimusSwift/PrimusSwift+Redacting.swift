import PrimusClient
import RealtimeCore

extension Primus: CustomReflectable {
    /// A mirror without the request and the options, which may contain secrets.
    public var customMirror: Mirror { Mirror(self, children: ["readyState": self.readyState]) }
}

extension PrimusConnectOptions: CustomReflectable {
    /// A mirror without the contents, which may be secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension PrimusURLOptions: CustomReflectable {
    /// A mirror without the path and the query, which may be secret.
    public var customMirror: Mirror { Mirror(self, children: ["host": self.host, "port": self.port, "secure": self.secure]) }
}

extension PrimusListener: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("event", self.event)] }
}

extension PrimusAcknowledgement: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("event", self.event.name)] }
}

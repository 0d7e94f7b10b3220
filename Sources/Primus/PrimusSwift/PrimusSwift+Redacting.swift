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
    public var customMirror: Mirror { Mirror(self, children: ["origin": self.origin]) }
}

extension PrimusListener: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("event", self.event)] }
}

extension PrimusAcknowledgement: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("event", self.event.name)] }
}

extension PrimusLifecycle: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension PrimusReadyState: CustomStringConvertible {
    /// The name of the state, such as `open`.
    public var description: String {
        switch self {
        case .closed: "closed"
        case .opening: "opening"
        case .open: "open"
        }
    }
}

extension PrimusErrorCode: CustomStringConvertible {
    /// The name of the code, such as `unableToRetry`.
    public var description: String {
        switch self {
        case .unableToRetry: "unableToRetry"
        case .connectionTimeout: "connectionTimeout"
        case .other: "other"
        }
    }
}

extension PrimusReconnectionStrategy: CustomStringConvertible {
    /// The name of the strategy, such as `online`.
    public var description: String {
        switch self {
        case .unknown: "unknown"
        case .timeout: "timeout"
        case .disconnect: "disconnect"
        case .online: "online"
        }
    }
}

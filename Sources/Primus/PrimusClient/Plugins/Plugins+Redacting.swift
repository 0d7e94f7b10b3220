import PrimusWire
import RealtimeCore

// What the server has sent to the application is shown, when the application prints it.

extension PrimusEmitterEvent: Redacting {
    /// The name of the event with its arguments, such as `news("hello", {"count":2})`.
    public var description: String { "\(self.name)\(self.arguments)" }

    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name), ("arguments", try? self.values)] }
}

extension PrimusResponderRequest: Redacting {
    /// The value of the request, or the size of one that can't be decoded.
    public var description: String { "\(self.payload)" }

    package var visibleFields: [(name: String, value: Any?)] { [("value", try? self.value)] }
}

extension PrimusPluginMessage: Redacting {
    /// The value of the message, or the size of one that can't be decoded.
    public var description: String { "\(self.payload)" }

    package var visibleFields: [(name: String, value: Any?)] { [("value", try? self.value)] }
}

extension PrimusChannel: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name)] }
}

extension PrimusSubstream: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name)] }
}

extension PrimusEmitter: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("channel", self.address?.channel)] }
}

extension PrimusEmits: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

import PrimusWire
import RealtimeCore

// What a client has sent to the application is shown, when the application prints it.

extension PrimusServer: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("configuration", self.configuration)] }
}

extension PrimusSpark: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("id", self.id), ("request", self.request)] }
}

extension PrimusSparkChannel: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name), ("spark", self.spark.id)] }
}

extension PrimusServerMessage: Redacting {
    /// The value of the message, or the size of one that can't be decoded.
    public var description: String { (try? self.value)?.description ?? "<\(self.packet.bytes.count) bytes>" }

    package var visibleFields: [(name: String, value: Any?)] { [("spark", self.spark.id), ("value", try? self.value)] }
}

extension PrimusServerCall: Redacting {
    /// The name of the event with its arguments, such as `news("hello", {"count":2})`.
    public var description: String { "\(self.event)\(self.arguments)" }

    package var visibleFields: [(name: String, value: Any?)] {
        [("spark", self.spark.id), ("event", self.event), ("channel", self.channel?.name), ("arguments", try? self.arguments.values)]
    }
}

extension PrimusEventArguments: Redacting {
    /// The arguments in parentheses, or the size of those that can't be decoded.
    public var description: String { "\(self.arguments)" }

    package var visibleFields: [(name: String, value: Any?)] { [("values", try? self.values)] }
}

extension PrimusServerPayload: Redacting {
    /// The value, or the size of one that can't be decoded.
    public var description: String { "\(self.payload)" }

    package var visibleFields: [(name: String, value: Any?)] { [("value", try? self.value)] }
}

extension PrimusServerPlugins: CustomStringConvertible {
    /// The names of the plugins.
    public var description: String { self.wire.names.joined(separator: ", ") }
}

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

extension PrimusServerConfiguration: PrintedParts {
    package static var hiddenParts: Set<String> { ["engineProbeTimeout"] }
}

extension PrimusServerFaults: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("delay", self.delay), ("dropRate", self.dropRate), ("isSilent", self.isSilent), ("stopsPings", self.stopsPings),
            ("refusalStatus", self.refusalStatus), ("specStatus", self.specStatus), ("refusesUpgrades", self.refusesUpgrades),
            ("ignoresProbes", self.ignoresProbes), ("lostAnswers", self.lostAnswers), ("failedPolls", self.failedPolls),
        ]
    }
}

extension PrimusServerEvent: CustomStringConvertible {
    /// The name of the event and its values. Of a received message, the size is shown.
    public var description: String {
        switch self {
        case .rejected(let status): PartText.text(ofCase: "rejected", ["status": status])
        case .connected(let id): PartText.text(ofCase: "connected", ["id": id])
        case .disconnected(let id, let reason): PartText.text(ofCase: "disconnected", ["id": id, "reason": reason])
        case .received(let id, let message):
            PartText.text(ofCase: "received", ["id": id, "message": Redacted.data(message.bytes.count)])
        case .error(let id, let message): PartText.text(ofCase: "error", ["id": id, "message": message])
        }
    }
}

extension PrimusChannelEvent: CustomStringConvertible {
    /// The name of the event with the channel, and the message if there is one.
    public var description: String {
        switch self {
        case .joined(let channel): PartText.text(ofCase: "joined", ["": channel])
        case .message(let channel, let message): PartText.text(ofCase: "message", ["": channel, "message": message])
        case .left(let channel): PartText.text(ofCase: "left", ["": channel])
        }
    }
}

extension PrimusAuthorizationDecision: CustomStringConvertible {
    /// The name of the decision with its values.
    public var description: String {
        switch self {
        case .accept: "accept"
        case .reject(let message, let status, let headers):
            PartText.text(ofCase: "reject", ["": message, "status": status, "headers": headers])
        case .respond(let response): PartText.text(ofCase: "respond", ["": response])
        }
    }
}

import RealtimeCore

extension SignalRServerEvent: Redacting {
    /// The name of the case and its values. Of a received message, the size is shown.
    public var description: String {
        let values = self.visibleFields.map { "\($0.name): \($0.value ?? "nil")" }
        return "\(self.name)(\(values.joined(separator: ", ")))"
    }

    private var name: String {
        switch self {
        case .negotiated: "negotiated"
        case .rejected: "rejected"
        case .connected: "connected"
        case .refreshed: "refreshed"
        case .interrupted: "interrupted"
        case .resumed: "resumed"
        case .disconnected: "disconnected"
        case .received: "received"
        case .invoked: "invoked"
        case .completed: "completed"
        case .error: "error"
        }
    }

    package var visibleFields: [(name: String, value: Any?)] {
        switch self {
        case .negotiated(let hub, let connectionID), .resumed(let hub, let connectionID):
            [("hub", hub), ("connectionID", connectionID)]
        case .rejected(let hub, let status): [("hub", hub), ("status", status)]
        case .connected(let hub, let connectionID, let userID), .refreshed(let hub, let connectionID, let userID):
            [("hub", hub), ("connectionID", connectionID), ("userID", userID)]
        case .interrupted(let hub, let connectionID, let reason), .disconnected(let hub, let connectionID, let reason):
            [("hub", hub), ("connectionID", connectionID), ("reason", reason)]
        case .received(let connectionID, let message):
            [("connectionID", connectionID), ("message", Redacted.data(message.bytes.count))]
        case .invoked(let connectionID, let method): [("connectionID", connectionID), ("method", method)]
        case .completed(let connectionID, let method, let error):
            [("connectionID", connectionID), ("method", method), ("error", error)]
        case .error(let connectionID, let message): [("connectionID", connectionID), ("message", message)]
        }
    }
}

extension SignalRServerFaults: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("delay", self.delay), ("dropRate", self.dropRate), ("isSilent", self.isSilent),
            ("unauthorizedRequests", self.unauthorizedRequests),
            ("expiredTokens", self.expiredTokens.isEmpty ? nil : Redacted.secret), ("negotiationStatus", self.negotiationStatus),
            ("negotiationError", self.negotiationError), ("refusedTransports", self.refusedTransports),
            ("refusedTransportStatus", self.refusedTransportStatus), ("lostAnswers", self.lostAnswers),
        ]
    }
}

extension SignalRAuthenticationRequest: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("hub", self.hub), ("token", Redacted.optional(self.token)), ("isNegotiation", self.isNegotiation),
            ("isRefresh", self.isRefresh), ("request", self.request),
        ]
    }
}

extension SignalRAuthenticationRefresh: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("connectionID", self.connectionID), ("userID", self.userID), ("authentication", self.authentication)]
    }
}

extension SignalRServer: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("faults", self.faults)] }
}

extension Hub: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("path", self.path)] }
}

extension HubCaller: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("connectionID", self.connectionID), ("userID", self.userID), ("request", self.request)]
    }
}

extension HubClientProxy: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("connectionID", self.connectionID)] }
}

extension HubClientSet: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("connectionIDs", self.connectionIDs)] }
}

extension HubClients: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension HubCallerClients: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("caller", self.caller)] }
}

extension HubGroups: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension HubStream: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension SignalRServerConfiguration: PrintedParts {
    package static var hiddenParts: Set<String> { ["adviceForForeignOrigins"] }
}

extension SignalRServerHooks: PrintedParts {}

extension SignalRAuthenticationDecision: CustomStringConvertible {
    /// The name of the decision with its values.
    public var description: String {
        switch self {
        case .accept(let userID, let lifetime): PartText.text(ofCase: "accept", ["userID": userID, "lifetime": lifetime])
        case .reject(let status): PartText.text(ofCase: "reject", ["status": status])
        }
    }
}

extension HubStream.AsyncIterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

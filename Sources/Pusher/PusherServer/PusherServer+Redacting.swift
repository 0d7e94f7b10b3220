import RealtimeCore
import RealtimeCoding

extension PusherApp: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("id", self.id), ("key", self.key), ("secret", Redacted.secret),
            ("encryptionMasterKey", Redacted.optional(self.encryptionMasterKey)), ("allowsClientEvents", self.allowsClientEvents),
            ("clientEventsPerSecond", self.clientEventsPerSecond), ("memberLimit", self.memberLimit),
            ("connectionLimit", self.connectionLimit), ("activityTimeout", self.activityTimeout), ("pongTimeout", self.pongTimeout),
        ]
    }
}

extension PusherServerEvent: Redacting {
    /// The name of the case and its values. Of a frame, which may contain a signature, the event and the size are shown.
    public var description: String {
        let values = self.visibleFields.map { "\($0.name): \($0.value ?? "nil")" }
        return "\(self.name)(\(values.joined(separator: ", ")))"
    }

    private var name: String {
        switch self {
        case .connected: "connected"
        case .disconnected: "disconnected"
        case .received: "received"
        case .signedIn: "signedIn"
        case .subscribed: "subscribed"
        case .subscriptionRejected: "subscriptionRejected"
        case .unsubscribed: "unsubscribed"
        case .cacheMiss: "cacheMiss"
        case .subscriptionCount: "subscriptionCount"
        case .clientEvent: "clientEvent"
        case .published: "published"
        case .error: "error"
        }
    }

    package var visibleFields: [(name: String, value: Any?)] {
        switch self {
        case .connected(let socketID): [("socketID", socketID)]
        case .disconnected(let socketID, let reason): [("socketID", socketID), ("reason", reason)]
        case .received(let socketID, let frame):
            [
                ("socketID", socketID), ("event", (try? JSONValue(parsing: frame))?["event"]?.string),
                ("frame", Redacted.data(frame.utf8.count)),
            ]
        case .signedIn(let socketID, let userID): [("socketID", socketID), ("userID", userID)]
        case .subscribed(let socketID, let channel, let userID): [("socketID", socketID), ("channel", channel), ("userID", userID)]
        case .subscriptionRejected(let socketID, let channel, let message):
            [("socketID", socketID), ("channel", channel), ("message", message)]
        case .unsubscribed(let socketID, let channel), .cacheMiss(let socketID, let channel):
            [("socketID", socketID), ("channel", channel)]
        case .subscriptionCount(let channel, let count): [("channel", channel), ("count", count)]
        case .clientEvent(let socketID, let channel, let name, let data):
            [("socketID", socketID), ("channel", channel), ("name", name), ("data", data)]
        case .published(let channel, let name, let subscribers): [("channel", channel), ("name", name), ("subscribers", subscribers)]
        case .error(let socketID, let code, let message): [("socketID", socketID), ("code", code), ("message", message)]
        }
    }
}

extension PusherServer: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("app", self.app)] }
}

extension PusherServerDecision: CustomStringConvertible {
    /// The name of the decision with its values.
    public var description: String {
        switch self {
        case .accept: "accept"
        case .reject(let code, let message): PartText.text(ofCase: "reject", ["code": code, "message": message])
        }
    }
}

extension PusherAuthorizationDecision: CustomStringConvertible {
    /// The name of the decision with its values.
    public var description: String {
        switch self {
        case .accept(let userID, let userInfo): PartText.text(ofCase: "accept", ["userID": userID, "userInfo": userInfo])
        case .reject(let message): PartText.text(ofCase: "reject", ["message": message])
        }
    }
}

extension PusherUserAuthenticationDecision: CustomStringConvertible {
    /// The name of the decision with its values.
    public var description: String {
        switch self {
        case .accept(let userID, let userInfo, let watchlist):
            PartText.text(ofCase: "accept", ["userID": userID, "userInfo": userInfo, "watchlist": watchlist])
        case .reject(let message): PartText.text(ofCase: "reject", ["message": message])
        }
    }
}

extension PusherServerFaults: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("delay", self.delay), ("dropRate", self.dropRate), ("isSilent", self.isSilent), ("rejectionCode", self.rejectionCode),
        ]
    }
}

extension PusherServerHooks: PrintedParts {}

extension PusherServerProfile: PrintedParts {
    package static var hiddenParts: Set<String> { ["limits"] }
}

extension PusherSubscriptionAttempt: PrintedParts {}

extension PusherConnectionAttempt: PrintedParts {}

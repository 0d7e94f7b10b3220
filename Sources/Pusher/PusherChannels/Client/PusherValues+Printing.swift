import RealtimeCore

extension PusherConnectionState: CustomStringConvertible {
    /// The name of the state with its error or the ID of the connection.
    public var description: String {
        switch self {
        case .initialized, .connecting, .unavailable: self.name
        case .connected(let socketID): PartText.text(ofCase: self.name, ["socketID": socketID])
        case .failed(let error): PartText.text(ofCase: self.name, ["": error])
        case .disconnected(let error): PartText.text(ofCase: self.name, ["": error])
        }
    }
}

extension PusherSubscriptionState: CustomStringConvertible {
    /// The name of the state with its error.
    public var description: String {
        switch self {
        case .unsubscribed: "unsubscribed"
        case .pending: "pending"
        case .subscribed: "subscribed"
        case .failed(let error): PartText.text(ofCase: "failed", ["": error])
        }
    }
}

extension PusherSignInState: CustomStringConvertible {
    /// The name of the state with its error or the user.
    public var description: String {
        switch self {
        case .signedOut: "signedOut"
        case .pending: "pending"
        case .signedIn(let user): PartText.text(ofCase: "signedIn", ["": user])
        case .failed(let error): PartText.text(ofCase: "failed", ["": error])
        }
    }
}

extension PusherMemberChange: CustomStringConvertible {
    /// The name of the change with the members that it concerns.
    public var description: String {
        switch self {
        case .subscribed(let members): PartText.text(ofCase: "subscribed", ["": members])
        case .resubscribed(let members, let joined, let left):
            PartText.text(ofCase: "resubscribed", ["": members, "joined": joined, "left": left])
        case .joined(let member): PartText.text(ofCase: "joined", ["": member])
        case .left(let member): PartText.text(ofCase: "left", ["": member])
        }
    }
}

extension PusherUpdate: CustomStringConvertible {
    /// The name of the update with its values.
    public var description: String {
        switch self {
        case .event(let event): PartText.text(ofCase: "event", ["": event])
        case .frame(let text): "frame(\(text))"
        case .sentFrame(let text): "sentFrame(\(text))"
        case .attempt(let number): PartText.text(ofCase: "attempt", ["": number])
        case .state(let state): PartText.text(ofCase: "state", ["": state])
        case .connectingIn(let delay): PartText.text(ofCase: "connectingIn", ["": delay])
        case .error(let error): PartText.text(ofCase: "error", ["": error])
        case .subscription(let channel, let state): PartText.text(ofCase: "subscription", ["channel": channel, "": state])
        case .user(let state): PartText.text(ofCase: "user", ["": state])
        case .watchlist(let change): PartText.text(ofCase: "watchlist", ["": change])
        case .members(let channel, let change): PartText.text(ofCase: "members", ["channel": channel, "": change])
        case .gap(let gap): PartText.text(ofCase: "gap", ["": gap])
        case .subscriptionCount(let channel, let count): PartText.text(ofCase: "subscriptionCount", ["channel": channel, "": count])
        }
    }
}

extension PusherRetryPolicy: CustomStringConvertible {
    /// The name of the policy with its delays.
    public var description: String {
        switch self {
        case .none: "none"
        case .backoff: "backoff"
        case .delays(let delays): PartText.text(ofCase: "delays", ["": delays])
        case .custom: "custom"
        }
    }
}

extension PusherUser: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("state", self.state)] }
}

extension PusherDecodedEvents: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("type", "\(Value.self)")] }
}

extension PusherDecodedEvents.AsyncIterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension PusherMember: PrintedParts {}

extension PusherGap: PrintedParts {}

extension PusherRetryContext: PrintedParts {}

extension PusherClientEventLimit: PrintedParts {}

extension PusherMembers.Iterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

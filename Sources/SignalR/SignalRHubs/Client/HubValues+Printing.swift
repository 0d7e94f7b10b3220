import RealtimeCore

extension HubState: CustomStringConvertible {
    /// The name of the state with its error or the ID of the connection.
    public var description: String {
        switch self {
        case .stopped(let error): PartText.text(ofCase: "stopped", ["": error])
        case .connecting: "connecting"
        case .connected(let connectionID): PartText.text(ofCase: "connected", ["connectionID": connectionID])
        case .reconnecting(let error): PartText.text(ofCase: "reconnecting", ["": error])
        }
    }
}

extension HubUpdate: CustomStringConvertible {
    /// The name of the update with its values.
    public var description: String {
        switch self {
        case .state(let state): PartText.text(ofCase: "state", ["": state])
        case .transport(let transport): PartText.text(ofCase: "transport", ["": transport])
        case .reconnecting(let error): PartText.text(ofCase: "reconnecting", ["": error])
        case .connectingIn(let delay): PartText.text(ofCase: "connectingIn", ["": delay])
        case .reconnected(let connectionID): PartText.text(ofCase: "reconnected", ["connectionID": connectionID])
        case .resumed: "resumed"
        case .closed(let error): PartText.text(ofCase: "closed", ["": error])
        case .authenticationRefreshed(let lifetime): PartText.text(ofCase: "authenticationRefreshed", ["lifetime": lifetime])
        case .authenticationRefreshFailed(let error): PartText.text(ofCase: "authenticationRefreshFailed", ["": error])
        case .error(let error): PartText.text(ofCase: "error", ["": error])
        }
    }
}

extension HubRetryPolicy: CustomStringConvertible {
    /// The name of the policy with its delays.
    public var description: String {
        switch self {
        case .none: "none"
        case .delays(let delays): PartText.text(ofCase: "delays", ["": delays])
        case .backoff(let backoff): PartText.text(ofCase: "backoff", ["": backoff])
        case .custom: "custom"
        }
    }
}

extension HubRetryContext: PrintedParts {}

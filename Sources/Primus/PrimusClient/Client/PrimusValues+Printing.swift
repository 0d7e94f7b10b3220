import RealtimeCore

extension PrimusState: CustomStringConvertible {
    /// The name of the state with its error.
    public var description: String {
        switch self {
        case .closed(let error): PartText.text(ofCase: "closed", ["": error])
        case .opening: "opening"
        case .open: "open"
        case .reconnecting(let error): PartText.text(ofCase: "reconnecting", ["": error])
        }
    }
}

extension PrimusUpdate: CustomStringConvertible {
    /// The name of the update with its values.
    public var description: String {
        switch self {
        case .state(let state): PartText.text(ofCase: "state", ["": state])
        case .dialect(let dialect): PartText.text(ofCase: "dialect", ["": dialect])
        case .transport(let transport): PartText.text(ofCase: "transport", ["": transport])
        case .reconnecting(let error): PartText.text(ofCase: "reconnecting", ["": error])
        case .attemptFailed(let error): PartText.text(ofCase: "attemptFailed", ["": error])
        case .reconnectScheduled(let retry): PartText.text(ofCase: "reconnectScheduled", ["": retry])
        case .connectingIn(let delay): PartText.text(ofCase: "connectingIn", ["": delay])
        case .reconnect(let retry): PartText.text(ofCase: "reconnect", ["": retry])
        case .reconnected(let retry): PartText.text(ofCase: "reconnected", ["": retry])
        case .connectTimedOut(let error): PartText.text(ofCase: "connectTimedOut", ["": error])
        case .reconnectFailed(let error): PartText.text(ofCase: "reconnectFailed", ["": error])
        case .offline: "offline"
        case .online: "online"
        case .latency(let time): PartText.text(ofCase: "latency", ["": time])
        case .sparkID(let id): PartText.text(ofCase: "sparkID", ["": id])
        case .ended(let error): PartText.text(ofCase: "ended", ["": error])
        case .error(let error): PartText.text(ofCase: "error", ["": error])
        }
    }
}

extension PrimusRetryPolicy: CustomStringConvertible {
    /// The name of the policy with its delays.
    public var description: String {
        switch self {
        case .none: "none"
        case .backoff(let backoff): PartText.text(ofCase: "backoff", ["": backoff])
        case .delays(let delays): PartText.text(ofCase: "delays", ["": delays])
        case .custom: "custom"
        }
    }
}

extension PrimusBackoff: PrintedParts {}

extension PrimusRetry: PrintedParts {}

extension PrimusRetryContext: PrintedParts {}

extension PrimusDialect: PrintedParts {}

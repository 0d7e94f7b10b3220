import SignalRWire

/// The reason why a request is refused, with the status and the text of ASP.NET Core where it refuses it as well.
enum HubRefusal: Hashable, Sendable {
    case missingToken
    case unknownToken
    /// The hub doesn't offer the transport.
    case unsupportedTransport(HubTransport)
    /// The connection uses another transport.
    case otherTransport
    /// The connection has a WebSocket or a stream already, or is being opened.
    case inUse
    case postToWebSocket
    /// Only connections over long polling end with a request.
    case deletion
    /// The request is that of another user.
    case otherUser
    /// Too many messages arrived before the request that opens the connection.
    case earlyBodies
    /// A limit of the server is reached.
    case unavailable
    /// The server injects a fault.
    case fault(status: Int)

    var status: Int {
        switch self {
        case .missingToken, .otherTransport, .deletion: 400
        case .otherUser: 403
        case .unknownToken, .unsupportedTransport: 404
        case .postToWebSocket: 405
        case .inUse: 409
        case .earlyBodies: 413
        case .unavailable: 503
        case .fault(let status): status
        }
    }

    var text: String {
        switch self {
        case .missingToken: "Connection ID required"
        case .unknownToken: "No Connection with that ID"
        case .unsupportedTransport(let transport): "\(transport.rawValue) transport not supported by this end point type"
        case .otherTransport: "Cannot change transports mid-connection"
        case .inUse: "The connection is already in use."
        case .postToWebSocket: "POST requests are not allowed for WebSocket connections."
        case .deletion: "Cannot terminate this connection using the DELETE endpoint."
        case .otherUser: "The connection is that of another user."
        case .earlyBodies: "The connection isn't open yet. Open it before you send more."
        case .unavailable, .fault: "The server rejected the request."
        }
    }
}

/// How packets travel between a client and a server.
package enum PrimusConnectionKind: String, Hashable, Sendable, CustomStringConvertible {
    /// A WebSocket; that of SockJS without framing.
    case webSocket = "webSockets"
    /// The WebSocket of SockJS with framing.
    case framedWebSocket = "webSockets with framing"
    /// The responses without an end of SockJS.
    case streaming
    case polling

    package var description: String { self.rawValue }

    package var transport: PrimusTransport {
        switch self {
        case .webSocket, .framedWebSocket: .webSockets
        case .streaming: .streaming
        case .polling: .polling
        }
    }
}

internal import Foundation
package import RealtimeCore

/// WebSockets through the system's own URLSession: the default on Apple's systems.
///
/// It goes through the device's proxies, VPN and trusted certificates. It cannot tell of the server's pings, which the
/// system answers by itself, nor choose what a ping carries.
package struct URLSessionWebSocketTransport: WebSocketTransport {
    private let host = SharedURLSession()

    package init() {}

    package func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        URLSessionWebSocket(self.host, request, id, events)
    }
}

internal import Foundation
package import RealtimeCore

/// A WebSocket client on the system's URLSession, the default on Apple platforms.
///
/// It uses the device's proxies, VPN and trusted certificates. It cannot report the server's pings, to which the system responds itself, and
/// its own pings carry no payload.
package struct URLSessionWebSocketTransport: WebSocketTransport {
    private let host = SharedURLSession()

    package init() {}

    package func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        URLSessionWebSocket(self.host, request, id, events)
    }
}

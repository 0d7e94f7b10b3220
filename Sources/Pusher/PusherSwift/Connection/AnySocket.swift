import NWWebSocket

/// A socket. The name distinguishes its protocol from the core's protocol, in files that import both.
typealias AnySocket = any WebSocketConnection

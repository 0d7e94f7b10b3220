import NWWebSocket

/// A socket. The name distinguishes its protocol from that of the core, in files that import both.
typealias AnySocket = any WebSocketConnection

package import RealtimeCore

/// What the server's greeting says.
package struct ConnectionEstablished: Hashable, Sendable {
    package var socketID: String
    /// In seconds.
    package var activityTimeout: Int?

    package init(_ data: JSONValue) throws(PusherFrameError) {
        guard let socketID = data["socket_id"]?.string, !socketID.isEmpty else { throw .missing("socket_id") }
        self.socketID = socketID
        self.activityTimeout = data["activity_timeout"]?.int.flatMap { $0 > 0 ? $0 : nil }
    }
}

/// What a `pusher:error` says. Servers leave either part out.
package struct ServerError: Hashable, Sendable {
    package var code: Int?
    package var message: String

    package init(_ data: JSONValue) {
        self.code = data["code"]?.int
        self.message = data["message"]?.string ?? data["error"]?.string ?? "The server reported an error without words."
    }
}

import RealtimeCore
package import RealtimeCoding

/// The data of events that a server publishes.
package enum EventData {
    /// Returns the data of an event as text: a string unchanged, and any other value as JSON.
    package static func text(of data: some Encodable) throws -> String {
        try data as? String ?? JSONValueEncoder().encodeToString(data)
    }
}

/// The data of `pusher:connection_established`.
package struct ConnectionEstablished: Hashable, Sendable {
    package var socketID: String
    /// The activity timeout that the server requests, in seconds.
    package var activityTimeout: Int?

    package init(_ data: JSONValue) throws(PusherFrameError) {
        guard let socketID = data["socket_id"]?.string, !socketID.isEmpty else { throw .missing("socket_id") }
        self.socketID = socketID
        self.activityTimeout = data["activity_timeout"]?.int.flatMap { $0 > 0 ? $0 : nil }
    }
}

/// The data of `pusher:error`. Servers may omit the code or the message, and some send plain text only.
package struct ServerError: Hashable, Sendable {
    package var code: Int?
    /// The server's message, truncated and redacted for errors and logs; never empty.
    package var message: String
    /// The server's message as received.
    package var text: String

    package init(_ frame: PusherFrame) {
        let data = try? frame.dataValue()
        self.code = data?["code"]?.int
        self.text = (data?["message"] ?? data?["error"] ?? data)?.string ?? (data == nil ? frame.dataText : nil) ?? ""
        let excerpt = Excerpt.of(self.text, limit: Self.messageLimit)
        self.message = self.text.isEmpty ? "The server sent an error without a message." : Self.redacted(excerpt)
    }

    /// The maximum size of ``message`` in bytes.
    package static let messageLimit = 500

    /// Removes signatures and JSON objects from a server's message.
    ///
    /// Some servers quote a subscription's signature and the user data it covers. Neither may appear in an error or a log.
    package static func redacted(_ text: String) -> String {
        var bytes = Array(text.utf8)
        if let start = bytes.firstIndex(of: UInt8(ascii: "{")), let end = bytes.lastIndex(of: UInt8(ascii: "}")), start < end {
            bytes.replaceSubrange(start...end, with: "{…}".utf8)
        }
        var result: [UInt8] = []
        var remaining = bytes[...]
        while let first = remaining.first {
            let digits = remaining.prefix { $0.isHexDigit }
            result += digits.count < 32 ? Array(digits) : Array("…".utf8)
            remaining = remaining.dropFirst(digits.count)
            if digits.isEmpty {
                result.append(first)
                remaining = remaining.dropFirst()
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}

/// A user in the data of presence events. Some servers send the ID as a number.
package struct PresenceUser: Sendable {
    package var id: String
    package var info: JSONValue?

    package init(id: String, info: JSONValue?) {
        self.id = id
        self.info = info
    }

    /// Creates a user from `{"user_id":…,"user_info":…}`.
    package init(_ data: JSONValue) throws(PusherFrameError) {
        guard let id = data["user_id"].flatMap(Self.text) else { throw .missing("user_id") }
        self.id = id
        self.info = data["user_info"]
    }

    /// The user as JSON, in the form in which it is signed.
    var json: String {
        var user: JSONObject = ["user_id": .string(self.id)]
        if let info { user["user_info"] = info }
        return JSONValue.object(user).description
    }

    /// Returns the users of `{"presence":{"ids":[…],"hash":{…}}}`, the data of a successful subscription.
    ///
    /// If `ids` is missing, the IDs are the keys of `hash`. In PHP, an object whose keys are 0, 1 and so on is a list, and a list whose numbers
    /// have gaps is an object.
    package static func list(_ data: JSONValue) throws(PusherFrameError) -> [PresenceUser] {
        guard let presence = data["presence"]?.object else { throw .missing("presence") }
        let list = presence["hash"]?.array?.enumerated().map { (key: "\($0.offset)", value: $0.element) }
        let hash = presence["hash"]?.object ?? JSONObject(list ?? [])
        let ids = (presence["ids"]?.array ?? presence["ids"]?.object?.map(\.value))?.compactMap(Self.text) ?? hash.keys
        return ids.map { PresenceUser(id: $0, info: hash[$0]) }
    }

    package static func text(_ value: JSONValue) -> String? {
        value.string ?? value.number.map { "\($0)" }
    }
}

/// The data of `pusher:signin_success`: the user as a string that contains JSON, or as JSON.
package struct UserData: Sendable {
    package var id: String
    package var info: JSONValue?

    package init(_ data: JSONValue) throws(PusherFrameError) {
        var user = data["user_data"]
        if let text = user?.string { user = try? JSONValue(parsing: text) }
        guard let user, let id = user["id"].flatMap(PresenceUser.text) else { throw .missing("user_data") }
        self.id = id
        self.info = user["user_info"]
    }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool {
        (0x30...0x39).contains(self) || (0x41...0x46).contains(self) || (0x61...0x66).contains(self)
    }
}

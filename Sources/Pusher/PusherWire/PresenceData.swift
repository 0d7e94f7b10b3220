package import RealtimeJSON

/// A user as presence frames describe one. Some servers send the ID as a number.
package struct PresenceUser: Hashable, Sendable {
    package var id: String
    package var info: JSONValue?

    package init(id: String, info: JSONValue?) {
        self.id = id
        self.info = info
    }

    /// From `{"user_id":…,"user_info":…}`.
    package init(_ data: JSONValue) throws(PusherFrameError) {
        guard let id = data["user_id"].flatMap(Self.text) else { throw .missing("user_id") }
        self.id = id
        self.info = data["user_info"]
    }

    /// From a subscription's `{"presence":{"ids":[…],"hash":{…}}}`. Where `ids` is missing, the hash's names serve.
    package static func list(_ data: JSONValue) throws(PusherFrameError) -> [PresenceUser] {
        guard let presence = data["presence"]?.object else { throw .missing("presence") }
        let hash = presence["hash"]?.object ?? JSONObject()
        let ids = presence["ids"]?.array?.compactMap(Self.text) ?? hash.keys
        return ids.map { PresenceUser(id: $0, info: hash[$0]) }
    }

    private static func text(_ value: JSONValue) -> String? {
        value.string ?? value.number.map { "\($0)" }
    }
}

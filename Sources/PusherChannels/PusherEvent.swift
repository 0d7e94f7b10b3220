public import RealtimeCore

/// An event on a channel.
public struct PusherEvent: Sendable, Hashable {
    /// Its name.
    public let name: String
    /// Its channel; `nil` for events of the service that belong to none.
    public let channel: String?
    /// The data as it was published: a text, usually JSON. Where a server sends JSON that is no string, its text.
    /// `nil` when there is none.
    public let data: String?
    /// Who sent it: only on client events of presence channels.
    public let userID: String?

    package init(name: String, channel: String?, data: String?, userID: String?) {
        self.name = name
        self.channel = channel
        self.data = data
        self.userID = userID
    }

    /// Reads the data as JSON into a type of your own. The work is done here, on the caller's thread.
    ///
    /// It throws ``PusherError/Code/noData`` when there is no data, and `DecodingError`, with the place of the fault,
    /// when the data is no JSON or does not fit. Nothing else is lost by that.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self, with decoder: ValueDecoder = ValueDecoder()) throws -> Value {
        guard let data else {
            throw PusherError(.noData, "The event \"\(self.name)\" carries no data to decode.")
        }
        return try decoder.decode(type, from: data)
    }
}

public import RealtimeJSON
import RealtimeCore

/// An event on a channel.
public struct PusherEvent: Sendable {
    /// The name of the event.
    public let name: String
    /// The name of the channel, or `nil` for an event of the server that does not belong to a channel.
    public let channel: String?
    /// The ID of the user who sent a client event on a presence channel; `nil` for all other events.
    public let userID: String?
    /// The storage of the data as it was received, with JSON escapes; `nil` if the event has no data.
    private let text: EventText?
    private let offset: UInt32
    private let count: UInt32
    private let isEscaped: Bool

    package init(name: String, channel: String?, data: String?, userID: String?) {
        var writer = EventTextWriter(atMost: data?.utf8.count ?? 0)
        var data = data
        let stored = data?.withUTF8 { writer.add(UnsafeRawBufferPointer($0)) }
        self.init(name: name, channel: channel, userID: userID, data: stored, count: data?.utf8.count ?? 0, isEscaped: false)
    }

    init(name: String, channel: String?, userID: String?, data: (text: EventText, offset: UInt32)?, count: Int, isEscaped: Bool) {
        self.name = name
        self.channel = channel
        self.userID = userID
        self.text = data?.text
        self.offset = data?.offset ?? 0
        self.count = UInt32(truncatingIfNeeded: count)
        self.isEscaped = isEscaped
    }

    /// The data of the event, which is usually JSON, or `nil` if the event has no data.
    ///
    /// If the server sent the data as a JSON string, which is the rule, this is the contents of the string. Otherwise it is the JSON
    /// text itself.
    ///
    /// Every access creates a new string: store it in a variable if you need it more than once. An event that you keep may share its
    /// storage, up to 4 KiB, with events that arrived together with it; the string does not.
    public var data: String? {
        self.text.map { JSONText.string($0.bytes(self.offset, self.count), isEscaped: self.isEscaped) }
    }

    /// Decodes the data, which must be JSON. Decoding runs on the calling thread.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    /// - Returns: The decoded value.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/noData`` if the event has no data, a `JSONError` if the data is not
    ///   valid JSON, or a `DecodingError` if it does not match the type.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, with decoder: JSONValueDecoder = JSONValueDecoder()
    ) throws -> Value {
        guard let text else { throw PusherError(.noData, "The event \"\(self.name)\" has no data to decode.") }
        let raw = text.bytes(self.offset, self.count)
        return try decoder.decode(type, fromUTF8: self.isEscaped ? JSONText.unescapedBytes(raw) : Array(raw))
    }
}

extension PusherEvent: Hashable {
    /// Returns whether two events have the same name, channel, data and user ID.
    public static func == (left: Self, right: Self) -> Bool {
        left.name == right.name && left.channel == right.channel && left.userID == right.userID && left.data == right.data
    }

    /// Hashes the name, the channel, the data and the user ID.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.name)
        hasher.combine(self.channel)
        hasher.combine(self.userID)
        hasher.combine(self.data)
    }
}

extension PusherEvent: CustomStringConvertible {
    /// The channel, the name, the data and the user ID, separated by spaces.
    public var description: String {
        [self.channel, self.name, self.data, self.userID.map { "from \($0)" }].compactMap { $0 }.joined(separator: " ")
    }
}

public import RealtimeJSON
import RealtimeCore

/// An event on a channel.
public struct PusherEvent: Sendable {
    /// Its name.
    public let name: String
    /// Its channel; `nil` for events of the service that belong to none.
    public let channel: String?
    /// Who sent it: only on client events of presence channels.
    public let userID: String?
    /// The data as it came, with its escapes; `nil` when there is none.
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

    /// The data as it was published: a text, usually JSON. Where a server sends JSON that is no string, its text.
    /// `nil` when there is none.
    ///
    /// The string is made anew each time: keep it when you need it more than once. An event that is kept keeps the data of
    /// its neighbours too, up to 4 KiB; the string does not.
    public var data: String? {
        self.text.map { JSONText.string($0.bytes(self.offset, self.count), isEscaped: self.isEscaped) }
    }

    /// Reads the data as JSON into a type of your own. The work is done here, on the caller's thread.
    ///
    /// It throws ``PusherError/Code/noData`` when there is no data, `JSONError` when the data is no JSON, and
    /// `DecodingError` when it does not fit, both with the place of the fault. Nothing else is lost by that.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, with decoder: JSONValueDecoder = JSONValueDecoder()
    ) throws -> Value {
        guard let text else {
            throw PusherError(.noData, "The event \"\(self.name)\" carries no data to decode.")
        }
        let raw = text.bytes(self.offset, self.count)
        return try decoder.decode(type, fromUTF8: self.isEscaped ? JSONText.unescapedBytes(raw) : Array(raw))
    }
}

extension PusherEvent: Hashable {
    /// Whether name, channel, data and sender are the same.
    public static func == (left: Self, right: Self) -> Bool {
        left.name == right.name && left.channel == right.channel && left.userID == right.userID && left.data == right.data
    }

    /// Hashes what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.name)
        hasher.combine(self.channel)
        hasher.combine(self.userID)
        hasher.combine(self.data)
    }
}

extension PusherEvent: CustomStringConvertible {
    /// The channel, the name and the data, for logs.
    public var description: String {
        [self.channel, self.name, self.data, self.userID.map { "from \($0)" }].compactMap { $0 }.joined(separator: " ")
    }
}

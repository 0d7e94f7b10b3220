public import RealtimeCoding
import RealtimeSystem
import PusherWire
import RealtimeCore

/// An event on a channel.
public struct PusherEvent: Sendable {
    enum DataForm: UInt8, Sendable {
        case none, plain
        /// The content of a JSON string with escapes.
        case escaped
    }

    private let storage: EventStorage
    private let names: UInt32
    private let offset: UInt32
    private let count: UInt32
    private let form: DataForm

    /// The name of the event.
    public var name: String { self.storage.names(at: self.names).event }
    /// The name of the channel, or `nil` for an event of the server that doesn't belong to a channel.
    public var channel: String? { self.storage.names(at: self.names).channel }
    /// The ID of the user who sent a client event on a presence channel; `nil` for all other events.
    public var userID: String? { self.storage.names(at: self.names).userID }

    /// Creates an event, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - name: The name of the event.
    ///   - channel: The name of the channel, or `nil` for an event that doesn't belong to a channel.
    ///   - data: The data of the event, usually JSON, or `nil` if the event has no data.
    ///   - userID: The ID of the user who sent a client event on a presence channel.
    public init(name: String, channel: String? = nil, data: String? = nil, userID: String? = nil) {
        var writer = EventWriter(atMost: data?.utf8.count ?? 0)
        let names = EventNames(name, channel: channel, userID: userID)
        if var data {
            self = data.withUTF8 { writer.event(names, data: UnsafeRawBufferPointer($0), isEscaped: false) }
        } else {
            self = writer.event(names, data: nil, isEscaped: false)
        }
    }

    init(_ storage: EventStorage, names: UInt32, offset: UInt32, count: UInt32, _ form: DataForm) {
        self.storage = storage
        self.names = names
        self.offset = offset
        self.count = count
        self.form = form
    }

    /// The data of the event, which is usually JSON, or `nil` if the event has no data.
    ///
    /// If the server sent the data as a JSON string, which is the usual form, this is the contents of the string. Otherwise, it is
    /// the JSON text itself.
    ///
    /// Every access creates a new string: store it in a variable if you need it more than once. An event may share up to 4 KiB of
    /// storage with events that arrived at the same time; the string has storage of its own.
    public var data: String? {
        switch self.form {
        case .none: nil
        case .plain, .escaped: JSONText.string(self.storage.bytes(self.offset, self.count), isEscaped: self.form == .escaped)
        }
    }

    /// Decodes the data, which must be JSON. Decoding runs on the calling thread.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    /// - Returns: The decoded value.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/noData`` if the event has no data, a `JSONError` if the data isn't
    ///   valid JSON, or a `DecodingError` if it doesn't match the type.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, with decoder: JSONValueDecoder = JSONValueDecoder()
    ) throws -> Value {
        if case .none = self.form { throw self.noData }
        let raw = self.storage.bytes(self.offset, self.count)
        return try decoder.decode(type, fromUTF8: self.form == .escaped ? JSONText.unescapedBytes(raw) : Array(raw))
    }
}

extension PusherEvent: Hashable {
    /// Returns whether two events have the same name, channel, data and user ID, byte by byte.
    public static func == (left: Self, right: Self) -> Bool { left.parts == right.parts }

    /// Hashes the name, the channel, the data and the user ID.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.parts) }

    private var parts: [ByteString?] { [self.name, self.channel, self.userID, self.data].map { $0.map(ByteString.init) } }
}

extension PusherEvent: CustomStringConvertible {
    /// The channel, the name, the data and the user ID, separated by spaces.
    public var description: String {
        [self.channel, self.name, self.data, self.userID.map { "from \($0)" }].compactMap { $0 }.joined(separator: " ")
    }

    private var noData: PusherError {
        // The server chooses the name, which may be long.
        let name = Excerpt.of(self.name, limit: 200)
        return PusherError(.noData, "The event \"\(name)\" has no data to decode.", channel: self.channel)
    }
}

package import RealtimeJSON

/// One event of the protocol, as slices of the text it came in: nothing is copied until somebody wants it.
///
/// ```
/// {"event":"price","channel":"stocks","data":"{\"value\":12}","user_id":"7"}
/// ```
package struct PusherFrame {
    private static let keys = JSONKeys("event", "channel", "data", "user_id")

    package let bytes: UnsafeRawBufferPointer
    package let event, channel, data, userID: JSONSlice

    /// - Parameters:
    ///   - bytes: UTF-8 that stays where it is for as long as the frame is used.
    package init(scanning bytes: UnsafeRawBufferPointer) throws(PusherFrameError) {
        let scan: JSONObjectScan
        do throws(JSONError) {
            scan = try JSONObjectScan(bytes, keys: Self.keys, isUTF8: true)
        } catch {
            throw .notJSON(error)
        }
        self.bytes = bytes
        self.event = scan[0]
        self.channel = scan[1]
        self.data = scan[2]
        self.userID = scan[3]
        guard self.event.kind.isString else { throw self.event.kind == .missing ? .noEvent : .wrongType("event") }
        guard self.channel.kind.isString || self.channel.kind == .missing || self.channel.kind == .null else { throw .wrongType("channel") }
    }

    package var eventName: String { JSONText.string(self.event, in: self.bytes) }

    package var channelName: String? { self.channel.kind.isString ? JSONText.string(self.channel, in: self.bytes) : nil }

    /// Whether these are the names of the event and its channel, without making strings of them.
    package func isEvent(_ name: String) -> Bool { Self.isEqual(self.event, name, self.bytes) }

    package func isChannel(_ name: String) -> Bool { Self.isEqual(self.channel, name, self.bytes) }

    @inline(__always)
    private static func isEqual(_ slice: JSONSlice, _ name: String, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard slice.kind == .string, slice.length == name.utf8.count else { return false }
        var name = name
        return name.withUTF8 { name in
            for index in 0..<slice.length where name[index] != bytes[slice.offset &+ index] { return false }
            return true
        }
    }

    /// Whether the event is one of the protocol's own.
    package var isReserved: Bool {
        guard self.event.kind == .string else { return EventName.isReserved(self.eventName) }
        guard self.event.length >= 7, self.bytes[self.event.offset] == UInt8(ascii: "p") else { return false }
        return EventName.isReserved(self.eventName)
    }

    /// The data as it stands in the frame, for ``dataIsEscaped``; `nil` when there is none.
    package var dataRaw: UnsafeRawBufferPointer? {
        switch self.data.kind {
        case .missing, .null: nil
        default: self.raw(self.data)
        }
    }

    /// Whether ``dataRaw`` is a string with escapes.
    package var dataIsEscaped: Bool { self.data.kind == .escapedString }

    /// The data in its text form: the string itself, or the JSON of anything else. Servers send either, for every
    /// event. `nil` when there is none.
    package var dataText: String? {
        switch self.data.kind {
        case .missing, .null: nil
        case .string, .escapedString: JSONText.string(self.data, in: self.bytes)
        default: String(decoding: self.raw(self.data), as: UTF8.self)
        }
    }

    /// The data's bytes in its text form.
    package var dataBytes: [UInt8] {
        switch self.data.kind {
        case .missing, .null: []
        case .escapedString: JSONText.unescapedBytes(self.raw(self.data))
        default: Array(self.raw(self.data))
        }
    }

    /// The data as the protocol's own events use it: an object, or a string that holds one.
    package func dataValue() throws(PusherFrameError) -> JSONValue {
        do throws(JSONError) {
            switch self.data.kind {
            case .missing: return .null
            case .string, .escapedString: return try JSONValue(parsing: self.dataBytes)
            default: return try JSONValue(parsing: self.raw(self.data), isUTF8: true)
            }
        } catch {
            throw .notJSON(error)
        }
    }

    /// Some servers send a user's ID as a number.
    package var user: String? {
        if self.userID.kind.isString { return JSONText.string(self.userID, in: self.bytes) }
        return self.userID.kind.isNumber ? String(decoding: self.raw(self.userID), as: UTF8.self) : nil
    }

    private func raw(_ slice: JSONSlice) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: self.bytes[slice.range]) }
}

/// What was wrong with a frame.
package enum PusherFrameError: Error, Hashable, Sendable, CustomStringConvertible {
    case notJSON(JSONError)
    case noEvent
    case wrongType(String)
    case missing(String)

    package var description: String {
        switch self {
        case .notJSON(let error): "it is not the JSON it should be (\(error))"
        case .noEvent: "it has no \"event\""
        case .wrongType(let member): "its \"\(member)\" is of the wrong type"
        case .missing(let member): "its data has no usable \"\(member)\""
        }
    }
}

package import RealtimeCoding

/// One event of the protocol, as slices of the received text. Nothing is copied until it is accessed.
///
/// ```
/// {"event":"price","channel":"stocks","data":"{\"value\":12}","user_id":"7"}
/// ```
package struct PusherFrame {
    private static let keys = JSONKeys("event", "channel", "data", "user_id")

    package let bytes: UnsafeRawBufferPointer
    package let event, channel, data, userID: JSONSlice

    /// Scans a frame.
    ///
    /// - Parameter bytes: The frame as UTF-8. The memory must outlive the frame.
    /// - Throws: ``PusherFrameError`` if the text is not a JSON object, or its `event` or `channel` is not a string.
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
        // Patterns, because `==` of another module's enum is a call.
        switch self.event.kind {
        case .string, .escapedString: break
        case .missing: throw .noEvent
        default: throw .wrongType("event")
        }
        switch self.channel.kind {
        case .string, .escapedString, .missing, .null: break
        default: throw .wrongType("channel")
        }
    }

    package var eventName: String { JSONText.string(self.event, in: self.bytes) }

    package var channelName: String? { self.channel.kind.isString ? JSONText.string(self.channel, in: self.bytes) : nil }

    /// Whether the event has this name. Compares without creating a string.
    package func isEvent(_ name: String) -> Bool { JSONText.isEqual(self.event, name, in: self.bytes) }

    /// Whether the event's channel has this name. Compares without creating a string.
    package func isChannel(_ name: String) -> Bool { JSONText.isEqual(self.channel, name, in: self.bytes) }

    /// Whether the event has a user ID.
    package var hasUser: Bool { if case .missing = self.userID.kind { false } else { true } }

    /// Whether the event's name is reserved for the service.
    package var isReserved: Bool {
        guard case .string = self.event.kind else { return EventName.isReserved(self.eventName) }
        guard self.event.length >= 7, self.bytes[self.event.offset] == UInt8(ascii: "p") else { return false }
        return EventName.isReserved(self.eventName)
    }

    /// Whether the event's name is reserved for the service, also in version 2.
    package var isReservedInVersion2: Bool {
        if self.isReserved { return true }
        guard case .string = self.event.kind else { return EventName.isReservedInVersion2(self.eventName) }
        guard self.event.length >= 8, self.bytes[self.event.offset] == UInt8(ascii: "s") else { return false }
        return EventName.isReservedInVersion2(self.eventName)
    }

    /// The data as it appears in the frame, or `nil` if there is none. See ``dataIsEscaped``.
    package var dataRaw: UnsafeRawBufferPointer? {
        switch self.data.kind {
        case .missing, .null: nil
        default: self.raw(self.data)
        }
    }

    /// Whether ``dataRaw`` is the content of a string with escapes.
    package var dataIsEscaped: Bool { if case .escapedString = self.data.kind { true } else { false } }

    /// The data as text: the value of a string, or the JSON of any other value. `nil` if there is none.
    ///
    /// Servers use either form for any event.
    package var dataText: String? {
        switch self.data.kind {
        case .missing, .null: nil
        case .string, .escapedString: JSONText.string(self.data, in: self.bytes)
        default: String(decoding: self.raw(self.data), as: UTF8.self)
        }
    }

    /// The bytes of ``dataText``; empty if there is no data.
    package var dataBytes: [UInt8] {
        switch self.data.kind {
        case .missing, .null: []
        case .escapedString: JSONText.unescapedBytes(self.raw(self.data))
        default: Array(self.raw(self.data))
        }
    }

    /// Parses the data of the protocol's own events: a JSON value, or a string that contains one.
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

    /// The ID of the user who sent the event. Some servers send it as a number.
    package var user: String? {
        if self.userID.kind.isString { return JSONText.string(self.userID, in: self.bytes) }
        return self.userID.kind.isNumber ? String(decoding: self.raw(self.userID), as: UTF8.self) : nil
    }

    private func raw(_ slice: JSONSlice) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: self.bytes[slice.range]) }
}

/// The reason why a frame is invalid.
package enum PusherFrameError: Error, Hashable, Sendable, CustomStringConvertible {
    case notJSON(JSONError)
    case noEvent
    case wrongType(String)
    case missing(String)

    package var description: String {
        switch self {
        case .notJSON(let error): error.message
        case .noEvent: "missing \"event\""
        case .wrongType(let member): "wrong type of \"\(member)\""
        case .missing(let member): "missing or invalid \"\(member)\" in the data"
        }
    }
}

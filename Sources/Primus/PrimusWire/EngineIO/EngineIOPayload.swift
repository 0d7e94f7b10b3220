package import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// Bodies of requests and responses over polling: several packets, one after the other.
///
/// On both sides, a packet is the message that a WebSocket would carry, so that what reads packets doesn't depend on the connection.
///
/// Source: the protocol descriptions of engine.io, versions 3 and 4.
package enum EngineIOPayload {
    static let separator: UInt8 = 0x1E
    static let colon = UInt8(ascii: ":")
    package static let base64 = UInt8(ascii: "b")

    /// Returns as many packets as fit into a body, and at least one.
    ///
    /// - Parameters:
    ///   - packets: The packets as messages of a WebSocket, of which there is at least one.
    ///   - version: The version of the protocol.
    ///   - limit: The maximum size of the body in bytes.
    /// - Returns: The body in UTF-8, and the number of packets in it.
    package static func encode(
        _ packets: ArraySlice<WebSocketMessage>, _ version: EngineIOVersion, limit: Int = .max
    ) -> (body: [UInt8], count: Int) {
        var body: [UInt8] = []
        var count = 0
        for packet in packets {
            let start = body.count
            switch version {
            case .v4:
                if count > 0 { body.append(Self.separator) }
                self.append(packet, version, to: &body)
            case .v3:
                var text: [UInt8] = []
                self.append(packet, version, to: &text)
                body.append(contentsOf: "\(self.units(text)):".utf8)
                body += text
            }
            guard count == 0 || body.count <= limit else {
                body.removeSubrange(start...)
                break
            }
            count += 1
        }
        return (body, count)
    }

    /// The number of bytes that a packet takes in a body, without a separator. For version 3, it may be a little too large.
    package static func size(of packet: WebSocketMessage, _ version: EngineIOVersion) -> Int {
        let count = packet.bytes.count
        switch (version, packet.kind == .binary) {
        case (.v4, false): return count
        case (.v4, true): return 1 + (count + 2) / 3 * 4
        case (.v3, let isBinary):
            let text = isBinary ? 2 + (count + 1) / 3 * 4 : count
            return "\(text):".utf8.count + text
        }
    }

    /// Returns a packet as a text message, with the bytes of a binary message in Base64, as over a WebSocket whose client asks for that.
    package static func text(_ packet: WebSocketMessage, _ version: EngineIOVersion) -> WebSocketMessage {
        guard packet.kind == .binary else { return packet }
        var bytes: [UInt8] = []
        self.append(packet, version, to: &bytes)
        return WebSocketMessage(.text, bytes)
    }

    /// Returns the bytes of a packet in Base64 as a binary message; `nil` if it isn't valid.
    static func binary(_ packet: UnsafeRawBufferPointer, _ version: EngineIOVersion) -> [UInt8]? {
        func decode(_ text: Slice<UnsafeRawBufferPointer>) -> [UInt8]? {
            Base64.decode(String(decoding: text, as: UTF8.self), ignoresPadBits: true)
        }
        guard version == .v3 else { return decode(packet.dropFirst()) }
        guard packet.count > 1, let kind = EngineIOPacket.kind(packet[1]), let bytes = decode(packet.dropFirst(2)) else { return nil }
        return [kind.rawValue] + bytes
    }

    /// Whether a body begins as those of version 3 do: with a length.
    package static func isVersion3(_ body: ArraySlice<UInt8>) -> Bool {
        let digits = body.prefix(10).prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        return !digits.isEmpty && body.dropFirst(digits.count).first == self.colon
    }

    /// Appends a packet as text, with the bytes of a binary message in Base64.
    private static func append(_ packet: WebSocketMessage, _ version: EngineIOVersion, to output: inout [UInt8]) {
        guard packet.kind == .binary else { return output += packet.bytes }
        output.append(self.base64)
        guard version == .v3, let kind = packet.bytes.first else { return Base64.append(packet.bytes, to: &output) }
        output.append(UInt8(ascii: "0") + kind)
        Base64.append(Array(packet.bytes[1...]), to: &output)
    }

    /// The number of UTF-16 code units, which version 3 counts.
    private static func units(_ text: [UInt8]) -> Int { text.reduce(0) { $0 + self.units(startingWith: $1) } }

    /// The UTF-16 code units of the scalar that begins with a byte in UTF-8; 0 for the other bytes of a scalar.
    static func units(startingWith byte: UInt8) -> Int {
        switch byte {
        case 0x80...0xBF: 0
        case 0xF0...: 2
        default: 1
        }
    }
}

/// Reads a body over polling, in pieces of any size.
package struct EngineIOPayloadReader: Sendable {
    /// The known part of the next packet in a body of version 3.
    private enum Length {
        /// The digits that were read, of which there may be none.
        case digits(value: Int, count: Int)
        /// The number of UTF-16 code units that follow.
        case units(Int)
    }

    private let version: EngineIOVersion
    private let limit: Int
    /// The beginning of a packet.
    private var partial: [UInt8] = []
    private var length = Length.digits(value: 0, count: 0)
    private var isEmpty = true

    /// - Parameters:
    ///   - version: The version of the protocol.
    ///   - limit: The maximum size of a packet in bytes.
    package init(_ version: EngineIOVersion, limit: Int) {
        (self.version, self.limit) = (version, limit)
    }

    /// Reads a piece of the body.
    ///
    /// A packet in which only the content is wrong, such as invalid Base64, is passed on as text: what reads packets rejects it, without
    /// an effect on the others. Invalid UTF-8 is replaced by U+FFFD.
    ///
    /// - Parameters:
    ///   - bytes: The piece, which is valid during the call only.
    ///   - batch: The packets that are complete are appended to it, as messages of a WebSocket.
    /// - Throws: ``EngineIOError`` if the rest of the body can't be read.
    package mutating func read(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(EngineIOError) {
        if bytes.isEmpty { return }
        self.isEmpty = false
        switch self.version {
        case .v4: try self.readSeparated(bytes, into: &batch)
        case .v3: try self.readCounted(bytes, into: &batch)
        }
    }

    /// Handles the end of the body. The next one can be read then.
    ///
    /// - Parameter batch: The packet that is complete with the body is appended to it.
    /// - Throws: ``EngineIOError`` if a packet is cut off.
    package mutating func finish(into batch: inout MessageBatch) throws(EngineIOError) {
        defer { self = Self(self.version, limit: self.limit) }
        if self.isEmpty { return }
        switch (self.version, self.length) {
        case (.v4, _), (.v3, .units(0)): try self.complete(UnsafeRawBufferPointer(start: nil, count: 0), into: &batch)
        case (.v3, .digits(_, 0)): break
        case (.v3, .digits): throw .invalidPayload("a length has no packet")
        case (.v3, .units): throw .invalidPayload("a packet is cut off")
        }
    }

    private mutating func readSeparated(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(EngineIOError) {
        var start = 0
        while let end = bytes.position(of: EngineIOPayload.separator, from: start) {
            try self.complete(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), into: &batch)
            start = end + 1
        }
        try self.keep(UnsafeRawBufferPointer(rebasing: bytes[start...]))
    }

    private mutating func readCounted(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(EngineIOError) {
        var position = 0
        while position < bytes.count {
            switch self.length {
            case .digits(let value, let count):
                let byte = bytes[position]
                position += 1
                if byte == EngineIOPayload.colon, count > 0 {
                    self.length = .units(value)
                } else if UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte, count < 10 {
                    self.length = .digits(value: value * 10 + Int(byte - UInt8(ascii: "0")), count: count + 1)
                } else {
                    throw .invalidPayload(count > 0 ? "the length of a packet isn't a number" : "a packet has no length")
                }
            case .units(var units):
                var end = position
                // The last character ends where the next one begins.
                while end < bytes.count, units > 0 || EngineIOPayload.units(startingWith: bytes[end]) == 0 {
                    units -= EngineIOPayload.units(startingWith: bytes[end])
                    end += 1
                }
                guard units >= 0 else { throw .invalidPayload("a packet ends within a character") }
                let text = UnsafeRawBufferPointer(rebasing: bytes[position..<end])
                position = end
                if end < bytes.count {
                    try self.complete(text, into: &batch)
                    self.length = .digits(value: 0, count: 0)
                } else {
                    try self.keep(text)
                    self.length = .units(units)
                }
            }
        }
    }

    private mutating func keep(_ bytes: UnsafeRawBufferPointer) throws(EngineIOError) {
        try self.check(self.partial.count + bytes.count)
        self.partial += bytes
    }

    private func check(_ size: Int) throws(EngineIOError) {
        guard size <= self.limit else { throw .invalidPayload("a packet has more than \(self.limit) bytes") }
    }

    /// Appends the packet that consists of what was kept and of bytes.
    private mutating func complete(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(EngineIOError) {
        if self.partial.isEmpty {
            try self.check(bytes.count)
            return self.append(bytes, to: &batch)
        }
        try self.keep(bytes)
        self.partial.withUnsafeBytes { self.append($0, to: &batch) }
        self.partial = []
    }

    private func append(_ packet: UnsafeRawBufferPointer, to batch: inout MessageBatch) {
        // As the original, which ignores empty packets of version 3 alone.
        if packet.isEmpty, self.version == .v3 { return }
        if packet.first == EngineIOPayload.base64, let bytes = EngineIOPayload.binary(packet, self.version) {
            return batch.append(.binary, bytes)
        }
        batch.append(repairing: packet)
    }
}

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
    /// The byte between the length of a packet and the packet, in a body that isn't text.
    static let endOfLength: UInt8 = 0xFF
    package static let base64 = UInt8(ascii: "b")

    /// Returns as many packets as fit into a body, and at least one.
    ///
    /// - Parameters:
    ///   - packets: The packets as messages of a WebSocket, of which there is at least one.
    ///   - format: The form of the body.
    ///   - limit: The maximum size of the body in bytes.
    /// - Returns: The body, and the number of packets in it.
    package static func encode(
        _ packets: ArraySlice<TransportMessage>, _ format: EngineIOPayloadFormat, limit: Int = .max
    ) -> (body: [UInt8], count: Int) {
        var body: [UInt8] = []
        var count = 0
        for packet in packets {
            let (prefix, content) = self.encode(packet, format, isFirst: count == 0)
            guard count == 0 || body.count + prefix.count + content.count <= limit else { break }
            // The body of a single packet is not a copy of it.
            if body.isEmpty, prefix.isEmpty {
                body = content
            } else {
                body += prefix
                body += content
            }
            count += 1
        }
        return (body, count)
    }

    /// Appends packets to a body. Large ones aren't copied.
    ///
    /// - Returns: The number of packets.
    package static func encode(
        _ packets: ArraySlice<TransportMessage>, _ format: EngineIOPayloadFormat, into body: inout SharedBody
    ) -> Int {
        for (index, packet) in packets.enumerated() {
            let (prefix, content) = self.encode(packet, format, isFirst: index == 0)
            if !prefix.isEmpty { body.append(prefix) }
            body.append(message: content)
        }
        return packets.count
    }

    /// Returns the bytes before a packet, and those of the packet.
    private static func encode(
        _ packet: TransportMessage, _ format: EngineIOPayloadFormat, isFirst: Bool
    ) -> (prefix: [UInt8], content: [UInt8]) {
        switch format {
        case .separated: return (isFirst ? [] : [Self.separator], self.text(packet, .v4).bytes)
        case .counted:
            let text = self.text(packet, .v3).bytes
            return (Array("\(self.units(text)):".utf8), text)
        case .bytes:
            let digits = "\(packet.bytes.count)".utf8.map { $0 - UInt8(ascii: "0") }
            return ([packet.kind == .binary ? 1 : 0] + digits + [Self.endOfLength], packet.bytes)
        }
    }

    /// The number of bytes that a packet takes in a body of text, without a separator. For version 3, it may be a little too large.
    package static func size(of packet: TransportMessage, _ version: EngineIOVersion) -> Int {
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
    package static func text(_ packet: TransportMessage, _ version: EngineIOVersion) -> TransportMessage {
        guard packet.kind == .binary else { return packet }
        var text = [Self.base64]
        if version == .v3, let kind = packet.bytes.first {
            text.append(UInt8(ascii: "0") + kind)
            Base64.append(Array(packet.bytes[1...]), to: &text)
        } else {
            Base64.append(packet.bytes, to: &text)
        }
        return TransportMessage(.text, text)
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

    /// Whether a body isn't text, which only those of version 3 can be.
    package static func isBytes(_ body: some Collection<UInt8>) -> Bool { body.first.map { $0 <= 1 } ?? false }

    /// The number of UTF-16 code units, which version 3 counts.
    static func units(_ text: [UInt8]) -> Int { text.reduce(0) { $0 + self.units(startingWith: $1) } }

    /// The UTF-16 code units of the scalar that begins with a byte in UTF-8; 0 for the other bytes of a scalar.
    static func units(startingWith byte: UInt8) -> Int {
        switch byte {
        case 0x80...0xBF: 0
        case 0xF0...: 2
        default: 1
        }
    }
}

/// The forms of a body over polling.
package enum EngineIOPayloadFormat: Hashable, Sendable, CaseIterable {
    /// Text with a separator between packets, in version 4.
    case separated
    /// Text with the length of each packet in UTF-16 code units, in version 3.
    case counted
    /// The length of each packet in bytes, in version 3. A binary packet is as it is, without Base64.
    case bytes

    /// The form that is text.
    package init(_ version: EngineIOVersion) { self = version == .v4 ? .separated : .counted }

    /// The form of a body that begins with a byte: a body of bytes begins with 0 or 1, and text of version 3 with a digit.
    init(_ version: EngineIOVersion, first: UInt8) { self = version == .v3 && first <= 1 ? .bytes : Self(version) }

    /// The content type of the form that isn't text.
    package static let octets = "application/octet-stream"
}

/// Reads a body over polling, in pieces of any size.
package struct EngineIOPayloadReader: Sendable {
    /// The known part of the next packet, in the forms that have a length.
    private enum Position {
        /// The first byte of a packet in bytes says whether it is text.
        case kind
        /// The digits of the length that were read, of which there may be none.
        case length(TransportMessage.Kind, value: Int, digits: Int)
        /// The number of bytes that follow.
        case bytes(TransportMessage.Kind, left: Int)
        /// The number of UTF-16 code units that follow.
        case units(left: Int)

        init(_ format: EngineIOPayloadFormat) { self = format == .bytes ? .kind : .length(.text, value: 0, digits: 0) }
    }

    private let version: EngineIOVersion
    private let limit: Int
    /// The form of the body, which its first byte shows.
    package private(set) var format: EngineIOPayloadFormat
    private var position: Position
    /// The beginning of a packet.
    private var partial: [UInt8] = []
    private var isEmpty = true

    /// - Parameters:
    ///   - version: The version of the protocol.
    ///   - limit: The maximum size of a packet in bytes.
    package init(_ version: EngineIOVersion, limit: Int) {
        (self.version, self.limit, self.format) = (version, limit, EngineIOPayloadFormat(version))
        self.position = Position(self.format)
    }

    /// Reads a piece of the body.
    ///
    /// A packet in which only the content is wrong, such as invalid Base64, is passed on as text: what reads packets rejects it, without
    /// an effect on the others. Invalid UTF-8 is replaced by U+FFFD.
    ///
    /// - Parameters:
    ///   - bytes: The piece, which is valid during the call only.
    ///   - batch: The packets that are complete are appended to it, as messages of a WebSocket.
    ///   - limit: The number of packets after which the call returns.
    /// - Returns: The number of bytes that were read. Less than those of the piece only if the limit was reached.
    /// - Throws: ``EngineIOError`` if the rest of the body can't be read.
    @discardableResult
    package mutating func read(
        _ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch, limit: Int = .max
    ) throws(EngineIOError) -> Int {
        guard let first = bytes.first else { return 0 }
        if self.isEmpty {
            (self.isEmpty, self.format) = (false, EngineIOPayloadFormat(self.version, first: first))
            self.position = Position(self.format)
        }
        switch self.format {
        case .separated: return try self.readSeparated(bytes, into: &batch, limit)
        case .counted, .bytes: return try self.readCounted(bytes, into: &batch, limit)
        }
    }

    /// Handles the end of the body. Another one can be read then.
    ///
    /// - Parameter batch: The packet that is complete with the body is appended to it.
    /// - Throws: ``EngineIOError`` if a packet is cut off.
    package mutating func finish(into batch: inout MessageBatch) throws(EngineIOError) {
        defer { self = Self(self.version, limit: self.limit) }
        if self.isEmpty { return }
        switch (self.format, self.position) {
        case (.separated, _), (_, .units(left: 0)), (_, .bytes(_, left: 0)):
            try self.complete(UnsafeRawBufferPointer(start: nil, count: 0), .text, into: &batch)
        case (_, .kind), (.counted, .length(_, _, digits: 0)): break
        case (_, .length): throw .invalidPayload("a length has no packet")
        case (_, .bytes), (_, .units): throw .invalidPayload("a packet is cut off")
        }
    }

    private mutating func readSeparated(
        _ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch, _ limit: Int
    ) throws(EngineIOError) -> Int {
        var (start, packetsLeft) = (0, limit)
        while let end = bytes.position(of: EngineIOPayload.separator, from: start) {
            try self.complete(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), .text, into: &batch)
            start = end + 1
            packetsLeft -= 1
            if packetsLeft == 0 { return start }
        }
        try self.keep(UnsafeRawBufferPointer(rebasing: bytes[start...]))
        return bytes.count
    }

    private mutating func readCounted(
        _ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch, _ limit: Int
    ) throws(EngineIOError) -> Int {
        var (index, packetsLeft) = (0, limit)
        while index < bytes.count, packetsLeft > 0 {
            switch self.position {
            case .kind:
                guard bytes[index] <= 1 else { throw .invalidPayload("a packet is neither text nor binary") }
                self.position = .length(bytes[index] == 0 ? .text : .binary, value: 0, digits: 0)
                index += 1
            case .length(let kind, let value, let digits):
                if let digit = self.digit(bytes[index]), digits < 10 {
                    self.position = .length(kind, value: value * 10 + digit, digits: digits + 1)
                } else if bytes[index] == (self.format == .bytes ? EngineIOPayload.endOfLength : EngineIOPayload.colon), digits > 0 {
                    self.position = self.format == .bytes ? .bytes(kind, left: value) : .units(left: value)
                } else {
                    throw .invalidPayload(digits > 0 ? "the length of a packet isn't a number" : "a packet has no length")
                }
                index += 1
            case .bytes(let kind, let left):
                let end = index + min(left, bytes.count - index)
                let content = UnsafeRawBufferPointer(rebasing: bytes[index..<end])
                let isWhole = end - index == left
                if isWhole, kind == .binary || end < bytes.count && self.beginsPacket(bytes[end], after: content) {
                    try self.complete(content, kind, into: &batch)
                    self.position = .kind
                    packetsLeft -= 1
                } else {
                    try self.keep(content)
                    self.position = .bytes(kind, left: left - content.count)
                    if isWhole, end < bytes.count { self.position = .units(left: self.partial.count - EngineIOPayload.units(self.partial)) }
                }
                index = end
            case .units(var units):
                var end = index
                // The last character of text ends where the next one begins.
                while end < bytes.count, units > 0 || EngineIOPayload.units(startingWith: bytes[end]) == 0 {
                    units -= EngineIOPayload.units(startingWith: bytes[end])
                    end += 1
                }
                guard units >= 0 else { throw .invalidPayload("a packet ends within a character") }
                let text = UnsafeRawBufferPointer(rebasing: bytes[index..<end])
                index = end
                if end < bytes.count {
                    try self.complete(text, .text, into: &batch)
                    self.position = Position(self.format)
                    packetsLeft -= 1
                } else {
                    try self.keep(text)
                    self.position = .units(left: units)
                }
            }
        }
        return index
    }

    /// Whether a byte that follows as many bytes as the length says is the first one of the next packet.
    ///
    /// Before engine.io-parser 1.0.5, the length counts UTF-16 code units also in a body of bytes. No parser of Primus writes such a byte in text.
    private func beginsPacket(_ byte: UInt8, after content: UnsafeRawBufferPointer) -> Bool {
        byte <= 1 || self.partial.allSatisfy { $0 < 0x80 } && content.allSatisfy { $0 < 0x80 }
    }

    private func digit(_ byte: UInt8) -> Int? {
        let zero = self.format == .bytes ? 0 : UInt8(ascii: "0")
        return zero...(zero + 9) ~= byte ? Int(byte - zero) : nil
    }

    private mutating func keep(_ bytes: UnsafeRawBufferPointer) throws(EngineIOError) {
        try self.check(self.partial.count + bytes.count)
        self.partial += bytes
    }

    private func check(_ size: Int) throws(EngineIOError) {
        guard size <= self.limit else { throw .invalidPayload("a packet has more than \(self.limit) bytes") }
    }

    /// Appends the packet that consists of what was kept and of bytes.
    private mutating func complete(
        _ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, into batch: inout MessageBatch
    ) throws(EngineIOError) {
        if self.partial.isEmpty {
            try self.check(bytes.count)
            return self.append(bytes, kind, to: &batch)
        }
        try self.keep(bytes)
        self.partial.withUnsafeBytes { self.append($0, kind, to: &batch) }
        self.partial = []
    }

    private func append(_ packet: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, to batch: inout MessageBatch) {
        // As the original, which ignores empty packets of version 3 alone.
        if packet.isEmpty, self.version == .v3 { return }
        if kind == .binary { return batch.append(.binary, Array(packet)) }
        if packet.first == EngineIOPayload.base64, let bytes = EngineIOPayload.binary(packet, self.version) {
            return batch.append(.binary, bytes)
        }
        batch.append(repairing: packet)
    }
}

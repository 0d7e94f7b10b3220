import RealtimeEncoding

/// Bodies of requests and responses over polling: several packets, one after the other.
package enum EngineIOPayload {
    private static let separator: UInt8 = 0x1E
    private static let colon = UInt8(ascii: ":")
    private static let base64 = UInt8(ascii: "b")

    /// Returns as many packets as fit into a body, and at least one.
    ///
    /// - Parameters:
    ///   - packets: The packets, of which there is at least one.
    ///   - version: The version of the protocol.
    ///   - limit: The maximum size of the body in bytes.
    /// - Returns: The body in UTF-8, and the number of packets in it.
    package static func encode(
        _ packets: ArraySlice<EngineIOPacket>, _ version: EngineIOVersion, limit: Int = .max
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

    /// Appends a packet as text, with the bytes of a binary message in Base64.
    private static func append(_ packet: EngineIOPacket, _ version: EngineIOVersion, to output: inout [UInt8]) {
        guard packet.isBinary else { return packet.append(to: &output) }
        output.append(self.base64)
        if version == .v3 { output.append(UInt8(ascii: "0") + packet.kind.rawValue) }
        Base64.append(packet.bytes, to: &output)
    }

    /// The number of UTF-16 code units, which version 3 counts.
    private static func units(_ text: [UInt8]) -> Int {
        text.reduce(0) { $0 + self.units(startingWith: $1) }
    }

    /// The UTF-16 code units of the scalar that begins with a byte in UTF-8; 0 for the other bytes of a scalar.
    private static func units(startingWith byte: UInt8) -> Int {
        switch byte {
        case 0x80...0xBF: 0
        case 0xF0...: 2
        default: 1
        }
    }

    /// Parses a body.
    ///
    /// - Parameters:
    ///   - body: The body, in valid UTF-8.
    ///   - version: The version of the protocol.
    /// - Returns: The packets before the first invalid one, and the error of that one.
    package static func decode(
        _ body: [UInt8], _ version: EngineIOVersion
    ) -> (packets: [EngineIOPacket], error: EngineIOError?) {
        var packets: [EngineIOPacket] = []
        do throws(EngineIOError) {
            switch version {
            case .v4:
                // An empty body is an empty packet.
                for text in body.split(separator: self.separator, omittingEmptySubsequences: false) {
                    packets.append(try self.packet(text, version))
                }
            case .v3:
                var rest = body[...]
                while !rest.isEmpty { packets.append(try self.packet(try self.takeText(&rest), version)) }
            }
            return (packets, nil)
        } catch {
            return (packets, error)
        }
    }

    /// Removes the length and the text of a packet.
    private static func takeText(_ rest: inout ArraySlice<UInt8>) throws(EngineIOError) -> ArraySlice<UInt8> {
        guard let colon = rest.prefix(11).firstIndex(of: self.colon), colon > rest.startIndex else {
            throw .invalidPayload("a packet has no length")
        }
        var count = 0
        for digit in rest[..<colon] {
            guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= digit else { throw .invalidPayload("the length of a packet isn't a number") }
            count = count * 10 + Int(digit - UInt8(ascii: "0"))
        }
        let start = colon + 1
        var end = start
        while count > 0, end < rest.endIndex {
            count -= self.units(startingWith: rest[end])
            end += 1
            while end < rest.endIndex, self.units(startingWith: rest[end]) == 0 { end += 1 }
        }
        guard count == 0 else {
            throw .invalidPayload(count > 0 ? "a packet is cut off" : "a packet ends within a character")
        }
        defer { rest = rest[end...] }
        return rest[start..<end]
    }

    private static func packet(_ text: ArraySlice<UInt8>, _ version: EngineIOVersion) throws(EngineIOError) -> EngineIOPacket {
        guard let first = text.first else { throw .invalidPacket(text) }
        guard first == self.base64 else {
            guard let kind = EngineIOPacket.kind(first) else { throw .invalidPacket(text) }
            return EngineIOPacket(kind, Array(text.dropFirst()))
        }
        var kind = EngineIOPacket.Kind.message
        var encoded = text.dropFirst()
        if version == .v3 {
            guard let digit = encoded.first, let type = EngineIOPacket.kind(digit) else { throw .invalidPacket(text) }
            kind = type
            encoded = encoded.dropFirst()
        }
        guard let bytes = Base64.decode(String(decoding: encoded, as: UTF8.self), ignoresPadBits: true) else {
            throw .invalidPayload("a binary message isn't Base64")
        }
        return EngineIOPacket(kind, bytes, isBinary: true)
    }
}

import RealtimeCoding

/// A packet in MessagePack, as slices of the received bytes.
struct MessagePackPluginFields: PluginFields {
    private let bytes: UnsafeRawBufferPointer
    /// The ranges of the members, by their keys; empty for those that are missing.
    private var ranges: [Range<Int>]
    private let coding: PrimusCoding

    /// Creates the fields of a map, or returns `nil` if the bytes aren't a map or are invalid.
    init?(_ bytes: UnsafeRawBufferPointer, _ coding: PrimusCoding) {
        self.bytes = bytes
        self.coding = coding
        self.ranges = Array(repeating: 0..<0, count: PluginKey.allCases.count)
        var reader = MessagePackReader(bytes)
        do throws(MessagePackError) {
            for _ in 0..<(try reader.mapHeader()) {
                let name = try reader.skip()
                let value = try reader.skip()
                if let key = Self.key(bytes, name) { self.ranges[key.rawValue] = value }
            }
            try reader.finish()
        } catch {
            return nil
        }
    }

    private static func key(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> PluginKey? {
        // The longest name has ten bytes. Its header takes one, or more with some encoders.
        guard range.count <= 15 else { return nil }
        var reader = MessagePackReader(bytes, in: range)
        guard let name = try? reader.string() else { return nil }
        return PluginKey.allCases.first { $0.name == name }
    }

    func kind(_ key: PluginKey) -> PluginFieldKind {
        let range = self.ranges[key.rawValue]
        guard !range.isEmpty else { return .missing }
        switch self.bytes[range.lowerBound] {
        case 0xC0: return .missing
        case 0xA0...0xBF, 0xD9...0xDB: return .string
        case 0x90...0x9F, 0xDC, 0xDD: return .array
        case 0x00...0x7F, 0xE0...0xFF, 0xCA...0xD3: return .number
        default: return .other
        }
    }

    func integer(_ key: PluginKey) -> Int64? { Self.integer(self.bytes, self.ranges[key.rawValue]) }

    /// Returns an integer, which JavaScript also writes as a floating-point number.
    static func integer(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int64? {
        var reader = MessagePackReader(bytes, in: range)
        if let integer = try? reader.integer() { return integer }
        guard let number = try? MessagePackDecoder().decode(Double.self, from: Array(bytes[range])) else { return nil }
        return Int64(exactly: number)
    }

    func string(_ key: PluginKey) -> String {
        var reader = MessagePackReader(self.bytes, in: self.ranges[key.rawValue])
        return (try? reader.string()) ?? ""
    }

    func payload(_ key: PluginKey) -> PrimusPayload {
        let range = self.ranges[key.rawValue]
        return range.isEmpty ? .null(self.coding) : PrimusPayload(Array(self.bytes[range]), self.coding)
    }
}

extension MultiplexPacket {
    /// Reads a packet in MessagePack. Returns `nil` for other values.
    static func read(messagePack bytes: UnsafeRawBufferPointer, _ coding: PrimusCoding) -> MultiplexPacket? {
        var reader = MessagePackReader(bytes)
        do throws(MessagePackError) {
            let count = try reader.arrayHeader()
            guard 3...4 ~= count, let type = MessagePackPluginFields.integer(bytes, try reader.skip()) else { return nil }
            let (id, channel) = (try reader.string(), try reader.string())
            let payload = count == 4 ? PrimusPayload(Array(bytes[try reader.skip()]), coding) : .null(coding)
            try reader.finish()
            return MultiplexPacket(type: type, id: id, channel: channel, payload)
        } catch {
            return nil
        }
    }
}

import RealtimeCoding

/// A packet in JSON, as slices of the received text.
struct JSONPluginFields: PluginFields {
    /// A scan searches for at most eight keys. The other two belong to packets with a certain member `plugin` only.
    private static let keys = JSONKeys("type", "id", "data", "emit", "substream", "args", "plugin")
    private static let responderKeys = JSONKeys("requestId", "responseId")

    private let bytes: UnsafeRawBufferPointer
    private let scan: JSONObjectScan
    private var responderScan: JSONObjectScan?
    private let coding: PrimusCoding

    /// - Throws: `JSONError` if the text isn't an object in JSON, or exceeds the limits.
    init(_ bytes: UnsafeRawBufferPointer, _ coding: PrimusCoding, limits: CodingLimits) throws(JSONError) {
        self.bytes = bytes
        self.coding = coding
        self.scan = try JSONObjectScan(bytes, keys: Self.keys, isUTF8: true, limits: limits)
        if self.kind(.plugin) == .string {
            self.responderScan = try JSONObjectScan(bytes, keys: Self.responderKeys, isUTF8: true, limits: limits)
        }
    }

    private func slice(_ key: PluginKey) -> JSONSlice? {
        switch key {
        case .requestID: self.responderScan?[0]
        case .responseID: self.responderScan?[1]
        default: self.scan[key.rawValue]
        }
    }

    func kind(_ key: PluginKey) -> PluginFieldKind {
        switch self.slice(key)?.kind {
        case nil, .missing, .null: .missing
        case .string, .escapedString, .repairedString: .string
        case .array: .array
        case .integer, .number: .number
        default: .other
        }
    }

    func integer(_ key: PluginKey) -> Int64? { self.slice(key).flatMap { JSONText.integer($0, in: self.bytes) } }

    func string(_ key: PluginKey) -> String { self.slice(key).map { JSONText.string($0, in: self.bytes) } ?? "" }

    func payload(_ key: PluginKey) -> PrimusPayload {
        guard let slice = self.slice(key), slice.kind != .missing else { return .null(self.coding) }
        // The slice of a string excludes its quotes.
        let range = slice.kind.isString ? slice.offset - 1..<slice.offset + slice.length + 1 : slice.range
        return PrimusPayload(Array(self.bytes[range]), self.coding)
    }
}

extension MultiplexPacket {
    /// Reads a packet in JSON. Returns `nil` for other texts.
    static func read(json bytes: UnsafeRawBufferPointer, _ coding: PrimusCoding, limits: CodingLimits) -> MultiplexPacket? {
        // Any other array isn't divided into its elements.
        guard Self.begins(bytes), let elements = try? JSONText.elements(ofArray: bytes, limits: limits), 3...4 ~= elements.count,
            elements[0].count == 1, let id = Self.string(elements[1], in: bytes), let channel = Self.string(elements[2], in: bytes)
        else { return nil }
        let payload = elements.count == 4 ? PrimusPayload(Array(bytes[elements[3]]), coding) : .null(coding)
        return MultiplexPacket(type: Int64(bytes[elements[0].lowerBound] - UInt8(ascii: "0")), id: id, channel: channel, payload)
    }

    /// Whether a text begins with an array of a digit, below 3, and a string.
    private static func begins(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        func next() -> UInt8? {
            while index < bytes.count, bytes[index] == 0x20 || 0x09...0x0D ~= bytes[index] { index += 1 }
            defer { index += 1 }
            return index < bytes.count ? bytes[index] : nil
        }
        guard next() == UInt8(ascii: "["), let digit = next(), UInt8(ascii: "0")...UInt8(ascii: "2") ~= digit else { return false }
        return next() == UInt8(ascii: ",") && next() == UInt8(ascii: "\"")
    }

    private static func string(_ range: Range<Int>, in bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes[range.lowerBound] == UInt8(ascii: "\"") else { return nil }
        let raw = UnsafeRawBufferPointer(rebasing: bytes[range.lowerBound + 1..<range.upperBound - 1])
        return JSONText.string(raw, isEscaped: raw.contains(UInt8(ascii: "\\")))
    }

    /// Creates the packet of a type, or returns `nil` if no packet has this type.
    init?(type: Int64, id: String, channel: String, _ payload: PrimusPayload) {
        let address = MultiplexAddress(id: id, channel: channel)
        switch type {
        case 0: self = .message(address, payload)
        case 1: self = .subscribe(address)
        case 2: self = .unsubscribe(address)
        default: return nil
        }
    }
}

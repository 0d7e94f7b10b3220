/// The output of an encoder of MessagePack.
///
/// An array or map begins with the number of its elements, which is known when it ends. Its header therefore starts as a single byte,
/// which is enough for 15 elements.
final class MessagePackEncodingBuffer: EncodingBuffer {
    private var settings: MessagePackEncoder
    /// The type that was last looked up: the elements of an array look up the same type repeatedly.
    @exclusivity(unchecked) private var lastType: (identifier: ObjectIdentifier, type: MessagePackType)?

    init(_ settings: MessagePackEncoder, basePath: [any CodingKey] = []) {
        self.settings = settings
        super.init(basePath: basePath)
    }

    private static let spare = SpareBuffer<MessagePackEncodingBuffer>()

    /// Encodes a value and appends it to `bytes`, which is left unchanged if encoding throws.
    static func encode<Value: Encodable>(_ value: Value, _ settings: MessagePackEncoder, to bytes: inout [UInt8]) throws {
        if Self.appendScalar(value, to: &bytes) { return }
        var buffer = Self.spare.take() ?? MessagePackEncodingBuffer(settings)
        buffer.settings = settings
        defer {
            if !settings.userInfo.isEmpty { buffer.settings.userInfo = [:] }
            Self.spare.keep(&buffer)
        }
        try buffer.encode(value, to: &bytes)
    }

    /// Appends a value of a type that no setting affects, and returns whether the value has such a type.
    @inline(__always)
    private static func appendScalar<Value>(_ value: Value, to bytes: inout [UInt8]) -> Bool {
        // Each cast copies a value to a variable of the same type.
        if Value.self == String.self {
            MessagePackWriter.append(unsafeBitCast(value, to: String.self), to: &bytes)
        } else if Value.self == Int.self {
            MessagePackWriter.append(Int64(unsafeBitCast(value, to: Int.self)), to: &bytes)
        } else if Value.self == Double.self {
            MessagePackWriter.append(unsafeBitCast(value, to: Double.self), to: &bytes)
        } else if Value.self == Bool.self {
            bytes.append(unsafeBitCast(value, to: Bool.self) ? 0xC3 : 0xC2)
        } else {
            return false
        }
        return true
    }

    // MARK: Structure

    override var userInfo: [CodingUserInfoKey: Any] { self.settings.userInfo }

    override func makeBuffer(basePath: [any CodingKey]) -> EncodingBuffer {
        MessagePackEncodingBuffer(self.settings, basePath: basePath)
    }

    /// Appends the byte of the header, which is written when the value ends.
    override func appendStart(of shape: Shape) { self.bytes.append(0) }

    override func appendEnd(of value: Frame) {
        switch value.shape {
        case .done: return
        case .value: MessagePackWriter.append(mapHeader: 0, to: &self.bytes)
        case .object, .array:
            let hasPairs = value.shape == .array && value.keys != .properties
            let (isMap, count) = (hasPairs || value.shape == .object, hasPairs ? value.count / 2 : value.count)
            if count <= 15 {
                self.bytes[value.start] = (isMap ? 0x80 : 0x90) | UInt8(truncatingIfNeeded: count)
            } else {
                self.insert(Header(offset: value.start, isMap: isMap, count: count))
            }
        }
    }

    override func appendStart(of shape: Shape, count: Int) {
        if shape == .object {
            MessagePackWriter.append(mapHeader: count, to: &self.bytes)
        } else {
            MessagePackWriter.append(arrayHeader: count, to: &self.bytes)
        }
    }

    override func appendEnd(ofCounted shape: Shape) {}

    override func append(_ header: Header, to output: inout [UInt8]) {
        if header.isMap {
            MessagePackWriter.append(mapHeader: header.count, to: &output)
        } else {
            MessagePackWriter.append(arrayHeader: header.count, to: &output)
        }
    }

    override func appendStart(ofEntry name: String?, isFirst: Bool, _ keys: KeyForm) {
        guard let name else { return }
        if keys == .integerDictionary, let number = Int64(name) {
            MessagePackWriter.append(number, to: &self.bytes)
        } else if self.settings.keys == .convertToPascalCase, keys == .properties {
            self.appendPascalCase(name)
        } else {
            MessagePackWriter.append(name, to: &self.bytes)
        }
    }

    private func appendPascalCase(_ name: String) {
        guard let first = name.utf8.first, first < 0x80 else {
            return MessagePackWriter.append(KeyNames.toPascalCase(name), to: &self.bytes)
        }
        MessagePackWriter.append(name, to: &self.bytes)
        guard (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first) else { return }
        // The case of an ASCII letter is a single bit.
        self.bytes[self.bytes.count - name.utf8.count] = first & ~0x20
    }

    // MARK: Values

    override func appendNil() { self.bytes.append(0xC0) }
    override func append(_ value: Bool) { self.bytes.append(value ? 0xC3 : 0xC2) }
    override func append(_ value: String) { MessagePackWriter.append(value, to: &self.bytes) }
    override func append(signed value: Int64) { MessagePackWriter.append(value, to: &self.bytes) }
    override func append(unsigned value: UInt64) { MessagePackWriter.append(value, to: &self.bytes) }
    override func append(_ value: Double, _ key: (any CodingKey)?) throws { MessagePackWriter.append(value, to: &self.bytes) }
    override func append(_ value: Float, _ key: (any CodingKey)?) throws { MessagePackWriter.append(value, to: &self.bytes) }

    override func append(_ values: [String]) {
        MessagePackWriter.append(arrayHeader: values.count, to: &self.bytes)
        for value in values { MessagePackWriter.append(value, to: &self.bytes) }
    }

    override func append(_ values: [Int]) {
        MessagePackWriter.append(arrayHeader: values.count, to: &self.bytes)
        for value in values { MessagePackWriter.append(Int64(value), to: &self.bytes) }
    }

    @inline(__always)
    private func type<Value>(of type: Value.Type) -> MessagePackType {
        let identifier = ObjectIdentifier(type)
        if let last = self.lastType, last.identifier == identifier { return last.type }
        let found = MessagePackType(type)
        self.lastType = (identifier, found)
        return found
    }

    override func appendSpecial<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws -> KeyForm? {
        switch self.type(of: Value.self) {
        case .plain: return .properties
        case .dictionary: return .dictionary
        case .integerDictionary: return .integerDictionary
        case .foundation(.date): try self.appendTimestamp(value, key)
        case .foundation(.data), .bytes:
            guard let sequence = value as? any Sequence<UInt8> else { return .properties }
            self.appendBinary(sequence)
        case .foundation(.decimal):
            let text = String(describing: value)
            guard text != "NaN" else { throw self.invalid(text, "MessagePack cannot represent a Decimal that is not a number.", key) }
            self.append(text)
        case .foundation(.url): self.append(try MessagePackDecoder().decode(URLParts.self, from: Self.defaultEncoding(of: value)).text)
        }
        return nil
    }

    /// Returns what the type's own `encode(to:)` writes.
    private static func defaultEncoding<Value: Encodable>(of value: Value) throws -> [UInt8] {
        try MessagePackEncodingBuffer(MessagePackEncoder()).defaultEncoding(of: value)
    }

    private func appendBinary(_ sequence: some Sequence<UInt8>) {
        let isContiguous: Void? = sequence.withContiguousStorageIfAvailable {
            MessagePackWriter.append(binary: UnsafeRawBufferPointer($0), to: &self.bytes)
        }
        if isContiguous != nil { return }
        Array(sequence).withUnsafeBytes { MessagePackWriter.append(binary: $0, to: &self.bytes) }
    }

    /// Appends a `Date`, which encodes itself as the seconds since 2001.
    private func appendTimestamp<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        let mark = self.bytes.count
        try self.appendDefault(value, key, .properties)
        let seconds: Double? = self.bytes.withUnsafeBytes { bytes in
            guard bytes.count == mark + 9, bytes[mark] == 0xCB else { return nil }
            return Double(bitPattern: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: mark + 1, as: UInt64.self)))
        }
        self.bytes.removeLast(self.bytes.count - mark)
        // The error must not contain the date: Foundation traps when it prints one that is not finite.
        guard let timestamp = MessagePackTimestamp(secondsSinceReferenceDate: seconds ?? .nan) else {
            throw self.invalid(seconds ?? .nan, "The date is not a finite number of seconds in the range of a timestamp.", key)
        }
        MessagePackWriter.append(timestamp, to: &self.bytes)
    }
}

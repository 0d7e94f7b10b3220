/// The output of an encoder of JSON.
final class JSONEncodingBuffer: EncodingBuffer {
    private(set) var settings: JSONValueEncoder
    /// The type that was last found not to be a Foundation type: the elements of an array look up the same type repeatedly.
    @exclusivity(unchecked) private var plainType: ObjectIdentifier?

    init(_ settings: JSONValueEncoder, basePath: [any CodingKey] = []) {
        self.settings = settings
        super.init(basePath: basePath)
    }

    private static let spare = SpareBuffer<JSONEncodingBuffer>()

    /// Encodes a value and appends it to `bytes`, which is left unchanged if encoding throws.
    static func encode<Value: Encodable>(_ value: Value, _ settings: JSONValueEncoder, to bytes: inout [UInt8]) throws {
        if Self.appendScalar(value, to: &bytes) { return }
        var buffer = Self.spare.take() ?? JSONEncodingBuffer(settings)
        buffer.settings = settings
        defer {
            if !settings.userInfo.isEmpty { buffer.settings.userInfo = [:] }
            Self.spare.keep(&buffer)
        }
        try buffer.encode(value, to: &bytes)
    }

    /// Appends a value of a type that no setting affects.
    ///
    /// - Returns: Whether the value has such a type, and is valid.
    @inline(__always)
    private static func appendScalar<Value>(_ value: Value, to bytes: inout [UInt8]) -> Bool {
        // Each cast copies a value to a variable of the same type.
        if Value.self == String.self {
            JSONWriter.append(unsafeBitCast(value, to: String.self), to: &bytes)
        } else if Value.self == Int.self {
            JSONWriter.append(Int64(unsafeBitCast(value, to: Int.self)), to: &bytes)
        } else if Value.self == Double.self {
            let value = unsafeBitCast(value, to: Double.self)
            guard value.isFinite else { return false }
            JSONWriter.append(finite: value, to: &bytes)
        } else if Value.self == Bool.self {
            JSONWriter.append(literal: unsafeBitCast(value, to: Bool.self) ? "true" : "false", to: &bytes)
        } else {
            return false
        }
        return true
    }

    // MARK: Structure

    override var userInfo: [CodingUserInfoKey: Any] { self.settings.userInfo }

    override func makeBuffer(basePath: [any CodingKey]) -> EncodingBuffer { JSONEncodingBuffer(self.settings, basePath: basePath) }

    override func appendStart(of shape: Shape) { self.bytes.append(shape == .object ? UInt8(ascii: "{") : UInt8(ascii: "[")) }

    override func appendEnd(of value: Frame) {
        switch value.shape {
        case .value: JSONWriter.append(literal: "{}", to: &self.bytes)
        case .object: self.bytes.append(UInt8(ascii: "}"))
        case .array: self.bytes.append(UInt8(ascii: "]"))
        case .done: break
        }
    }

    override func appendStart(of shape: Shape, count: Int) { self.appendStart(of: shape) }
    override func appendEnd(ofCounted shape: Shape) { self.bytes.append(shape == .object ? UInt8(ascii: "}") : UInt8(ascii: "]")) }

    override func appendStart(ofEntry name: String?, isFirst: Bool, _ keys: KeyForm) {
        if !isFirst { self.bytes.append(UInt8(ascii: ",")) }
        guard let name else { return }
        if self.settings.keys == .convertToSnakeCase, keys == .properties {
            JSONWriter.append(key: KeyNames.toSnakeCase(name), to: &self.bytes)
        } else {
            JSONWriter.append(key: name, to: &self.bytes)
        }
    }

    // MARK: Values

    override func appendNil() { JSONWriter.append(literal: "null", to: &self.bytes) }
    override func append(_ value: Bool) { JSONWriter.append(literal: value ? "true" : "false", to: &self.bytes) }
    override func append(_ value: String) { JSONWriter.append(value, to: &self.bytes) }
    override func append(signed value: Int64) { JSONWriter.append(value, to: &self.bytes) }
    override func append(unsigned value: UInt64) { JSONWriter.append(value, to: &self.bytes) }

    override func append(_ value: Double, _ key: (any CodingKey)?) throws {
        guard value.isFinite else { throw self.notFinite(value, key) }
        JSONWriter.append(finite: value, to: &self.bytes)
    }

    override func append(_ value: Float, _ key: (any CodingKey)?) throws {
        guard value.isFinite else { throw self.notFinite(value, key) }
        JSONWriter.append(number: value.description, to: &self.bytes)
    }

    override func append(_ values: [String]) { self.append(elements: values) { JSONWriter.append($0, to: &$1) } }
    override func append(_ values: [Int]) { self.append(elements: values) { JSONWriter.append(Int64($0), to: &$1) } }

    @inline(__always)
    private func append<Element>(elements: [Element], _ append: (Element, inout [UInt8]) -> Void) {
        self.bytes.append(UInt8(ascii: "["))
        for index in elements.indices {
            if index > 0 { self.bytes.append(UInt8(ascii: ",")) }
            append(elements[index], &self.bytes)
        }
        self.bytes.append(UInt8(ascii: "]"))
    }

    override func appendSpecial<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws -> KeyForm? {
        let identifier = ObjectIdentifier(Value.self)
        if identifier != self.plainType {
            if Value.self == JSONValue.self {
                // The cast copies the value to a variable of the same type.
                unsafeBitCast(value, to: JSONValue.self).write(to: &self.bytes)
                return nil
            }
            if let type = FoundationType(Value.self) {
                try self.append(type, value, key)
                return nil
            }
            self.plainType = identifier
        }
        return self.settings.keys != .useDefaultKeys && value is any StringKeyedDictionary ? .dictionary : .properties
    }

    func notFinite(_ value: Any, _ key: (any CodingKey)?) -> EncodingError {
        self.invalid(value, "JSON cannot represent \(value).", key)
    }
}

/// A dictionary whose keys are data rather than property names.
private protocol StringKeyedDictionary {}
extension Dictionary: StringKeyedDictionary where Key == String {}

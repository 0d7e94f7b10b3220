/// A document that is being decoded: its text, its tape, and the decoder's settings.
///
/// A decoder or container is a reference to the document and the index of a node, so creating one does not allocate, and one that
/// outlives the call to `decode` stays valid. Coding paths are computed from the index when they are needed.
final class JSONDocument {
    let bytes: [UInt8]
    let nodes: [JSONNode]
    let settings: JSONValueDecoder
    /// The coding path of the document's root, if the document represents a part of another.
    let basePath: [any CodingKey]
    /// The last type that was decoded by its own `init(from:)`: the elements of an array look up the same type repeatedly.
    @exclusivity(unchecked) private var plainType: ObjectIdentifier?

    init(bytes: [UInt8], nodes: [JSONNode], settings: JSONValueDecoder, basePath: [any CodingKey] = []) {
        self.bytes = bytes
        self.nodes = nodes
        self.settings = settings
        self.basePath = basePath
    }

    @inline(__always)
    func text<Result>(_ node: JSONNode, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try self.bytes.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[node.range])) }
    }

    // MARK: Values

    func isNull(at index: Int) -> Bool { self.nodes[index].kind == .null }

    func bool(at index: Int) throws -> Bool {
        switch self.nodes[index].kind {
        case .true: return true
        case .false: return false
        default: throw self.mismatch(Bool.self, at: index)
        }
    }

    func string(at index: Int) throws -> String {
        let node = self.nodes[index]
        guard node.kind.isString else { throw self.mismatch(String.self, at: index) }
        return try self.text(node) { raw in
            if node.kind == .escapedString, self.settings.rejectsLoneSurrogates, JSONText.loneSurrogate(raw) != nil {
                throw self.corrupted("The string contains a lone surrogate.", at: index)
            }
            return JSONText.string(raw, isEscaped: node.kind == .escapedString)
        }
    }

    @inline(__always)
    func integer<Integer: FixedWidthInteger>(_ type: Integer.Type, at index: Int) throws -> Integer {
        let node = self.nodes[index]
        let value: Integer?
        switch node.kind {
        case .integer, .number: value = self.text(node) { JSONText.integer($0, node.kind, as: type) }
        case .signed: value = Integer(exactly: Int64(bitPattern: node.bits))
        case .unsigned: value = Integer(exactly: node.bits)
        case .float: value = Integer(exactly: Double(bitPattern: node.bits))
        default: throw self.mismatch(type, at: index)
        }
        if let value { return value }
        throw self.unrepresentable(type, at: index)
    }

    func double(at index: Int) throws -> Double {
        let node = self.nodes[index]
        switch node.kind {
        case .integer, .number:
            let (value, isInRange) = self.text(node) { raw in
                let value = JSONText.double(raw)
                // Only a number whose digits are all zero may become zero.
                return (value, value != 0 || JSONDigits(raw).mantissa == 0)
            }
            guard value.isFinite, isInRange else { throw self.unrepresentable(Double.self, at: index) }
            return value
        case .signed: return Double(Int64(bitPattern: node.bits))
        case .unsigned: return Double(node.bits)
        case .float: return Double(bitPattern: node.bits)
        default: throw self.mismatch(Double.self, at: index)
        }
    }

    /// Converts the text directly, because a conversion by way of `Double` would round twice.
    func float(at index: Int) throws -> Float {
        let node = self.nodes[index]
        guard node.kind.isNumber else {
            guard [.signed, .unsigned, .float].contains(node.kind) else { throw self.mismatch(Float.self, at: index) }
            return Float(try self.double(at: index))
        }
        let (value, isZero) = self.text(node) { raw in
            (Float(String(decoding: raw, as: UTF8.self)) ?? .nan, JSONDigits(raw).mantissa == 0)
        }
        guard value.isFinite, value != 0 || isZero else { throw self.unrepresentable(Float.self, at: index) }
        return value
    }

    func tree(at index: Int) -> JSONValue {
        self.bytes.withUnsafeBytes { bytes in
            self.nodes.withUnsafeBufferPointer { JSONTape.value($0, index, bytes) }
        }
    }

    @inline(__always)
    func value<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        // Each cast copies a value to a variable of the same type.
        if type == String.self { return unsafeBitCast(try self.string(at: index), to: Value.self) }
        if type == Int.self { return unsafeBitCast(try self.integer(Int.self, at: index), to: Value.self) }
        if type == Double.self { return unsafeBitCast(try self.double(at: index), to: Value.self) }
        if type == [String].self {
            return unsafeBitCast(try self.array(of: String.self, at: index) { try self.string(at: $0) }, to: Value.self)
        }
        if type == [Int].self {
            return unsafeBitCast(try self.array(of: Int.self, at: index) { try self.integer(Int.self, at: $0) }, to: Value.self)
        }
        if type == [Double].self {
            return unsafeBitCast(try self.array(of: Double.self, at: index) { try self.double(at: $0) }, to: Value.self)
        }
        return try self.otherValue(type, at: index)
    }

    private func array<Element>(of: Element.Type, at index: Int, _ element: (Int) throws -> Element) throws -> [Element] {
        let node = self.nodes[index]
        guard node.kind == .array else { throw self.mismatch([Any].self, at: index) }
        var elements: [Element] = []
        elements.reserveCapacity(Int(node.length))
        var child = index + 1
        while child < Int(node.end) {
            elements.append(try element(child))
            child = Int(self.nodes[child].end)
        }
        return elements
    }

    private func otherValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let decoder = NodeDecoder(document: self, index: index)
        let identifier = ObjectIdentifier(type)
        if identifier != self.plainType {
            if let foundationType = FoundationType(type) { return try self.value(foundationType, type, at: index) }
            if let tree = self.tree(at: index, as: type) { return tree }
            self.plainType = identifier
        }
        if self.settings.keys != .useDefaultKeys, type is any StringKeyed.Type {
            return try Value(from: NodeDecoder(document: self, index: index, keepsKeys: true))
        }
        return try Value(from: decoder)
    }

    private func tree<Value>(at index: Int, as type: Value.Type) -> Value? {
        type == JSONValue.self ? self.tree(at: index) as? Value : nil
    }

    // MARK: Errors

    /// The coding path of a node.
    func path(to index: Int) -> [any CodingKey] {
        var path = self.basePath
        var current = 0
        while current != index, current < self.nodes.count {
            let node = self.nodes[current]
            var child = current + 1
            var position = 0
            while child < Int(node.end) {
                let value = node.kind == .object ? child + 1 : child
                if index < Int(self.nodes[value].end) {
                    path.append(node.kind == .object ? ValueKey(self.key(at: child)) : ValueKey(index: position))
                    current = value
                    break
                }
                child = Int(self.nodes[value].end)
                position += 1
            }
            if child >= Int(node.end) { break }
        }
        return path
    }

    /// A member's name as it is in the document.
    func rawKey(at index: Int) -> String {
        self.bytes.withUnsafeBytes { JSONTape.string(self.nodes[index], $0) }
    }

    /// A member's name, converted as the settings require.
    func key(at index: Int) -> String {
        let key = self.rawKey(at: index)
        return self.settings.keys == .convertFromSnakeCase ? KeyNames.fromSnakeCase(key) : key
    }

    func context(_ message: String, at index: Int) -> DecodingError.Context {
        let node = self.nodes[index]
        let position =
            switch node.kind {
            case .signed, .unsigned, .float: ""
            default: " (at byte \(node.offset))"
            }
        return DecodingError.Context(codingPath: self.path(to: index), debugDescription: message + position)
    }

    func corrupted(_ message: String, at index: Int) -> DecodingError {
        .dataCorrupted(self.context(message, at: index))
    }

    func unrepresentable(_ type: Any.Type, at index: Int) -> DecodingError {
        self.corrupted("The number cannot be represented as \(type).", at: index)
    }

    func mismatch(_ type: Any.Type, at index: Int) -> DecodingError {
        let found =
            switch self.nodes[index].kind {
            case .missing, .null: "null"
            case .true, .false: "a Boolean value"
            case .integer, .number, .signed, .unsigned, .float: "a number"
            case .string, .escapedString: "a string"
            case .array: "an array"
            case .object: "an object"
            }
        let context = self.context("Expected \(type), found \(found).", at: index)
        return self.isNull(at: index) ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }
}

/// A coding key with any name or index.
struct ValueKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    static let `super` = ValueKey("super")

    init(_ name: String) {
        self.stringValue = name
        self.intValue = nil
    }

    init(index: Int) {
        self.stringValue = "Index \(index)"
        self.intValue = index
    }

    init?(stringValue: String) {
        self.init(stringValue)
    }

    init?(intValue: Int) {
        self.stringValue = "\(intValue)"
        self.intValue = intValue
    }
}

/// A dictionary whose keys are data rather than property names.
private protocol StringKeyed {}
extension Dictionary: StringKeyed where Key == String {}

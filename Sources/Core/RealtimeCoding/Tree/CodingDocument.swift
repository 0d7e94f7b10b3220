import RealtimeSystem

/// A document that is being decoded: its bytes, and its values as a list of nodes.
///
/// A decoder or container is a reference to the document and the index of a node, so creating one does not allocate, and one that
/// outlives the call to `decode` stays valid. Coding paths are computed from the index when they are needed.
///
/// Each format has a subclass, which decodes the values that differ from format to format. The methods that most values take are final.
class CodingDocument {
    final let bytes: [UInt8]
    final let nodes: [CodingNode]
    /// The coding path of the document's root, if the document represents a part of another.
    final let basePath: [any CodingKey]
    final let keyRules: KeyRules
    /// The last type that was decoded by its own `init(from:)`: the elements of an array look up the same type repeatedly.
    @exclusivity(unchecked) private final var plainType: ObjectIdentifier?
    /// The indexes of the values of large objects, by name. Here and not in the containers, because the standard library copies a container for
    /// each member that it decodes, and each reference in it is counted then.
    @exclusivity(unchecked) final var names: [[ByteString: Int]] = []

    init(bytes: [UInt8], nodes: [CodingNode], basePath: [any CodingKey] = [], keyRules: KeyRules = KeyRules()) {
        self.bytes = bytes
        self.nodes = nodes
        self.basePath = basePath
        self.keyRules = keyRules
    }

    // MARK: Formats

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// Creates a document in the same format with the same settings.
    func makeDocument(bytes: [UInt8], nodes: [CodingNode], basePath: [any CodingKey]) -> CodingDocument {
        CodingDocument(bytes: bytes, nodes: nodes, basePath: basePath, keyRules: self.keyRules)
    }

    /// Whether ``specialValue(_:at:)`` may return a value. It isn't generic, because the metadata of an optional type is slow to look up.
    func isSpecial(_ type: Any.Type) -> Bool { false }

    /// Decodes a value of a type that the format represents otherwise than the type's own `init(from:)` does. Returns `nil` for other types.
    func specialValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value? { nil }

    /// Decodes a string of the kind ``NodeKind/escapedString``.
    func escapedString(at index: Int) throws -> String { self.escapedKey(at: index) }

    /// Decodes a key of the kind ``NodeKind/escapedString``.
    func escapedKey(at index: Int) -> String { self.text(self.nodes[index]) { String(decoding: $0, as: UTF8.self) } }

    /// Describes a value of the kind ``NodeKind/ext`` for formats that don't have it, as other formats write it.
    ///
    /// - Throws: `DecodingError` if the value can't be written in another format.
    func extensionText(at index: Int, as type: Any.Type) throws -> String { throw self.mismatch(type, at: index) }

    @inline(__always)
    final func text<Result>(_ node: CodingNode, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try self.bytes.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[node.range])) }
    }

    // MARK: Values

    final func isNull(at index: Int) -> Bool { self.nodes[index].kind == .null }

    final func bool(at index: Int) throws -> Bool {
        if let value = self.nodes[index].bool { return value }
        throw self.mismatch(Bool.self, at: index)
    }

    final func string(at index: Int) throws -> String {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.string(in: $0) }) { return value }
        guard node.kind == .escapedString else { throw self.mismatch(String.self, at: index) }
        return try self.escapedString(at: index)
    }

    @inline(__always)
    final func integer<Integer: FixedWidthInteger>(_ type: Integer.Type, at index: Int) throws -> Integer {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.integer(type, in: $0) }) { return value }
        throw self.numberError(type, at: index)
    }

    final func double(at index: Int) throws -> Double {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.double(in: $0) }) { return value }
        throw self.numberError(Double.self, at: index)
    }

    final func float(at index: Int) throws -> Float {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.float(in: $0) }) { return value }
        throw self.numberError(Float.self, at: index)
    }

    private final func numberError(_ type: Any.Type, at index: Int) -> DecodingError {
        switch self.nodes[index].kind {
        case .integer, .number, .signed, .unsigned, .float, .single: self.unrepresentable(type, at: index)
        default: self.mismatch(type, at: index)
        }
    }

    @inline(__always)
    final func value<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        // Each cast copies a value to a variable of the same type.
        if type == String.self { return unsafeBitCast(try self.string(at: index), to: Value.self) }
        if type == Int.self { return unsafeBitCast(try self.integer(Int.self, at: index), to: Value.self) }
        if type == Double.self { return unsafeBitCast(try self.double(at: index), to: Value.self) }
        if type == Bool.self { return unsafeBitCast(try self.bool(at: index), to: Value.self) }
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

    private final func array<Element>(of: Element.Type, at index: Int, _ element: (Int) throws -> Element) throws -> [Element] {
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

    private final func otherValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let identifier = ObjectIdentifier(type)
        if identifier != self.plainType {
            if self.isSpecial(type) { return try self.specialOrOwnValue(type, at: index) }
            self.plainType = identifier
        }
        return try self.ownValue(type, at: index)
    }

    @inline(never)
    private final func specialOrOwnValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        try self.specialValue(type, at: index) ?? self.ownValue(type, at: index)
    }

    @inline(__always)
    private final func ownValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let keepsKeys = self.keyRules.convertsFromSnakeCase && type is any StringKeyed.Type
        return try Value(from: NodeDecoder(document: self, index: index, keepsKeys: keepsKeys))
    }

    // MARK: Errors

    /// The coding path of a node.
    final func path(to index: Int) -> [any CodingKey] {
        var path = self.basePath
        var current = 0
        while current != index, current < self.nodes.count {
            let node = self.nodes[current]
            var child = current + 1
            var position = 0
            while child < Int(node.end) {
                // A key can contain nested values.
                let value = node.kind == .object ? Int(self.nodes[child].end) : child
                if index < Int(self.nodes[value].end) {
                    path.append(node.kind == .object ? self.pathKey(at: child) : ValueKey(index: position))
                    current = value
                    break
                }
                child = Int(self.nodes[value].end)
                position += 1
            }
            if child >= Int(node.end) || current > index { break }
        }
        return path
    }

    private final func pathKey(at index: Int) -> ValueKey {
        if let number = self.integerKey(at: index) { return ValueKey(number) }
        // Keys that are arrays, objects or bytes have no name.
        return ValueKey(self.key(at: index) ?? "key")
    }

    /// A member's name as it is in the document, or `nil` if its key has no name. A key that is a number or a Boolean value has its text as
    /// its name.
    final func rawKey(at index: Int) -> String? {
        let node = self.nodes[index]
        switch node.kind {
        case .string, .repairedString: return self.text(node) { String(decoding: $0, as: UTF8.self) }
        case .escapedString: return self.escapedKey(at: index)
        case .integer, .number: return self.text(node) { String(decoding: $0, as: UTF8.self) }
        case .signed: return Int64(bitPattern: node.bits).description
        case .unsigned: return node.bits.description
        case .float: return Double(bitPattern: node.bits).description
        case .single: return Float(Double(bitPattern: node.bits)).description
        case .true: return "true"
        case .false: return "false"
        case .missing, .null, .array, .object, .binary, .ext: return nil
        }
    }

    /// The integer of a key, or `nil` if the key is another value.
    final func integerKey(at index: Int) -> Int? {
        let node = self.nodes[index]
        return node.kind == .signed ? Int(exactly: Int64(bitPattern: node.bits)) : nil
    }

    /// A member's name, converted as the rules require.
    final func key(at index: Int) -> String? {
        let key = self.rawKey(at: index)
        return self.keyRules.convertsFromSnakeCase ? key.map(KeyNames.fromSnakeCase) : key
    }

    final func context(_ message: String, at index: Int) -> DecodingError.Context {
        let node = self.nodes[index]
        let position =
            switch node.kind {
            case .signed, .unsigned, .float, .single: ""
            default: " (at byte \(node.offset))"
            }
        return DecodingError.Context(codingPath: self.path(to: index), debugDescription: message + position)
    }

    final func corrupted(_ message: String, at index: Int) -> DecodingError {
        .dataCorrupted(self.context(message, at: index))
    }

    final func unrepresentable(_ type: Any.Type, at index: Int) -> DecodingError {
        self.corrupted("The number cannot be represented as \(type).", at: index)
    }

    final func mismatch(_ type: Any.Type, at index: Int) -> DecodingError {
        let found =
            switch self.nodes[index].kind {
            case .missing, .null: "null"
            case .true, .false: "a Boolean value"
            case .integer, .number, .signed, .unsigned, .float, .single: "a number"
            case .string, .escapedString, .repairedString: "a string"
            case .array: "an array"
            case .object: "an object"
            case .binary: "binary data"
            case .ext: "an extension value"
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
        self.init(intValue)
    }

    /// Creates an integer key of a map.
    init(_ intValue: Int) {
        self.stringValue = "\(intValue)"
        self.intValue = intValue
    }
}

/// The rules by which members are found by their coding keys.
struct KeyRules {
    /// Whether names are converted from snake case to camel case.
    var convertsFromSnakeCase = false
    /// Whether members are found by their names without case, unless one has the exact name.
    var ignoresCase = false
    /// Whether keys can be other values than strings, so that a member is also found by the number of its coding key.
    var areOfAnyKind = false
}

/// A dictionary whose keys are data rather than property names.
private protocol StringKeyed {}
extension Dictionary: StringKeyed where Key == String {}

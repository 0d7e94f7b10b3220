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
    let form: DocumentForm
    /// The last type that was decoded by its own `init(from:)`: the elements of an array look up the same type repeatedly.
    @exclusivity(unchecked) private var plainType: ObjectIdentifier?

    init(
        bytes: [UInt8], nodes: [JSONNode], settings: JSONValueDecoder, basePath: [any CodingKey] = [], form: DocumentForm = DocumentForm()
    ) {
        self.bytes = bytes
        self.nodes = nodes
        self.settings = settings
        self.basePath = basePath
        self.form = form
    }

    @inline(__always)
    func text<Result>(_ node: JSONNode, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try self.bytes.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[node.range])) }
    }

    // MARK: Values

    func isNull(at index: Int) -> Bool { self.nodes[index].kind == .null }

    func bool(at index: Int) throws -> Bool {
        if let value = self.nodes[index].bool { return value }
        throw self.mismatch(Bool.self, at: index)
    }

    func string(at index: Int) throws -> String {
        let node = self.nodes[index]
        let rejects = self.settings.rejectsLoneSurrogates
        if let value = self.bytes.withUnsafeBytes({ node.string(in: $0, rejectsLoneSurrogates: rejects) }) { return value }
        guard node.kind.isString else { throw self.mismatch(String.self, at: index) }
        throw self.corrupted("The string contains a lone surrogate.", at: index)
    }

    @inline(__always)
    func integer<Integer: FixedWidthInteger>(_ type: Integer.Type, at index: Int) throws -> Integer {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.integer(type, in: $0) }) { return value }
        throw self.numberError(type, at: index)
    }

    func double(at index: Int) throws -> Double {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.double(in: $0) }) { return value }
        throw self.numberError(Double.self, at: index)
    }

    func float(at index: Int) throws -> Float {
        let node = self.nodes[index]
        if let value = self.bytes.withUnsafeBytes({ node.float(in: $0) }) { return value }
        throw self.numberError(Float.self, at: index)
    }

    private func numberError(_ type: Any.Type, at index: Int) -> DecodingError {
        switch self.nodes[index].kind {
        case .integer, .number, .signed, .unsigned, .float, .single: self.unrepresentable(type, at: index)
        default: self.mismatch(type, at: index)
        }
    }

    func tree(at index: Int) throws -> JSONValue {
        if self.form.isMessagePack { return try self.messagePackTree(at: index) }
        return self.bytes.withUnsafeBytes { bytes in
            self.nodes.withUnsafeBufferPointer { JSONTape.value($0, index, bytes) }
        }
    }

    @inline(__always)
    func value<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
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
            if self.form.isMessagePack {
                if let value = try self.messagePackValue(type, at: index) { return value }
            } else {
                if let foundationType = FoundationType(type) { return try self.value(foundationType, type, at: index) }
                if let tree = try self.tree(at: index, as: type) { return tree }
            }
            self.plainType = identifier
        }
        if self.settings.keys != .useDefaultKeys, type is any StringKeyed.Type {
            return try Value(from: NodeDecoder(document: self, index: index, keepsKeys: true))
        }
        return try Value(from: decoder)
    }

    private func tree<Value>(at index: Int, as type: Value.Type) throws -> Value? {
        type == JSONValue.self ? try self.tree(at: index) as? Value : nil
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
                // The keys of MessagePack can contain nested values.
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

    private func pathKey(at index: Int) -> ValueKey {
        if let number = self.integerKey(at: index) { return ValueKey(number) }
        // The arrays, maps and bytes that are keys in MessagePack have no name.
        return ValueKey(self.key(at: index) ?? "key")
    }

    /// A member's name as it is in the document, or `nil` if it is a key of MessagePack that has no name.
    func rawKey(at index: Int) -> String? {
        let node = self.nodes[index]
        if !node.kind.isString { return self.nameOfKey(at: index) }
        return self.bytes.withUnsafeBytes { JSONTape.string(node, $0) }
    }

    /// A member's name, converted as the settings require.
    func key(at index: Int) -> String? {
        let key = self.rawKey(at: index)
        return self.settings.keys == .convertFromSnakeCase ? key.map(KeyNames.fromSnakeCase) : key
    }

    func context(_ message: String, at index: Int) -> DecodingError.Context {
        let node = self.nodes[index]
        let position =
            switch node.kind {
            case .signed, .unsigned, .float, .single: ""
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

/// What distinguishes a document in MessagePack from one in JSON.
struct DocumentForm {
    var isMessagePack = false
    /// Whether members are found by their names without case, unless one has the exact name.
    var ignoresCase = false
}

/// A dictionary whose keys are data rather than property names.
private protocol StringKeyed {}
extension Dictionary: StringKeyed where Key == String {}

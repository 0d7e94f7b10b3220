import RealtimeSystem

/// The decoder that is passed to a value's `init(from:)`: a document and the index of a node in it.
struct NodeDecoder: Decoder, SingleValueDecodingContainer {
    let document: CodingDocument
    let index: Int
    /// Whether the members' names are the keys of a dictionary, which are not converted.
    var keepsKeys = false
    /// Whether a map is read as an array that alternates keys and values, as dictionaries with keys of any type are.
    var readsPairs = false

    var codingPath: [any CodingKey] { self.document.path(to: self.index) }
    var userInfo: [CodingUserInfoKey: Any] { self.document.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(try NodeKeyedDecodingContainer<Key>(self.document, self.index, keepsKeys: self.keepsKeys))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try NodeUnkeyedDecodingContainer(self.document, self.index, readsPairs: self.readsPairs)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { self.document.isNull(at: self.index) }
    func decode(_ type: Bool.Type) throws -> Bool { try self.document.bool(at: self.index) }
    func decode(_ type: String.Type) throws -> String { try self.document.string(at: self.index) }
    func decode(_ type: Double.Type) throws -> Double { try self.document.double(at: self.index) }
    func decode(_ type: Float.Type) throws -> Float { try self.document.float(at: self.index) }
    func decode(_ type: Int.Type) throws -> Int { try self.document.integer(type, at: self.index) }
    func decode(_ type: Int8.Type) throws -> Int8 { try self.document.integer(type, at: self.index) }
    func decode(_ type: Int16.Type) throws -> Int16 { try self.document.integer(type, at: self.index) }
    func decode(_ type: Int32.Type) throws -> Int32 { try self.document.integer(type, at: self.index) }
    func decode(_ type: Int64.Type) throws -> Int64 { try self.document.integer(type, at: self.index) }
    func decode(_ type: UInt.Type) throws -> UInt { try self.document.integer(type, at: self.index) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try self.document.integer(type, at: self.index) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try self.document.integer(type, at: self.index) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try self.document.integer(type, at: self.index) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try self.document.integer(type, at: self.index) }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try self.document.value(type, at: self.index) }
}

/// The decoding container for the members of an object.
struct NodeKeyedDecodingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    private let document: CodingDocument
    private let index: Int
    /// The position in ``CodingDocument/names``, for large objects and converted names.
    ///
    /// Small objects are searched for each key, which is faster than building a table. If a name is repeated, both find the last value.
    private let names: Int?
    /// Whether names are compared without case.
    private let ignoresCase: Bool

    @inline(__always)
    init(_ document: CodingDocument, _ index: Int, keepsKeys: Bool) throws {
        let node = document.nodes[index]
        guard node.kind == .object else { throw document.mismatch([String: Any].self, at: index) }
        self.document = document
        self.index = index
        let convertsKeys = document.keyRules.convertsFromSnakeCase && !keepsKeys
        self.ignoresCase = document.keyRules.ignoresCase && !keepsKeys
        if node.length <= 16, !convertsKeys {
            self.names = nil
        } else {
            var indexes: [ByteString: Int] = [:]
            indexes.reserveCapacity(Int(node.length))
            // Exact names replace names that are equal without case.
            if self.ignoresCase { Self.index(document, index, &indexes) { document.rawKey(at: $0)?.lowercased() } }
            Self.index(document, index, &indexes) { convertsKeys ? document.key(at: $0) : document.rawKey(at: $0) }
            self.names = document.names.count
            document.names.append(indexes)
        }
    }

    /// The indexes of the values by name, if there is a table of them.
    private var indexes: [ByteString: Int]? { self.names.map { self.document.names[$0] } }

    private static func index(_ document: CodingDocument, _ index: Int, _ indexes: inout [ByteString: Int], _ name: (Int) -> String?) {
        let end = Int(document.nodes[index].end)
        var child = index + 1
        while child < end {
            let value = Int(document.nodes[child].end)
            if let name = name(child) { indexes[ByteString(name)] = value }
            child = Int(document.nodes[value].end)
        }
    }

    private func find(_ key: Key) -> Int? {
        if self.document.keyRules.areOfAnyKind { return self.findOfAnyKind(key) }
        var name = key.stringValue
        if let indexes = self.indexes { return indexes[ByteString(name)] }
        return name.withUTF8 { name in self.document.find(name, in: self.index) }
    }

    /// Finds a key by its name, or else by its number.
    private func findOfAnyKind(_ key: Key) -> Int? {
        self.find(named: key.stringValue) ?? key.intValue.flatMap { self.find(named: "\($0)") }
    }

    private func find(named name: String) -> Int? {
        var name = name
        if let indexes = self.indexes {
            if let index = indexes[ByteString(name)] { return index }
            return self.ignoresCase ? indexes[ByteString(name.lowercased())] : nil
        }
        return name.withUTF8 { utf8 in
            self.ignoresCase ? self.document.findIgnoringCase(utf8, in: self.index) : self.document.find(utf8, in: self.index)
        }
    }

    @inline(__always)
    private func index(of key: Key) throws -> Int {
        if let index = self.find(key) { return index }
        let context = self.document.context("The object has no member \"\(key.stringValue)\".", at: self.index)
        throw DecodingError.keyNotFound(key, context)
    }

    var codingPath: [any CodingKey] { self.document.path(to: self.index) }

    var allKeys: [Key] {
        if self.document.keyRules.areOfAnyKind { return self.allKeysOfAnyKind }
        if let indexes = self.indexes {
            return indexes.sorted { $0.value < $1.value }.compactMap { Key(stringValue: $0.key.string) }
        }
        var names: [ByteString] = []
        let node = self.document.nodes[self.index]
        var child = self.index + 1
        while child < Int(node.end) {
            let name = ByteString(self.document.rawKey(at: child) ?? "")
            if !names.contains(name) { names.append(name) }
            child = Int(self.document.nodes[child + 1].end)
        }
        return names.compactMap { Key(stringValue: $0.string) }
    }

    private var allKeysOfAnyKind: [Key] {
        var names: Set<ByteString> = []
        var keys: [Key] = []
        let node = self.document.nodes[self.index]
        var child = self.index + 1
        while child < Int(node.end) {
            if let name = self.document.rawKey(at: child), names.insert(ByteString(name)).inserted {
                let number = self.document.integerKey(at: child)
                if let key = number.flatMap({ Key(intValue: $0) }) ?? Key(stringValue: name) {
                    keys.append(key)
                } else if self.ignoresCase, let key = Key(stringValue: KeyNames.fromPascalCase(name)) {
                    keys.append(key)
                }
            }
            child = Int(self.document.nodes[Int(self.document.nodes[child].end)].end)
        }
        return keys
    }

    func contains(_ key: Key) -> Bool { self.find(key) != nil }
    func decodeNil(forKey key: Key) throws -> Bool { self.document.isNull(at: try self.index(of: key)) }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try self.document.bool(at: self.index(of: key)) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try self.document.string(at: self.index(of: key)) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try self.document.double(at: self.index(of: key)) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try self.document.float(at: self.index(of: key)) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try self.document.integer(type, at: self.index(of: key)) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try self.document.integer(type, at: self.index(of: key)) }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try self.document.value(type, at: self.index(of: key))
    }

    /// The index of a value that is neither missing nor `null`.
    ///
    /// The default implementations of `decodeIfPresent` would search the object three times.
    @inline(__always)
    private func present(_ key: Key) -> Int? {
        guard let index = self.find(key), !self.document.isNull(at: index) else { return nil }
        return index
    }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        try self.present(key).map { try self.document.bool(at: $0) }
    }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        try self.present(key).map { try self.document.string(at: $0) }
    }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        try self.present(key).map { try self.document.double(at: $0) }
    }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        try self.present(key).map { try self.document.float(at: $0) }
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
        try self.present(key).map { try self.document.integer(type, at: $0) }
    }
    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try self.present(key).map { try self.document.value(type, at: $0) }
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
        try NodeDecoder(document: self.document, index: self.index(of: key)).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try NodeUnkeyedDecodingContainer(self.document, self.index(of: key))
    }

    func superDecoder() throws -> any Decoder {
        self.decoder(at: self.find(named: "super"), ValueKey.super)
    }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        self.decoder(at: self.find(key), key)
    }

    /// Returns a decoder for a member, or for `null` if the object does not have it.
    private func decoder(at index: Int?, _ key: any CodingKey) -> any Decoder {
        if let index { return NodeDecoder(document: self.document, index: index) }
        let null = CodingNode(kind: .null, offset: self.document.nodes[self.index].offset, length: 0, end: 1)
        let document = self.document.makeDocument(bytes: [], nodes: [null], basePath: self.codingPath + [key])
        return NodeDecoder(document: document, index: 0)
    }
}

extension CodingDocument {
    /// The index of the value of the last member with this name, or `nil` if there is none.
    func find(_ name: UnsafeBufferPointer<UInt8>, in index: Int) -> Int? {
        self.nodes.withUnsafeBufferPointer { nodes in
            self.bytes.withUnsafeBytes { bytes in
                var found: Int?
                var child = index &+ 1
                let end = Int(nodes[index].end)
                // An object without arrays and objects has two nodes for each member, so that the next key need not be looked up.
                if end &- child == 2 &* Int(nodes[index].length) {
                    while child < end {
                        let key = nodes[child]
                        if key.kind == .string {
                            if Int(key.length) == name.count, Self.isEqual(bytes, key, name) { found = child &+ 1 }
                        } else if self.isEqual(child, name) {
                            found = child &+ 1
                        }
                        child &+= 2
                    }
                    return found
                }
                while child < end {
                    let key = nodes[child]
                    // A key can contain nested values.
                    let value = Int(key.end)
                    if key.kind == .string {
                        if Int(key.length) == name.count, Self.isEqual(bytes, key, name) { found = value }
                    } else if self.isEqual(child, name) {
                        found = value
                    }
                    child = Int(nodes[value].end)
                }
                return found
            }
        }
    }

    /// The index of the value of the last member with this name, or else of the last one whose name differs in case only.
    func findIgnoringCase(_ name: UnsafeBufferPointer<UInt8>, in index: Int) -> Int? {
        if let index = self.find(name, in: index) { return index }
        var found: Int?
        let end = Int(self.nodes[index].end)
        var child = index + 1
        while child < end {
            let key = self.nodes[child]
            let value = Int(key.end)
            if key.kind.isString, self.text(key, { Self.isEqualIgnoringCase($0, UnsafeRawBufferPointer(name)) }) { found = value }
            child = Int(self.nodes[value].end)
        }
        return found
    }

    private static func isEqualIgnoringCase(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        var isASCII = true
        if left.count == right.count {
            var isEqual = true
            for index in 0..<left.count {
                let (first, second) = (left[index], right[index])
                if first | second >= 0x80 { isASCII = false }
                if first == second { continue }
                let lower = first | 0x20
                if lower != second | 0x20 || !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains(lower) { isEqual = false }
            }
            if isEqual || isASCII { return isEqual }
        } else if !left.contains(where: { $0 >= 0x80 }) || !right.contains(where: { $0 >= 0x80 }) {
            // The lengths of a letter's cases differ only outside of ASCII.
            return false
        }
        return String(decoding: left, as: UTF8.self).lowercased().hasBytes(of: String(decoding: right, as: UTF8.self).lowercased())
    }

    /// Whether a key other than a string without escape sequences has this name.
    @inline(never)
    private func isEqual(_ key: Int, _ name: UnsafeBufferPointer<UInt8>) -> Bool {
        self.rawKey(at: key)?.utf8.elementsEqual(name) ?? false
    }

    @inline(__always)
    private static func isEqual(_ bytes: UnsafeRawBufferPointer, _ key: CodingNode, _ name: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let name = name.baseAddress, let base = bytes.baseAddress else { return true }
        return ByteWords.equal(base.assumingMemoryBound(to: UInt8.self) + Int(key.offset), name, Int(key.length))
    }
}

/// The decoding container for the elements of an array.
struct NodeUnkeyedDecodingContainer: UnkeyedDecodingContainer {
    private let document: CodingDocument
    private let index: Int
    private var next: Int
    private(set) var currentIndex = 0

    init(_ document: CodingDocument, _ index: Int, readsPairs: Bool = false) throws {
        let kind = document.nodes[index].kind
        guard kind == .array || (readsPairs && kind == .object) else { throw document.mismatch([Any].self, at: index) }
        self.document = document
        self.index = index
        self.next = index + 1
    }

    var codingPath: [any CodingKey] { self.document.path(to: self.index) }
    var count: Int? {
        let node = self.document.nodes[self.index]
        return node.kind == .object ? Int(node.length) * 2 : Int(node.length)
    }
    var isAtEnd: Bool { self.next >= Int(self.document.nodes[self.index].end) }

    /// Decodes the next element with `read`, and advances unless that throws.
    @inline(__always)
    private mutating func element<Value>(_ type: Value.Type, _ read: (CodingDocument, Int) throws -> Value) throws -> Value {
        guard !self.isAtEnd else {
            let path = self.codingPath + [ValueKey(index: self.currentIndex)]
            let context = DecodingError.Context(codingPath: path, debugDescription: "The array has no more elements.")
            throw DecodingError.valueNotFound(type, context)
        }
        let value = try read(self.document, self.next)
        self.next = Int(self.document.nodes[self.next].end)
        self.currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard !self.isAtEnd else { return try self.element(Any?.self) { _, _ in nil } == nil }
        guard self.document.isNull(at: self.next) else { return false }
        return try self.element(Bool.self) { _, _ in true }
    }

    mutating func decode(_ type: Bool.Type) throws -> Bool { try self.element(type) { try $0.bool(at: $1) } }
    mutating func decode(_ type: String.Type) throws -> String { try self.element(type) { try $0.string(at: $1) } }
    mutating func decode(_ type: Double.Type) throws -> Double { try self.element(type) { try $0.double(at: $1) } }
    mutating func decode(_ type: Float.Type) throws -> Float { try self.element(type) { try $0.float(at: $1) } }
    mutating func decode(_ type: Int.Type) throws -> Int { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try self.element(type) { try $0.integer(type, at: $1) } }
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try self.element(type) { try $0.value(type, at: $1) } }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
        try self.element(KeyedDecodingContainer<Nested>.self) { try NodeDecoder(document: $0, index: $1).container(keyedBy: type) }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try self.element((any UnkeyedDecodingContainer).self) { try NodeUnkeyedDecodingContainer($0, $1) }
    }

    mutating func superDecoder() throws -> any Decoder {
        try self.element((any Decoder).self) { NodeDecoder(document: $0, index: $1) }
    }
}

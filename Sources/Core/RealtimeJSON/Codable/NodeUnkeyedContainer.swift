/// The decoding container for the elements of an array.
struct NodeUnkeyedContainer: UnkeyedDecodingContainer {
    private let document: JSONDocument
    private let index: Int
    private var next: Int
    private(set) var currentIndex = 0

    init(_ document: JSONDocument, _ index: Int) throws {
        guard document.nodes[index].kind == .array else { throw document.mismatch([Any].self, at: index) }
        self.document = document
        self.index = index
        self.next = index + 1
    }

    var codingPath: [any CodingKey] { self.document.path(to: self.index) }
    var count: Int? { Int(self.document.nodes[self.index].length) }
    var isAtEnd: Bool { self.next >= Int(self.document.nodes[self.index].end) }

    /// Decodes the next element with `read`, and advances unless that throws.
    @inline(__always)
    private mutating func element<Value>(_ type: Value.Type, _ read: (JSONDocument, Int) throws -> Value) throws -> Value {
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
        try self.element((any UnkeyedDecodingContainer).self) { try NodeUnkeyedContainer($0, $1) }
    }

    mutating func superDecoder() throws -> any Decoder {
        try self.element((any Decoder).self) { NodeDecoder(document: $0, index: $1) }
    }
}

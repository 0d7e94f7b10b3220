/// The decoder that is passed to a value's `init(from:)`: a document and the index of a node in it.
struct NodeDecoder: Decoder, SingleValueDecodingContainer {
    let document: JSONDocument
    let index: Int
    /// Whether the members' names are the keys of a dictionary, which are not converted.
    var keepsKeys = false

    var codingPath: [any CodingKey] { self.document.path(to: self.index) }
    var userInfo: [CodingUserInfoKey: Any] { self.document.settings.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(try NodeKeyedContainer<Key>(self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try NodeUnkeyedContainer(self.document, self.index)
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

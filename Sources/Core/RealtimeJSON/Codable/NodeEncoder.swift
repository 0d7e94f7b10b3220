/// The encoder that is passed to a value's `encode(to:)`: a buffer and the frame of the value in it.
struct NodeEncoder: Encoder, SingleValueEncodingContainer {
    let buffer: EncodingBuffer
    let frame: Int
    let number: UInt32

    init(buffer: EncodingBuffer, frame: Int, number: UInt32) {
        self.buffer = buffer
        self.frame = frame
        self.number = number
    }

    var codingPath: [any CodingKey] { self.buffer.path(self.frame) }
    var userInfo: [CodingUserInfoKey: Any] { self.buffer.settings.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        self.buffer.open(.object, self.frame)
        return KeyedEncodingContainer(NodeKeyedEncodingContainer<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        self.buffer.open(.array, self.frame)
        return NodeUnkeyedEncodingContainer(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    /// Calls `body` to write the complete value.
    @inline(__always)
    private func single(_ body: () throws -> Void) throws {
        let mark = self.buffer.bytes.count
        try self.buffer.beginSingleValue(self.frame, self.number)
        do {
            try body()
        } catch {
            self.buffer.rollBackSingleValue(self.frame, mark)
            throw error
        }
    }

    func write(_ value: JSONValue) throws { try self.single { self.buffer.append(value) } }

    func encodeNil() throws { try self.single { self.buffer.append(literal: "null") } }
    func encode(_ value: Bool) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: String) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: Double) throws { try self.single { try self.buffer.append(value, nil) } }
    func encode(_ value: Float) throws { try self.single { try self.buffer.append(value, nil) } }
    func encode(_ value: Int) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: Int8) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: Int16) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: Int32) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: Int64) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: UInt) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: UInt8) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: UInt16) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: UInt32) throws { try self.single { self.buffer.append(value) } }
    func encode(_ value: UInt64) throws { try self.single { self.buffer.append(value) } }
    func encode<Value: Encodable>(_ value: Value) throws { try self.single { try self.buffer.append(value) } }
}

/// The encoding container for the elements of an array, which are written in the order of the calls.
struct NodeUnkeyedEncodingContainer: UnkeyedEncodingContainer {
    let encoder: NodeEncoder

    var codingPath: [any CodingKey] { self.encoder.codingPath }
    var count: Int { self.encoder.buffer.count(self.encoder.frame) }

    private var key: ValueKey { ValueKey(index: self.count) }

    @inline(__always)
    private func element(_ body: (EncodingBuffer) throws -> Void) throws {
        let buffer = self.encoder.buffer
        try buffer.appendEntry(in: self.encoder.frame, self.encoder.number, nil, key: self.key) { try body(buffer) }
    }

    func encodeNil() throws { try self.element { $0.append(literal: "null") } }
    func encode(_ value: Bool) throws { try self.element { $0.append(value) } }
    func encode(_ value: String) throws { try self.element { $0.append(value) } }
    func encode(_ value: Double) throws { try self.element { try $0.append(value, value.isFinite ? nil : self.key) } }
    func encode(_ value: Float) throws { try self.element { try $0.append(value, value.isFinite ? nil : self.key) } }
    func encode(_ value: Int) throws { try self.element { $0.append(value) } }
    func encode(_ value: Int8) throws { try self.element { $0.append(value) } }
    func encode(_ value: Int16) throws { try self.element { $0.append(value) } }
    func encode(_ value: Int32) throws { try self.element { $0.append(value) } }
    func encode(_ value: Int64) throws { try self.element { $0.append(value) } }
    func encode(_ value: UInt) throws { try self.element { $0.append(value) } }
    func encode(_ value: UInt8) throws { try self.element { $0.append(value) } }
    func encode(_ value: UInt16) throws { try self.element { $0.append(value) } }
    func encode(_ value: UInt32) throws { try self.element { $0.append(value) } }
    func encode(_ value: UInt64) throws { try self.element { $0.append(value) } }
    func encode<Value: Encodable>(_ value: Value) throws { try self.element { try $0.append(value, key: self.key) } }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        self.encoder.nested(.object, nil, self.key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self.encoder.nested(.array, nil, self.key).unkeyedContainer() }

    func superEncoder() -> any Encoder { self.encoder.nested(.value, nil, self.key) }
}

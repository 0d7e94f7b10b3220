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
    var userInfo: [CodingUserInfoKey: Any] { self.buffer.userInfo }

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
    func single(_ body: () throws -> Void) throws {
        let mark = self.buffer.bytes.count
        try self.buffer.beginSingleValue(self.frame, self.number)
        do {
            try body()
        } catch {
            self.buffer.rollBackSingleValue(self.frame, mark)
            throw error
        }
    }

    func encodeNil() throws { try self.single { self.buffer.appendNil() } }
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

/// The encoding container for the members of an object, which are written in the order of the calls. A key that is encoded twice is
/// written twice.
struct NodeKeyedEncodingContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: NodeEncoder

    private var buffer: EncodingBuffer { self.encoder.buffer }
    var codingPath: [any CodingKey] { self.encoder.codingPath }

    @inline(__always)
    private func member(_ key: Key, _ body: (EncodingBuffer) throws -> Void) throws {
        let buffer = self.encoder.buffer
        try buffer.appendEntry(in: self.encoder.frame, self.encoder.number, key.stringValue, key: key) { try body(buffer) }
    }

    func encodeNil(forKey key: Key) throws { try self.member(key) { $0.appendNil() } }
    func encode(_ value: Bool, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: String, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: Double, forKey key: Key) throws { try self.member(key) { try $0.append(value, key) } }
    func encode(_ value: Float, forKey key: Key) throws { try self.member(key) { try $0.append(value, key) } }
    func encode(_ value: Int, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: Int8, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: Int16, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: Int32, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: Int64, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: UInt, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: UInt8, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: UInt16, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: UInt32, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode(_ value: UInt64, forKey key: Key) throws { try self.member(key) { $0.append(value) } }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws { try self.member(key) { try $0.append(value, key: key) } }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        self.nested(.object, key.stringValue, key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        self.nested(.array, key.stringValue, key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { self.nested(.value, "super", ValueKey.super) }
    func superEncoder(forKey key: Key) -> any Encoder { self.nested(.value, key.stringValue, key) }

    private func nested(_ shape: EncodingBuffer.Shape, _ name: String, _ key: any CodingKey) -> NodeEncoder {
        self.encoder.nested(shape, name, key)
    }
}

extension NodeEncoder {
    /// Returns an encoder that can be written to at any time.
    ///
    /// The protocols do not let this call throw. If the container is not the innermost one, the encoder's output is discarded.
    func nested(_ shape: EncodingBuffer.Shape, _ name: String?, _ key: any CodingKey) -> NodeEncoder {
        let path = self.codingPath + [key]
        var inner: EncodingBuffer?
        try? self.buffer.appendEntry(in: self.frame, self.number, name, key: key) { inner = self.buffer.insert(shape, path: path) }
        if let inner { return inner.outermostEncoder }
        let discarded = self.buffer.makeBuffer(basePath: path)
        discarded.start(shape)
        return discarded.outermostEncoder
    }
}

extension EncodingBuffer {
    var outermostEncoder: NodeEncoder { NodeEncoder(buffer: self, frame: 0, number: self.frames.first?.number ?? 0) }
}

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

    func encodeNil() throws { try self.element { $0.appendNil() } }
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

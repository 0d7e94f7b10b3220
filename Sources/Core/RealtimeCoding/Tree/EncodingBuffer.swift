import RealtimeSystem

/// The output of an encoder: the bytes written so far, and a stack of the values that are not complete yet.
///
/// Only the innermost open value can be written to, which is the order in which values encode themselves one within another.
/// Containers from `nestedContainer` and `superEncoder` can be written to at any time: they have separate buffers, which are
/// inserted when encoding finishes.
///
/// Each format has a subclass, which writes the values.
class EncodingBuffer {
    enum Shape: UInt8 {
        /// A value whose shape isn't decided yet.
        case value
        case object, array
        /// A single value, already written.
        case done
    }

    /// The meaning of a value's keys.
    enum KeyForm: UInt8 {
        /// The names of properties, which the encoder's settings may convert.
        case properties
        /// The keys of a dictionary, which are not converted. A dictionary encodes keys that are neither strings nor integers as elements of
        /// an array, which alternate with their values.
        case dictionary
        /// The keys of a dictionary of integers.
        case integerDictionary
    }

    /// A value that is being encoded.
    struct Frame {
        var shape: Shape
        var keys: KeyForm
        /// Tells the frame from earlier frames at its position.
        var number: UInt32
        var count = 0
        /// The position of the value's first byte.
        var start = 0
        /// The value's key in the enclosing value, or `nil` if it replaces the enclosing value.
        var key: (any CodingKey)?
    }

    private final let basePath: [any CodingKey]
    // Run-time exclusivity checks would take a third of the encoding time. They are unnecessary because no mutation calls code from
    // outside this module.
    @exclusivity(unchecked) final var bytes: [UInt8] = []
    @exclusivity(unchecked) private(set) final var frames: [Frame] = []
    private final var inserts: [(offset: Int, buffer: EncodingBuffer)] = []
    /// Headers that need more than the byte at their position, in the order in which their values end.
    @exclusivity(unchecked) private final var headers: [Header] = []
    @exclusivity(unchecked) private final var lastNumber: UInt32 = 0

    init(basePath: [any CodingKey]) {
        self.basePath = basePath
    }

    // MARK: Formats

    var userInfo: [CodingUserInfoKey: Any] { preconditionFailure("A format overrides this property.") }

    /// Creates a buffer for the same format with the same settings.
    func makeBuffer(basePath: [any CodingKey]) -> EncodingBuffer { Self.abstract() }

    /// Appends the first byte of an array or object.
    func appendStart(of shape: Shape) { Self.abstract() }

    /// Appends the end of a value that encoded itself.
    func appendEnd(of value: Frame) { Self.abstract() }

    /// Appends the start of an array or object whose number of entries is known. Each entry begins with
    /// ``appendStart(ofEntry:isFirst:_:)``.
    func appendStart(of shape: Shape, count: Int) { Self.abstract() }

    /// Appends the end of an array or object that began with ``appendStart(of:count:)``.
    func appendEnd(ofCounted shape: Shape) { Self.abstract() }

    /// Appends the separator and the name of a member, or the separator of an element.
    func appendStart(ofEntry name: String?, isFirst: Bool, _ keys: KeyForm) { Self.abstract() }

    func appendNil() { Self.abstract() }
    func append(_ value: Bool) { Self.abstract() }
    func append(_ value: String) { Self.abstract() }
    func append(signed value: Int64) { Self.abstract() }
    func append(unsigned value: UInt64) { Self.abstract() }
    func append(_ value: Double, _ key: (any CodingKey)?) throws { Self.abstract() }
    func append(_ value: Float, _ key: (any CodingKey)?) throws { Self.abstract() }
    func append(_ values: [String]) { Self.abstract() }
    func append(_ values: [Int]) { Self.abstract() }

    /// Appends a value of a type that the format represents otherwise than the type's own `encode(to:)` does.
    ///
    /// - Returns: `nil` if the value was appended; otherwise, the meaning of the keys that it encodes.
    func appendSpecial<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws -> KeyForm? { Self.abstract() }

    /// Appends a header that was inserted with ``insert(_:)``.
    func append(_ header: Header, to output: inout [UInt8]) { Self.abstract() }

    private static func abstract() -> Never { preconditionFailure("A format overrides this method.") }

    /// The header of an array or object whose number of entries isn't known before its end.
    ///
    /// It starts as a single byte. Longer headers are inserted when encoding finishes, in one pass, so that the cost doesn't grow with the
    /// depth.
    struct Header {
        var offset: Int
        var isMap: Bool
        var count: Int
    }

    /// Replaces the byte at the offset of a header by the complete header when encoding finishes.
    final func insert(_ header: Header) { self.headers.append(header) }

    // MARK: Frames

    /// Encodes a value and appends it to `bytes`, which is left unchanged if encoding throws.
    final func encode<Value: Encodable>(_ value: Value, to bytes: inout [UInt8]) throws {
        let mark = bytes.count
        swap(&self.bytes, &bytes)
        defer { swap(&self.bytes, &bytes) }
        do {
            self.start(.value)
            try self.appendOutermost(value)
            self.finish()
        } catch {
            self.rollBack(to: mark, frames: 0)
            (self.inserts, self.headers) = ([], [])
            throw error
        }
    }

    /// Returns what the value's own `encode(to:)` writes. The buffer must be new.
    final func defaultEncoding<Value: Encodable>(of value: Value) throws -> [UInt8] {
        self.start(.value)
        try value.encode(to: self.outermostEncoder)
        self.finish()
        return self.bytes
    }

    /// Begins the outermost value.
    final func start(_ shape: Shape) {
        self.push(key: nil, .properties)
        if shape != .value { self.open(shape, 0) }
    }

    @inline(__always)
    private final func push(key: (any CodingKey)?, _ keys: KeyForm) {
        self.lastNumber &+= 1
        self.frames.append(Frame(shape: .value, keys: keys, number: self.lastNumber, key: key))
    }

    @inline(__always)
    private final func pop() { self.appendEnd(of: self.frames.removeLast()) }

    final func open(_ shape: Shape, _ frame: Int) {
        guard frame < self.frames.count else { return }
        if self.frames[frame].shape == shape { return }
        precondition(self.frames[frame].shape == .value, "A value must encode itself as an object, an array, or a single value.")
        self.frames[frame].shape = shape
        self.frames[frame].start = self.bytes.count
        self.appendStart(of: shape)
    }

    final func path(_ frame: Int) -> [any CodingKey] {
        self.basePath + self.frames.prefix(frame + 1).compactMap(\.key)
    }

    /// Completes all open values and inserts the output of nested containers.
    final func finish() {
        while !self.frames.isEmpty { self.pop() }
        if self.inserts.isEmpty, self.headers.isEmpty { return }
        var whole: [UInt8] = []
        whole.reserveCapacity(self.bytes.count + 4 * self.headers.count)
        var start = 0
        var inserts = self.inserts[...]
        func insert(upTo offset: Int) {
            while let insert = inserts.first, insert.offset <= offset {
                inserts.removeFirst()
                whole += self.bytes[start..<insert.offset]
                insert.buffer.finish()
                whole += insert.buffer.bytes
                start = insert.offset
            }
            whole += self.bytes[start..<offset]
            start = offset
        }
        for header in self.headers.sorted(by: { $0.offset < $1.offset }) {
            insert(upTo: header.offset)
            self.append(header, to: &whole)
            start += 1
        }
        insert(upTo: self.bytes.count)
        (self.bytes, self.inserts, self.headers) = (whole, [], [])
    }

    /// Whether the outermost value has not written anything.
    final var isUntouched: Bool { self.frames.count == 1 && self.frames[0].shape == .value }

    // MARK: Members and elements

    /// Appends a member or an element: writes the separator and the name, then calls `body` to write the value.
    ///
    /// If `body` throws, everything that was written is removed, so that the output is still valid if the caller catches the error.
    @inline(__always)
    final func appendEntry(
        in frame: Int, _ number: UInt32, _ name: String?, key: @autoclosure () -> any CodingKey, _ body: () throws -> Void
    ) throws {
        guard frame == self.frames.count - 1, self.frames[frame].number == number else {
            let context = EncodingError.Context(
                codingPath: self.path(frame), debugDescription: "The container is not the innermost one that is being encoded.")
            throw EncodingError.invalidValue(key().stringValue, context)
        }
        let mark = self.bytes.count
        self.appendStart(ofEntry: name, isFirst: self.frames[frame].count == 0, self.frames[frame].keys)
        do {
            try body()
            self.frames[frame].count &+= 1
        } catch {
            self.rollBack(to: mark, frames: frame + 1)
            throw error
        }
    }

    /// Removes the output after `mark`, and all but the first `count` frames.
    final func rollBack(to mark: Int, frames count: Int) {
        self.frames.removeLast(self.frames.count - count)
        self.inserts.removeAll { $0.offset > mark }
        while let header = self.headers.last, header.offset >= mark { self.headers.removeLast() }
        self.bytes.removeLast(self.bytes.count - mark)
    }

    /// Returns a buffer whose output will be inserted at the current position.
    final func insert(_ shape: Shape, path: [any CodingKey]) -> EncodingBuffer {
        let buffer = self.makeBuffer(basePath: path)
        buffer.start(shape)
        self.inserts.append((self.bytes.count, buffer))
        return buffer
    }

    final func count(_ frame: Int) -> Int { frame < self.frames.count ? self.frames[frame].count : 0 }

    /// Marks a value as written by a single-value container, before the value is written.
    @inline(__always)
    final func beginSingleValue(_ frame: Int, _ number: UInt32) throws {
        guard frame == self.frames.count - 1, self.frames[frame].number == number, self.frames[frame].shape == .value else {
            let message = "A value must encode itself as an object, an array, or a single value, before encode(to:) returns."
            throw EncodingError.invalidValue(message, EncodingError.Context(codingPath: self.path(frame), debugDescription: message))
        }
        self.frames[frame].shape = .done
    }

    /// Removes a single value that could not be encoded.
    final func rollBackSingleValue(_ frame: Int, _ mark: Int) {
        self.rollBack(to: mark, frames: frame + 1)
        self.frames[frame].shape = .value
    }

    // MARK: Values

    @inline(__always)
    final func append<Integer: FixedWidthInteger>(_ value: Integer) {
        if Integer.isSigned {
            self.append(signed: Int64(truncatingIfNeeded: value))
        } else {
            self.append(unsigned: UInt64(truncatingIfNeeded: value))
        }
    }

    final func invalid(_ value: Any, _ message: String, _ key: (any CodingKey)?) -> EncodingError {
        let path = self.path(self.frames.count) + (key.map { [$0] } ?? [])
        return .invalidValue(value, EncodingError.Context(codingPath: path, debugDescription: message))
    }

    @inline(__always)
    final func append<Value: Encodable>(_ value: Value, key: (any CodingKey)? = nil) throws {
        // Each cast copies a value to a variable of the same type.
        if Value.self == String.self { return self.append(unsafeBitCast(value, to: String.self)) }
        if Value.self == Int.self { return self.append(signed: Int64(unsafeBitCast(value, to: Int.self))) }
        if Value.self == Double.self { return try self.append(unsafeBitCast(value, to: Double.self), key) }
        if Value.self == [String].self { return self.append(unsafeBitCast(value, to: [String].self)) }
        if Value.self == [Int].self { return self.append(unsafeBitCast(value, to: [Int].self)) }
        try self.appendOther(value, key)
    }

    private final func appendOther<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        if let keys = try self.appendSpecial(value, key) { try self.appendDefault(value, key, keys) }
    }

    /// Appends what the value's own `encode(to:)` writes.
    final func appendDefault<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?, _ keys: KeyForm) throws {
        self.push(key: key, keys)
        try self.encodeIntoFrame(value)
        self.pop()
    }

    private final func encodeIntoFrame<Value: Encodable>(_ value: Value) throws {
        let frame = self.frames.count - 1
        try value.encode(to: NodeEncoder(buffer: self, frame: frame, number: self.frames[frame].number))
    }

    /// Appends the outermost value, which must encode something. Nested values that encode nothing become empty objects.
    private final func appendOutermost<Value: Encodable>(_ value: Value) throws {
        if let keys = try self.appendSpecial(value, nil) {
            self.frames[0].keys = keys
            try self.encodeIntoFrame(value)
        } else {
            self.frames[0].shape = .done
        }
        if self.isUntouched { throw self.invalid(value, "The value of type \(Value.self) did not encode anything.", nil) }
    }
}

/// A buffer that is not in use. Encoders reuse it for the next value: allocating one takes longer than encoding most messages.
struct SpareBuffer<Buffer: EncodingBuffer>: ~Copyable {
    /// `@unchecked Sendable` is safe because the only reference to the buffer is in the lock.
    private struct Storage: @unchecked Sendable {
        var buffer: Buffer?
    }

    private let storage = Lock(Storage())

    func take() -> Buffer? { self.storage.withLock { $0.buffer.take() } }

    /// Keeps a buffer, unless a value that kept its encoder can still write to it.
    func keep(_ buffer: inout Buffer) {
        guard isKnownUniquelyReferenced(&buffer) else { return }
        self.storage.withLock { $0.buffer = buffer }
    }
}

import RealtimeEncoding
import RealtimeSystem

/// The output of an encoder: the bytes written so far, and a stack of the values that are not complete yet.
///
/// Only the innermost open value can be written to, which is the order in which values encode themselves one within another.
/// Containers from `nestedContainer` and `superEncoder` can be written to at any time: they have buffers of their own, which are
/// inserted when encoding finishes.
final class EncodingBuffer {
    enum Shape: UInt8 {
        /// Not decided yet.
        case value
        case object, array
        /// A single value, already written.
        case done
    }

    /// A value that is being encoded.
    struct Frame {
        var shape: Shape
        var isEmpty = true
        /// Whether the members' names are the keys of a dictionary, which are not converted.
        var keepsKeys = false
        /// Identifies the frame among those that were at its position before.
        var number: UInt32
        var count = 0
        /// The value's key in the enclosing value, or `nil` if it replaces the enclosing value.
        var key: (any CodingKey)?
    }

    private(set) var settings: JSONValueEncoder
    private let basePath: [any CodingKey]
    // Run-time exclusivity checks would take a third of the encoding time. They are unnecessary because no mutation here calls code
    // from outside this type.
    @exclusivity(unchecked) private(set) var bytes: [UInt8] = []
    @exclusivity(unchecked) private(set) var frames: [Frame] = []
    private var inserts: [(offset: Int, buffer: EncodingBuffer)] = []
    @exclusivity(unchecked) private var lastNumber: UInt32 = 0

    init(settings: JSONValueEncoder, basePath: [any CodingKey] = []) {
        self.settings = settings
        self.basePath = basePath
    }

    // MARK: Reuse

    /// A buffer that is not in use. `@unchecked Sendable` is safe because the only reference to it is in the lock.
    private struct Spare: @unchecked Sendable {
        var buffer: EncodingBuffer?
    }

    private static let spare = Lock(Spare())

    /// Encodes a value and appends it to `bytes`, which is left unchanged if encoding throws.
    ///
    /// The buffer is reused for the next value: allocating one takes longer than encoding most messages.
    static func encode<Value: Encodable>(_ value: Value, _ settings: JSONValueEncoder, to bytes: inout [UInt8]) throws {
        var buffer = Self.spare.withLock { $0.buffer.take() } ?? EncodingBuffer(settings: settings)
        buffer.settings = settings
        let mark = bytes.count
        swap(&buffer.bytes, &bytes)
        defer {
            swap(&buffer.bytes, &bytes)
            // A value that kept its encoder can still write to the buffer, which then must not be reused.
            if isKnownUniquelyReferenced(&buffer) {
                if !settings.userInfo.isEmpty { buffer.settings.userInfo = [:] }
                Self.spare.withLock { $0.buffer = buffer }
            }
        }
        do {
            buffer.start(.value)
            try buffer.appendOutermost(value)
            buffer.finish()
        } catch {
            buffer.rollBack(to: mark, frames: 0)
            buffer.inserts = []
            throw error
        }
    }

    // MARK: Frames

    /// Begins the outermost value.
    func start(_ shape: Shape) {
        self.push(key: nil, keepsKeys: false)
        if shape != .value { self.open(shape, 0) }
    }

    @inline(__always)
    private func push(key: (any CodingKey)?, keepsKeys: Bool) {
        self.lastNumber &+= 1
        self.frames.append(Frame(shape: .value, keepsKeys: keepsKeys, number: self.lastNumber, key: key))
    }

    @inline(__always)
    private func pop() {
        let frame = self.frames.removeLast()
        self.close(frame.shape)
    }

    private func close(_ shape: Shape) {
        switch shape {
        case .value: self.append(literal: "{}")
        case .object: self.bytes.append(UInt8(ascii: "}"))
        case .array: self.bytes.append(UInt8(ascii: "]"))
        case .done: break
        }
    }

    func open(_ shape: Shape, _ frame: Int) {
        guard frame < self.frames.count else { return }
        if self.frames[frame].shape == shape { return }
        precondition(self.frames[frame].shape == .value, "A value must encode itself as an object, an array, or a single value.")
        self.frames[frame].shape = shape
        self.bytes.append(shape == .object ? UInt8(ascii: "{") : UInt8(ascii: "["))
    }

    func path(_ frame: Int) -> [any CodingKey] {
        self.basePath + self.frames.prefix(frame + 1).compactMap(\.key)
    }

    /// Completes all open values and inserts the output of nested containers.
    func finish() {
        while !self.frames.isEmpty { self.pop() }
        if self.inserts.isEmpty { return }
        var whole: [UInt8] = []
        var start = 0
        for insert in self.inserts {
            whole += self.bytes[start..<insert.offset]
            insert.buffer.finish()
            whole += insert.buffer.bytes
            start = insert.offset
        }
        whole += self.bytes[start...]
        (self.bytes, self.inserts) = (whole, [])
    }

    /// Whether the outermost value has not written anything.
    var isUntouched: Bool { self.frames.count == 1 && self.frames[0].shape == .value }

    // MARK: Members and elements

    /// Appends a member or an element: writes the separator and the name, then calls `body` to write the value.
    ///
    /// If `body` throws, everything that was written is removed, so that the output is still JSON if the caller catches the error.
    @inline(__always)
    func appendEntry(
        in frame: Int, _ number: UInt32, _ name: String?, key: @autoclosure () -> any CodingKey, _ body: () throws -> Void
    ) throws {
        guard frame == self.frames.count - 1, self.frames[frame].number == number else {
            let context = EncodingError.Context(
                codingPath: self.path(frame), debugDescription: "The container is not the innermost one that is being encoded.")
            throw EncodingError.invalidValue(key().stringValue, context)
        }
        let mark = self.bytes.count
        let wasEmpty = self.frames[frame].isEmpty
        if wasEmpty { self.frames[frame].isEmpty = false } else { self.bytes.append(UInt8(ascii: ",")) }
        if let name {
            if self.settings.keys == .convertToSnakeCase, !self.frames[frame].keepsKeys {
                JSONWriter.append(KeyNames.toSnakeCase(name), to: &self.bytes)
            } else {
                JSONWriter.append(name, to: &self.bytes)
            }
            self.bytes.append(UInt8(ascii: ":"))
        }
        do {
            try body()
            self.frames[frame].count &+= 1
        } catch {
            self.rollBack(to: mark, frames: frame + 1)
            self.frames[frame].isEmpty = wasEmpty
            throw error
        }
    }

    /// Removes the output after `mark`, and all but the first `count` frames.
    func rollBack(to mark: Int, frames count: Int) {
        self.frames.removeLast(self.frames.count - count)
        self.inserts.removeAll { $0.offset > mark }
        self.bytes.removeLast(self.bytes.count - mark)
    }

    /// Returns a buffer whose output will be inserted at the current position.
    func insert(_ shape: Shape, path: [any CodingKey]) -> EncodingBuffer {
        let buffer = EncodingBuffer(settings: self.settings, basePath: path)
        buffer.start(shape)
        self.inserts.append((self.bytes.count, buffer))
        return buffer
    }

    func count(_ frame: Int) -> Int { frame < self.frames.count ? self.frames[frame].count : 0 }

    /// Marks a value as written by a single-value container, before the value is written.
    @inline(__always)
    func beginSingleValue(_ frame: Int, _ number: UInt32) throws {
        guard frame == self.frames.count - 1, self.frames[frame].number == number, self.frames[frame].shape == .value else {
            let message = "A value must encode itself as an object, an array, or a single value, before encode(to:) returns."
            throw EncodingError.invalidValue(message, EncodingError.Context(codingPath: self.path(frame), debugDescription: message))
        }
        self.frames[frame].shape = .done
    }

    /// Removes a single value that could not be encoded.
    func rollBackSingleValue(_ frame: Int, _ mark: Int) {
        self.rollBack(to: mark, frames: frame + 1)
        self.frames[frame].shape = .value
    }

    func appendRaw(_ json: [UInt8]) {
        self.bytes.append(contentsOf: json)
    }

    // MARK: Values

    func append(literal: StaticString) {
        JSONWriter.append(literal: literal, to: &self.bytes)
    }

    /// Appends bytes as a Base64 string.
    func append(base64 bytes: [UInt8]) {
        self.bytes.append(UInt8(ascii: "\""))
        Base64.append(bytes, to: &self.bytes)
        self.bytes.append(UInt8(ascii: "\""))
    }

    @inline(__always)
    func append(_ value: Bool) {
        self.append(literal: value ? "true" : "false")
    }

    @inline(__always)
    func append(_ value: String) {
        JSONWriter.append(value, to: &self.bytes)
    }

    @inline(__always)
    func append<Integer: FixedWidthInteger>(_ value: Integer) {
        if Integer.isSigned {
            JSONWriter.append(Int64(truncatingIfNeeded: value), to: &self.bytes)
        } else {
            JSONWriter.append(UInt64(truncatingIfNeeded: value), to: &self.bytes)
        }
    }

    func append(_ value: Double, _ key: (any CodingKey)?) throws {
        guard value.isFinite else { throw self.notFinite(value, key) }
        JSONWriter.append(finite: value, to: &self.bytes)
    }

    func append(_ value: Float, _ key: (any CodingKey)?) throws {
        guard value.isFinite else { throw self.notFinite(value, key) }
        JSONWriter.append(number: value.description, to: &self.bytes)
    }

    func append(_ value: JSONValue) {
        value.write(to: &self.bytes)
    }

    func invalid(_ value: Any, _ message: String, _ key: (any CodingKey)?) -> EncodingError {
        let path = self.path(self.frames.count) + (key.map { [$0] } ?? [])
        return .invalidValue(value, EncodingError.Context(codingPath: path, debugDescription: message))
    }

    func notFinite(_ value: Any, _ key: (any CodingKey)?) -> EncodingError {
        self.invalid(value, "JSON cannot represent \(value).", key)
    }

    @inline(__always)
    func append<Value: Encodable>(_ value: Value, key: (any CodingKey)? = nil) throws {
        // Each cast copies a value to a variable of the same type.
        if Value.self == String.self { return self.append(unsafeBitCast(value, to: String.self)) }
        if Value.self == Int.self { return self.append(unsafeBitCast(value, to: Int.self)) }
        if Value.self == Double.self { return try self.append(unsafeBitCast(value, to: Double.self), key) }
        if Value.self == [String].self { return self.elements(unsafeBitCast(value, to: [String].self)) { self.append($0) } }
        if Value.self == [Int].self { return self.elements(unsafeBitCast(value, to: [Int].self)) { self.append($0) } }
        if Value.self == JSONValue.self { return self.append(unsafeBitCast(value, to: JSONValue.self)) }
        try self.appendOther(value, key)
    }

    @inline(__always)
    private func elements<Element>(_ elements: [Element], _ append: (Element) -> Void) {
        self.bytes.append(UInt8(ascii: "["))
        for index in elements.indices {
            if index > 0 { self.bytes.append(UInt8(ascii: ",")) }
            append(elements[index])
        }
        self.bytes.append(UInt8(ascii: "]"))
    }

    /// The type that was last found not to be a Foundation type: the elements of an array look up the same type repeatedly.
    @exclusivity(unchecked) private var plainType: ObjectIdentifier?

    @inline(__always)
    private func foundationType<Value>(_ type: Value.Type) -> FoundationType? {
        let identifier = ObjectIdentifier(type)
        if identifier == self.plainType { return nil }
        if let foundationType = FoundationType(type) { return foundationType }
        self.plainType = identifier
        return nil
    }

    private func appendOther<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        if let type = self.foundationType(Value.self) { return try self.append(type, value, key) }
        self.push(key: key, keepsKeys: self.settings.keys != .useDefaultKeys && value is any StringKeyedDictionary)
        try self.encodeIntoFrame(value)
        self.pop()
    }

    private func encodeIntoFrame<Value: Encodable>(_ value: Value) throws {
        let frame = self.frames.count - 1
        try value.encode(to: NodeEncoder(buffer: self, frame: frame, number: self.frames[frame].number))
    }

    /// Appends the outermost value, which must encode something. Nested values that encode nothing become empty objects.
    func appendOutermost<Value: Encodable>(_ value: Value) throws {
        if Value.self == JSONValue.self || self.foundationType(Value.self) != nil {
            try self.append(value)
            self.frames[0].shape = .done
        } else {
            try self.encodeIntoFrame(value)
        }
        if self.isUntouched { throw self.invalid(value, "The value of type \(Value.self) did not encode anything.", nil) }
    }
}

/// A dictionary whose keys are data rather than property names.
private protocol StringKeyedDictionary {}
extension Dictionary: StringKeyedDictionary where Key == String {}

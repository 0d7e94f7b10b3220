import RealtimeEncoding
import RealtimeSystem

/// The output of an encoder: the bytes written so far, and a stack of the values that are not complete yet.
///
/// Only the innermost open value can be written to, which is the order in which values encode themselves one within another.
/// Containers from `nestedContainer` and `superEncoder` can be written to at any time: they have buffers of their own, which are
/// inserted when encoding finishes.
///
/// The same containers write JSON and MessagePack. In MessagePack, an array or map begins with the number of its elements, which is
/// known when it ends. Its header therefore starts as a single byte, which is enough for 15 elements. Longer headers are inserted when
/// encoding finishes, in one pass, so that the cost doesn't grow with the depth.
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
        /// Whether the members' names are the keys of a dictionary of integers.
        var hasIntegerKeys = false
        /// Identifies the frame among those that were at its position before.
        var number: UInt32
        var count = 0
        /// The position of the header in MessagePack.
        var start = 0
        /// The value's key in the enclosing value, or `nil` if it replaces the enclosing value.
        var key: (any CodingKey)?
    }

    /// The form of the output.
    struct Form {
        var isMessagePack = false
        var usesPascalCase = false
    }

    private(set) var settings: JSONValueEncoder
    private(set) var form: Form
    private let basePath: [any CodingKey]
    // Run-time exclusivity checks would take a third of the encoding time. They are unnecessary because no mutation calls code from
    // outside this module.
    @exclusivity(unchecked) var bytes: [UInt8] = []
    @exclusivity(unchecked) private(set) var frames: [Frame] = []
    private var inserts: [(offset: Int, buffer: EncodingBuffer)] = []
    /// Headers of MessagePack that need more than the byte at their position, in the order in which their values end.
    @exclusivity(unchecked) private var headers: [(offset: Int, isMap: Bool, count: Int)] = []
    @exclusivity(unchecked) private var lastNumber: UInt32 = 0

    init(settings: JSONValueEncoder, form: Form = Form(), basePath: [any CodingKey] = []) {
        self.settings = settings
        self.form = form
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
    static func encode<Value: Encodable>(
        _ value: Value, _ settings: JSONValueEncoder, form: Form = Form(), to bytes: inout [UInt8]
    ) throws {
        if Self.appendScalar(value, isMessagePack: form.isMessagePack, to: &bytes) { return }
        var buffer = Self.spare.withLock { $0.buffer.take() } ?? EncodingBuffer(settings: settings)
        buffer.settings = settings
        buffer.form = form
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
            (buffer.inserts, buffer.headers) = ([], [])
            throw error
        }
    }

    /// Appends a value of a type that no setting affects.
    ///
    /// - Returns: Whether the value has such a type, and is valid.
    @inline(__always)
    private static func appendScalar<Value>(_ value: Value, isMessagePack: Bool, to bytes: inout [UInt8]) -> Bool {
        // Each cast copies a value to a variable of the same type.
        if Value.self == String.self {
            let value = unsafeBitCast(value, to: String.self)
            if isMessagePack { MessagePackWriter.append(value, to: &bytes) } else { JSONWriter.append(value, to: &bytes) }
        } else if Value.self == Int.self {
            let value = Int64(unsafeBitCast(value, to: Int.self))
            if isMessagePack { MessagePackWriter.append(value, to: &bytes) } else { JSONWriter.append(value, to: &bytes) }
        } else if Value.self == Double.self {
            let value = unsafeBitCast(value, to: Double.self)
            if isMessagePack {
                MessagePackWriter.append(value, to: &bytes)
            } else {
                guard value.isFinite else { return false }
                JSONWriter.append(finite: value, to: &bytes)
            }
        } else if Value.self == Bool.self {
            let value = unsafeBitCast(value, to: Bool.self)
            if isMessagePack {
                bytes.append(value ? 0xC3 : 0xC2)
            } else {
                JSONWriter.append(literal: value ? "true" : "false", to: &bytes)
            }
        } else {
            return false
        }
        return true
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
        if self.form.isMessagePack { self.closeMessagePack(frame) } else { self.close(frame.shape) }
    }

    private func closeMessagePack(_ frame: Frame) {
        switch frame.shape {
        case .done: return
        case .value: MessagePackWriter.append(mapHeader: 0, to: &self.bytes)
        case .object, .array:
            // A dictionary encodes keys that are neither strings nor integers as elements of an array.
            let hasPairs = frame.shape == .array && frame.keepsKeys
            let (isMap, count) = (hasPairs || frame.shape == .object, hasPairs ? frame.count / 2 : frame.count)
            if count <= 15 {
                self.bytes[frame.start] = (isMap ? 0x80 : 0x90) | UInt8(truncatingIfNeeded: count)
            } else {
                self.headers.append((frame.start, isMap, count))
            }
        }
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
        // The header of MessagePack is written when the value ends.
        if self.form.isMessagePack { self.frames[frame].start = self.bytes.count }
        self.bytes.append(shape == .object ? UInt8(ascii: "{") : UInt8(ascii: "["))
    }

    func path(_ frame: Int) -> [any CodingKey] {
        self.basePath + self.frames.prefix(frame + 1).compactMap(\.key)
    }

    /// Completes all open values and inserts the output of nested containers.
    func finish() {
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
            if header.isMap {
                MessagePackWriter.append(mapHeader: header.count, to: &whole)
            } else {
                MessagePackWriter.append(arrayHeader: header.count, to: &whole)
            }
            start += 1
        }
        insert(upTo: self.bytes.count)
        (self.bytes, self.inserts, self.headers) = (whole, [], [])
    }

    /// Whether the outermost value has not written anything.
    var isUntouched: Bool { self.frames.count == 1 && self.frames[0].shape == .value }

    // MARK: Members and elements

    /// Appends a member or an element: writes the separator and the name, then calls `body` to write the value.
    ///
    /// If `body` throws, everything that was written is removed, so that the output is still valid if the caller catches the error.
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
        if self.form.isMessagePack {
            if let name {
                let (isInteger, isKept) = (self.frames[frame].hasIntegerKeys, self.frames[frame].keepsKeys)
                self.appendMessagePackName(name, isInteger: isInteger, isKept: isKept)
            }
        } else {
            if wasEmpty { self.frames[frame].isEmpty = false } else { self.bytes.append(UInt8(ascii: ",")) }
            if let name {
                if self.settings.keys == .convertToSnakeCase, !self.frames[frame].keepsKeys {
                    JSONWriter.append(KeyNames.toSnakeCase(name), to: &self.bytes)
                } else {
                    JSONWriter.append(name, to: &self.bytes)
                }
                self.bytes.append(UInt8(ascii: ":"))
            }
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
        while let header = self.headers.last, header.offset >= mark { self.headers.removeLast() }
        self.bytes.removeLast(self.bytes.count - mark)
    }

    /// Returns a buffer whose output will be inserted at the current position.
    func insert(_ shape: Shape, path: [any CodingKey]) -> EncodingBuffer {
        let buffer = EncodingBuffer(settings: self.settings, form: self.form, basePath: path)
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

    @inline(__always)
    func appendNil() {
        if self.form.isMessagePack { return self.bytes.append(0xC0) }
        self.append(literal: "null")
    }

    /// Appends bytes as a Base64 string.
    func append(base64 bytes: [UInt8]) {
        self.bytes.append(UInt8(ascii: "\""))
        Base64.append(bytes, to: &self.bytes)
        self.bytes.append(UInt8(ascii: "\""))
    }

    @inline(__always)
    func append(_ value: Bool) {
        if self.form.isMessagePack { return self.bytes.append(value ? 0xC3 : 0xC2) }
        self.append(literal: value ? "true" : "false")
    }

    @inline(__always)
    func append(_ value: String) {
        if self.form.isMessagePack { return MessagePackWriter.append(value, to: &self.bytes) }
        JSONWriter.append(value, to: &self.bytes)
    }

    @inline(__always)
    func append<Integer: FixedWidthInteger>(_ value: Integer) {
        if self.form.isMessagePack {
            if Integer.isSigned {
                MessagePackWriter.append(Int64(truncatingIfNeeded: value), to: &self.bytes)
            } else {
                MessagePackWriter.append(UInt64(truncatingIfNeeded: value), to: &self.bytes)
            }
        } else if Integer.isSigned {
            JSONWriter.append(Int64(truncatingIfNeeded: value), to: &self.bytes)
        } else {
            JSONWriter.append(UInt64(truncatingIfNeeded: value), to: &self.bytes)
        }
    }

    func append(_ value: Double, _ key: (any CodingKey)?) throws {
        if self.form.isMessagePack { return MessagePackWriter.append(value, to: &self.bytes) }
        guard value.isFinite else { throw self.notFinite(value, key) }
        JSONWriter.append(finite: value, to: &self.bytes)
    }

    func append(_ value: Float, _ key: (any CodingKey)?) throws {
        if self.form.isMessagePack { return MessagePackWriter.append(value, to: &self.bytes) }
        guard value.isFinite else { throw self.notFinite(value, key) }
        JSONWriter.append(number: value.description, to: &self.bytes)
    }

    func append(_ value: JSONValue) {
        if self.form.isMessagePack { return value.writeMessagePack(to: &self.bytes) }
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
        if self.form.isMessagePack {
            MessagePackWriter.append(arrayHeader: elements.count, to: &self.bytes)
            for element in elements { append(element) }
            return
        }
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
        if self.form.isMessagePack { return try self.appendOtherMessagePack(value, key) }
        if let type = self.foundationType(Value.self) { return try self.append(type, value, key) }
        self.push(key: key, keepsKeys: self.settings.keys != .useDefaultKeys && value is any StringKeyedDictionary)
        try self.encodeIntoFrame(value)
        self.pop()
    }

    private func encodeIntoFrame<Value: Encodable>(_ value: Value) throws {
        let frame = self.frames.count - 1
        try value.encode(to: NodeEncoder(buffer: self, frame: frame, number: self.frames[frame].number))
    }

    private func appendOtherMessagePack<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        let type = self.messagePackType(Value.self)
        if try type.isSpecial && self.append(type, value, key) { return }
        try self.appendDefault(value, type, key)
    }

    /// Appends what the value's own `encode(to:)` writes.
    func appendDefault<Value: Encodable>(_ value: Value, _ type: MessagePackType, _ key: (any CodingKey)?) throws {
        self.push(key: key, keepsKeys: type.isDictionary)
        if type == .integerDictionary { self.frames[self.frames.count - 1].hasIntegerKeys = true }
        try self.encodeIntoFrame(value)
        self.pop()
    }

    @exclusivity(unchecked) private var lastMessagePackType: (identifier: ObjectIdentifier, type: MessagePackType)?

    @inline(__always)
    private func messagePackType<Value>(_ type: Value.Type) -> MessagePackType {
        let identifier = ObjectIdentifier(type)
        if let last = self.lastMessagePackType, last.identifier == identifier { return last.type }
        let found = MessagePackType(type)
        self.lastMessagePackType = (identifier, found)
        return found
    }

    /// Appends the outermost value, which must encode something. Nested values that encode nothing become empty objects.
    func appendOutermost<Value: Encodable>(_ value: Value) throws {
        if self.form.isMessagePack {
            let type = self.messagePackType(Value.self)
            if try type.isSpecial && self.append(type, value, nil) {
                self.frames[0].shape = .done
            } else {
                self.frames[0].keepsKeys = type.isDictionary
                self.frames[0].hasIntegerKeys = type == .integerDictionary
                try self.encodeIntoFrame(value)
            }
        } else if Value.self == JSONValue.self || self.foundationType(Value.self) != nil {
            try self.append(value)
            self.frames[0].shape = .done
        } else {
            self.frames[0].keepsKeys = self.settings.keys != .useDefaultKeys && value is any StringKeyedDictionary
            try self.encodeIntoFrame(value)
        }
        if self.isUntouched { throw self.invalid(value, "The value of type \(Value.self) did not encode anything.", nil) }
    }
}

/// A dictionary whose keys are data rather than property names.
private protocol StringKeyedDictionary {}
extension Dictionary: StringKeyedDictionary where Key == String {}

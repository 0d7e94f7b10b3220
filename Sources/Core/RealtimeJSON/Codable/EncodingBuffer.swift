import RealtimeSystem

/// JSON while it is encoded: bytes that grow at their end, and the values that are not finished yet.
///
/// Only the innermost value is written to, as it comes about when values encode themselves one within the other. What
/// `nestedContainer` and `superEncoder` hand out may be written to at any time, and gets a buffer of its own that is put in at the end.
final class EncodingBuffer {
    enum Shape: UInt8 {
        /// Not known yet.
        case value
        case object, array
        /// Written.
        case done
    }

    struct Frame {
        var shape: Shape
        var isEmpty = true
        /// The names of the members are a dictionary's keys and are not converted.
        var keepsKeys = false
        /// Tells it from others that were in its place before.
        var number: UInt32
        var count = 0
        /// Where it is in the one around it; `nil` if it takes that one's own place.
        var key: (any CodingKey)?
    }

    private(set) var settings: JSONValueEncoder
    private let basePath: [any CodingKey]
    // The checks at run time that nobody else is writing take a third of the time to encode. They are not needed: none of the
    // changes here calls foreign code.
    @exclusivity(unchecked) private(set) var bytes: [UInt8] = []
    @exclusivity(unchecked) private(set) var frames: [Frame] = []
    private var inserts: [(offset: Int, buffer: EncodingBuffer)] = []
    @exclusivity(unchecked) private var lastNumber: UInt32 = 0

    init(settings: JSONValueEncoder, basePath: [any CodingKey] = []) {
        self.settings = settings
        self.basePath = basePath
    }

    // MARK: Use again

    /// One that nobody uses at the moment. `@unchecked Sendable`: nobody but the lock's owner holds it.
    private struct Spare: @unchecked Sendable {
        var buffer: EncodingBuffer?
    }

    private static let spare = Lock(Spare())

    /// Encodes a value behind what is in `bytes`, which stays as it was when that throws. The buffer is used again for the next
    /// value: making one takes longer than encoding most messages.
    static func encode<Value: Encodable>(_ value: Value, _ settings: JSONValueEncoder, to bytes: inout [UInt8]) throws {
        var buffer = Self.spare.withLock { $0.buffer.take() } ?? EncodingBuffer(settings: settings)
        buffer.settings = settings
        let mark = bytes.count
        swap(&buffer.bytes, &bytes)
        defer {
            swap(&buffer.bytes, &bytes)
            // A value that kept its encoder may still write to it: then this one is lost to others.
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

    /// The outermost value.
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
        case .value: self.word("{}")
        case .object: self.bytes.append(UInt8(ascii: "}"))
        case .array: self.bytes.append(UInt8(ascii: "]"))
        case .done: break
        }
    }

    func open(_ shape: Shape, _ frame: Int) {
        guard frame < self.frames.count else { return }
        if self.frames[frame].shape == shape { return }
        precondition(self.frames[frame].shape == .value, "a value encodes itself either as members, as elements, or as one value")
        self.frames[frame].shape = shape
        self.bytes.append(shape == .object ? UInt8(ascii: "{") : UInt8(ascii: "["))
    }

    func path(_ frame: Int) -> [any CodingKey] {
        self.basePath + self.frames.prefix(frame + 1).compactMap(\.key)
    }

    /// Everything is encoded: puts the bytes of the nested containers in their places.
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

    /// Whether nothing was written to the outermost value.
    var isUntouched: Bool { self.frames.count == 1 && self.frames[0].shape == .value }

    // MARK: Places

    /// Writes what goes in front of the next element or member, lets `body` write it, and takes all of it back if that throws, so that
    /// a caller who catches the error still gets JSON.
    @inline(__always)
    func place(in frame: Int, _ number: UInt32, _ name: String?, key: @autoclosure () -> any CodingKey, _ body: () throws -> Void) throws {
        guard frame == self.frames.count - 1, self.frames[frame].number == number else {
            let context = EncodingError.Context(
                codingPath: self.path(frame), debugDescription: "A container was used while, or after, another value encoded itself.")
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

    func rollBack(to mark: Int, frames count: Int) {
        self.frames.removeLast(self.frames.count - count)
        self.inserts.removeAll { $0.offset > mark }
        self.bytes.removeLast(self.bytes.count - mark)
    }

    /// A buffer whose bytes will stand here.
    func insert(_ shape: Shape, path: [any CodingKey]) -> EncodingBuffer {
        let buffer = EncodingBuffer(settings: self.settings, basePath: path)
        buffer.start(shape)
        self.inserts.append((self.bytes.count, buffer))
        return buffer
    }

    func count(_ frame: Int) -> Int { frame < self.frames.count ? self.frames[frame].count : 0 }

    /// The value is about to be written as a whole.
    @inline(__always)
    func claim(_ frame: Int, _ number: UInt32) throws {
        guard frame == self.frames.count - 1, self.frames[frame].number == number, self.frames[frame].shape == .value else {
            let what = "A value encodes itself either as members, as elements, or as one value, and before its encode(to:) returns."
            throw EncodingError.invalidValue(what, EncodingError.Context(codingPath: self.path(frame), debugDescription: what))
        }
        self.frames[frame].shape = .done
    }

    func unclaim(_ frame: Int, _ mark: Int) {
        self.rollBack(to: mark, frames: frame + 1)
        self.frames[frame].shape = .value
    }

    func appendRaw(_ json: [UInt8]) {
        self.bytes.append(contentsOf: json)
    }

    // MARK: Values

    func word(_ text: StaticString) {
        JSONWriter.append(word: text, to: &self.bytes)
    }

    @inline(__always)
    func append(_ value: Bool) {
        self.word(value ? "true" : "false")
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
        guard value.isFinite else { throw self.invalid(value, "JSON holds no infinite number and no not-a-number.", key) }
        JSONWriter.append(finite: value, to: &self.bytes)
    }

    func append(_ value: Float, _ key: (any CodingKey)?) throws {
        guard value.isFinite else { throw self.invalid(value, "JSON holds no infinite number and no not-a-number.", key) }
        JSONWriter.append(number: value.description, to: &self.bytes)
    }

    func append(_ value: JSONValue) {
        value.write(to: &self.bytes)
    }

    func invalid(_ value: Any, _ what: String, _ key: (any CodingKey)?) -> EncodingError {
        let path = self.path(self.frames.count) + (key.map { [$0] } ?? [])
        return .invalidValue(value, EncodingError.Context(codingPath: path, debugDescription: what))
    }

    @inline(__always)
    func append<Value: Encodable>(_ value: Value, key: (any CodingKey)? = nil) throws {
        // Each of these is the very type, and copying its bits into itself.
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

    /// The last type that needed no treatment of its own, since the elements of an array ask again and again.
    @exclusivity(unchecked) private var plainType: ObjectIdentifier?

    @inline(__always)
    private func foreign<Value>(_ type: Value.Type) -> FoundationType? {
        let identifier = ObjectIdentifier(type)
        if identifier == self.plainType { return nil }
        if let foreign = FoundationType(type) { return foreign }
        self.plainType = identifier
        return nil
    }

    private func appendOther<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        if let foreign = self.foreign(Value.self) { return try self.append(foreign, value, key) }
        self.push(key: key, keepsKeys: self.settings.keys != .useDefaultKeys && value is any StringKeyedDictionary)
        try self.encodeIntoFrame(value)
        self.pop()
    }

    private func encodeIntoFrame<Value: Encodable>(_ value: Value) throws {
        let frame = self.frames.count - 1
        try value.encode(to: NodeEncoder(buffer: self, frame: frame, number: self.frames[frame].number))
    }

    /// The outermost value, whose type may write nothing at all only further inside.
    func appendOutermost<Value: Encodable>(_ value: Value) throws {
        if Value.self == JSONValue.self || self.foreign(Value.self) != nil {
            try self.append(value)
            self.frames[0].shape = .done
        } else {
            try self.encodeIntoFrame(value)
        }
        if self.isUntouched { throw self.invalid(value, "The value of type \(Value.self) encoded nothing.", nil) }
    }
}

/// Dictionaries whose keys are data and not names of properties.
private protocol StringKeyedDictionary {}
extension Dictionary: StringKeyedDictionary where Key == String {}

import RealtimeCoding

/// A value in a packet of a plugin: as the parser has received or encoded it, or as a tree if its bytes can't be cut from a packet.
///
/// Nothing is decoded before it is needed, and nothing that is ignored.
package struct PrimusPayload: Hashable, Sendable {
    enum Content: Hashable, Sendable {
        case bytes([UInt8])
        case value(PrimusValue)
    }

    let content: Content
    package let coding: PrimusCoding

    init(_ bytes: [UInt8], _ coding: PrimusCoding) {
        self.content = .bytes(bytes)
        self.coding = coding
    }

    /// Creates a payload from a tree.
    ///
    /// - Throws: The error of the parser for a value that it can't represent.
    package init(_ value: PrimusValue, _ coding: PrimusCoding) throws {
        self.content = coding.isTree ? .value(value) : .bytes(try coding.encode(value))
        self.coding = coding
    }

    /// Creates a payload from a value of the application, whose code is called.
    ///
    /// - Throws: `EncodingError`, the error of the parser, or an error thrown by the type's own `encode(to:)`.
    package init<Value: Encodable>(encoding value: Value, _ coding: PrimusCoding) throws {
        if coding.isTree {
            self.content = .value(try PrimusValue(encoding: value))
        } else {
            var bytes: [UInt8] = []
            try coding.append(value, to: &bytes)
            self.content = .bytes(bytes)
        }
        self.coding = coding
    }

    static func null(_ coding: PrimusCoding) -> Self {
        switch coding.form {
        case .json: Self(Array("null".utf8), coding)
        case .messagePack: Self([0xC0], coding)
        case .tree: Self(tree: .null, coding)
        }
    }

    /// The number of bytes; 0 for a tree.
    package var size: Int { if case .bytes(let bytes) = self.content { bytes.count } else { 0 } }

    /// Decodes the value.
    ///
    /// - Throws: `DecodingError`, the error of the parser, or an error thrown by the type's own `init(from:)`.
    package func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        switch self.content {
        case .bytes(let bytes): try self.coding.decode(type, from: bytes)
        case .value(let value): try value.decode(as: type)
        }
    }

    /// The value as a tree.
    ///
    /// - Throws: The error of the parser, for example for a value that is nested too deeply.
    package func value() throws -> PrimusValue {
        switch self.content {
        case .bytes(let bytes): try self.coding.value(bytes)
        case .value(let value): value
        }
    }
}

/// The arguments of an event or of an acknowledgement.
package struct PrimusArguments: Hashable, Sendable {
    /// An array, which begins with the name of the event if it belongs to one.
    package let array: PrimusPayload
    /// The number of elements before the arguments.
    let start: Int

    /// The arguments of an acknowledgement.
    init(_ array: PrimusPayload) {
        self.array = array
        self.start = 0
    }

    private init(_ array: PrimusPayload, start: Int) {
        self.array = array
        self.start = start
    }

    /// Creates arguments from values of the application, whose code is called.
    ///
    /// - Parameters:
    ///   - name: The name of the event; `nil` for an acknowledgement.
    ///   - values: The arguments.
    /// - Throws: `EncodingError`, the error of the parser, or an error thrown by a type's own `encode(to:)`.
    package init<each Value: Encodable>(_ name: String?, _ values: repeat each Value, in coding: PrimusCoding) throws {
        var builder = ArrayBuilder(coding, count: Self.count(repeat (each Value).self) + (name == nil ? 0 : 1))
        if let name { try builder.append(name) }
        for value in repeat each values { try builder.append(value) }
        self.init(builder.end(), start: name == nil ? 0 : 1)
    }

    /// Creates arguments from trees.
    ///
    /// - Parameters:
    ///   - name: The name of the event; `nil` for an acknowledgement.
    ///   - values: The arguments.
    /// - Throws: The error of the parser for a value that it can't represent.
    package init(_ name: String?, values: [PrimusValue], in coding: PrimusCoding) throws {
        self.init(
            try PrimusPayload(.array((name.map { [.string($0)] } ?? []) + values), coding), start: name == nil ? 0 : 1)
    }

    private static func count<each Value>(_ types: repeat (each Value).Type) -> Int {
        var count = 0
        for _ in repeat each types { count += 1 }
        return count
    }

    /// Returns the name and the arguments of an event from its array.
    static func event(_ array: PrimusPayload, plugin: String) throws(PrimusPluginError) -> (String, PrimusArguments) {
        var reader = PrimusArgumentReader(array)
        guard let name = try? reader.next(String.self) else {
            throw .invalidPacket(plugin: plugin, problem: "the array of an event must begin with its name")
        }
        return (name, PrimusArguments(array, start: 1))
    }

    /// Reads the arguments in order.
    package var reader: PrimusArgumentReader {
        var reader = PrimusArgumentReader(self.array)
        if self.start == 1 { reader.skipName() }
        return reader
    }

    /// Decodes arguments. There may be more of them than types, and fewer if the types of the last ones are optional.
    ///
    /// - Parameter types: The types of the arguments.
    /// - Throws: ``PrimusArgumentError`` if an argument is missing or has another type.
    package func decode<each Value: Decodable>(
        _ types: repeat (each Value).Type
    ) throws(PrimusArgumentError) -> (repeat each Value) {
        var reader = self.reader
        return (repeat try reader.argument((each Value).self))
    }

    /// The arguments as trees.
    ///
    /// - Throws: The error of the parser, for example for a value that is nested too deeply.
    package func values() throws -> [PrimusValue] {
        guard case .array(let values) = try self.array.value() else { return [] }
        return Array(values.dropFirst(self.start))
    }

    /// The number of bytes; 0 for trees.
    package var size: Int { self.array.size }

    package var coding: PrimusCoding { self.array.coding }
}

/// Encodes an array from one value at a time.
private struct ArrayBuilder {
    private let coding: PrimusCoding
    private var bytes: [UInt8] = []
    private var values: [PrimusValue] = []

    init(_ coding: PrimusCoding, count: Int) {
        self.coding = coding
        guard !coding.isTree else { return }
        self.bytes.reserveCapacity(128)
        coding.appendArrayStart(count: count, to: &self.bytes)
        self.remaining = count
    }

    private var remaining = 0

    mutating func append<Value: Encodable>(_ value: Value) throws {
        if self.coding.isTree { return self.values.append(try PrimusValue(encoding: value)) }
        try self.coding.append(value, to: &self.bytes)
        self.remaining -= 1
        if self.remaining > 0 { self.coding.appendSeparator(to: &self.bytes) }
    }

    /// The array, after its last value.
    mutating func end() -> PrimusPayload {
        if self.coding.isTree { return PrimusPayload(tree: .array(self.values), self.coding) }
        self.coding.appendArrayEnd(to: &self.bytes)
        return PrimusPayload(self.bytes, self.coding)
    }
}

extension PrimusPayload {
    init(tree value: PrimusValue, _ coding: PrimusCoding) {
        self.content = .value(value)
        self.coding = coding
    }
}

/// Reads arguments in order, each as its own type.
///
/// The type isn't `Sendable`, because decoders aren't.
package struct PrimusArgumentReader {
    private enum Elements {
        case reader(ArrayReader)
        case values([PrimusValue])
    }

    private var elements: Elements?
    private var failure: (any Error)?
    private var index = 0
    private var start = 0

    init(_ array: PrimusPayload) {
        do {
            switch array.content {
            case .bytes(let bytes):
                if let reader = array.coding.reader(bytes) {
                    self.elements = .reader(reader)
                } else if case .array(let values) = try array.value() {
                    self.elements = .values(values)
                }
            case .value(.array(let values)): self.elements = .values(values)
            case .value: self.elements = .values([])
            }
        } catch {
            self.failure = error
        }
    }

    fileprivate mutating func skipName() {
        _ = try? self.next(String.self)
        self.start = 1
    }

    /// Decodes the next element.
    fileprivate mutating func next<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if let failure = self.failure { throw failure }
        switch self.elements.take() {
        case .reader(var reader):
            defer {
                self.elements = .reader(reader)
                self.index += 1
            }
            return try reader.next(type)
        case .values(let values):
            self.elements = .values(values)
            guard self.index < values.count else { throw ArrayReader.End() }
            defer { self.index += 1 }
            return try values[self.index].decode(as: type)
        case nil: throw ArrayReader.End()
        }
    }

    /// Decodes the next argument. A missing one is `nil` of an optional type, as it is `undefined` in JavaScript.
    ///
    /// - Throws: ``PrimusArgumentError`` if it is missing or has another type.
    package mutating func argument<Value: Decodable>(_ type: Value.Type = Value.self) throws(PrimusArgumentError) -> Value {
        let index = self.index - self.start
        do {
            return try self.next(type)
        } catch is ArrayReader.End {
            if type is any ExpressibleByNilLiteral.Type, let none = try? PrimusValue.null.decode(as: type) { return none }
            throw PrimusArgumentError("Argument \(index + 1) of type \(type) is missing", index: index, nil)
        } catch {
            throw PrimusArgumentError("Argument \(index + 1) can't be decoded as \(type)", index: index, error)
        }
    }
}

/// The reason why arguments can't be decoded. It contains no values.
package struct PrimusArgumentError: Error, CustomStringConvertible {
    /// A description with the position of the argument and its type.
    package let description: String
    /// The position of the argument, starting at 0.
    package let index: Int
    /// The error of the decoder; `nil` if the argument is missing.
    package let underlying: (any Error)?

    init(_ problem: String, index: Int, _ underlying: (any Error)?) {
        let reason = underlying.map { PrimusCoding.reason($0) }
        self.description = reason.map { "\(problem): \($0)." } ?? "\(problem)."
        self.index = index
        self.underlying = underlying
    }
}

extension PrimusArguments {
    /// The arguments of an acknowledgement that was received.
    package init(acknowledgement array: PrimusPayload) { self.init(array) }
}

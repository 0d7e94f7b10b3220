/// Reads the elements of an array in JSON or MessagePack in order, each as its own type.
///
/// Strings, numbers and Boolean values are converted where they are. The array is parsed as a document only when an element has another
/// type, or doesn't match its type.
///
/// The type isn't `Sendable`, because decoders aren't.
package struct ArrayReader {
    private enum Format {
        case json(JSONValueDecoder)
        case messagePack(MessagePackDecoder)
    }

    private let bytes: [UInt8]
    private let format: Format
    private let isMessagePack: Bool
    /// Whether strings that would be repaired are errors, which only the document reports.
    private let rejectsRepairs: Bool
    /// The number of elements that were read.
    private var index = 0
    /// The number of elements that can be converted where they are. Only in MessagePack, it is known at the start.
    private var scalarLimit = 0
    /// The end of the last element that was read.
    private var position = 0
    /// The parsed array, if it was needed.
    private var elements: ArrayElements?

    /// Creates a reader of an array in JSON.
    ///
    /// - Parameters:
    ///   - bytes: The text of the array, in valid UTF-8.
    ///   - decoder: The settings for the elements.
    package init(utf8 bytes: [UInt8], _ decoder: JSONValueDecoder) {
        self.bytes = bytes
        self.format = .json(decoder)
        self.isMessagePack = false
        self.rejectsRepairs = decoder.rejectsLoneSurrogates
        if decoder.limits.allowArray(ofSize: bytes.count) { self.scalarLimit = .max }
    }

    /// Creates a reader of an array in MessagePack.
    ///
    /// - Parameters:
    ///   - bytes: The array.
    ///   - decoder: The settings for the elements.
    package init(messagePack bytes: [UInt8], _ decoder: MessagePackDecoder) {
        self.bytes = bytes
        self.format = .messagePack(decoder)
        self.isMessagePack = true
        self.rejectsRepairs = decoder.rejectsInvalidUTF8
        guard decoder.limits.allowArray(ofSize: bytes.count) else { return }
        (self.scalarLimit, self.position) = bytes.withUnsafeBytes { bytes in
            var reader = MessagePackReader(bytes)
            guard let count = try? reader.arrayHeader() else { return (0, 0) }
            return (count, reader.position)
        }
    }

    /// Parses the whole array, unless it was parsed before.
    ///
    /// - Throws: ``JSONError`` or ``MessagePackError`` if the bytes are invalid or exceed the limits, or `DecodingError` if they aren't an
    ///   array.
    package mutating func parse() throws -> ArrayElements {
        if let elements = self.elements { return elements }
        let elements =
            switch self.format {
            case .json(let decoder): try ArrayElements(decoder.document(self.bytes, isUTF8: true))
            case .messagePack(let decoder): try ArrayElements(decoder.document(self.bytes))
            }
        self.elements = elements
        self.scalarLimit = 0
        return elements
    }

    /// Thrown instead of an element after the last one.
    package struct End: Error {
        package init() {}
    }

    /// Decodes the next element.
    ///
    /// - Throws: ``End`` if there are no more elements; the errors of ``parse()``; `DecodingError`, or an error thrown by the type's own
    ///   `init(from:)`.
    package mutating func next<Value: Decodable>(_ type: Value.Type) throws -> Value {
        // Each cast copies a value to a variable of the same type. An optional of the generic type would cost more than the conversion,
        // because its metadata would be looked up at run time.
        if type == String.self {
            if let value = self.read({ Self.string($0, $1, rejectsRepairs: $2) }) { return unsafeBitCast(value, to: Value.self) }
        } else if type == Int.self {
            if let value = self.read({ node, bytes, _ in node.integer(Int.self, in: bytes) }) {
                return unsafeBitCast(value, to: Value.self)
            }
        } else if type == Double.self {
            if let value = self.read({ node, bytes, _ in node.double(in: bytes) }) { return unsafeBitCast(value, to: Value.self) }
        } else if type == Bool.self {
            if let value = self.read({ node, _, _ in node.bool }) { return unsafeBitCast(value, to: Value.self) }
        }
        let elements = try self.parse()
        guard self.index < elements.count else { throw End() }
        defer { self.index += 1 }
        return try elements.decode(type, at: self.index)
    }

    @inline(__always)
    private static func string(_ node: CodingNode, _ bytes: UnsafeRawBufferPointer, rejectsRepairs: Bool) -> String? {
        guard node.kind == .escapedString else { return node.string(in: bytes) }
        let raw = UnsafeRawBufferPointer(rebasing: bytes[node.range])
        return rejectsRepairs && JSONText.loneSurrogate(raw) != nil ? nil : JSONText.string(raw, isEscaped: true)
    }

    /// Reads the next element, unless it must be decoded from the parsed array: because `body` can't convert it, or because the array was
    /// parsed.
    @inline(__always)
    private mutating func read<Value>(_ body: (CodingNode, UnsafeRawBufferPointer, _ rejectsRepairs: Bool) -> Value?) -> Value? {
        guard self.index < self.scalarLimit else { return nil }
        // The closure would copy `self`.
        let (position, isFirst, isMessagePack, rejectsRepairs) = (self.position, self.index == 0, self.isMessagePack, self.rejectsRepairs)
        let (value, end) = self.bytes.withUnsafeBytes { bytes -> (Value?, Int) in
            let scalar =
                isMessagePack
                ? MessagePackReader.arrayScalar(bytes, at: position, rejectsInvalidUTF8: rejectsRepairs)
                : JSONScanner.arrayScalar(bytes, at: position, isFirst: isFirst)
            guard let (node, end) = scalar else { return (nil, 0) }
            return (body(node, bytes, rejectsRepairs), end)
        }
        guard let value else { return nil }
        self.position = end
        self.index += 1
        return value
    }
}

extension CodingLimits {
    /// Whether an array of scalars is within the limits.
    fileprivate func allowArray(ofSize size: Int) -> Bool { self.depth > 0 && size <= self.size }
}

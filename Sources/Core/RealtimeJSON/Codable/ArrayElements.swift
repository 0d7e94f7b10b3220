/// An array in JSON or MessagePack that is parsed once, and whose elements are decoded one at a time, each as its own type.
///
/// Not `Sendable`, as decoders aren't.
package struct ArrayElements {
    private let document: JSONDocument
    /// The index of each element's node.
    private let nodes: [Int]

    /// Parses an array in JSON.
    ///
    /// - Parameters:
    ///   - bytes: The text of the array, in valid UTF-8.
    ///   - decoder: The settings for the elements.
    /// - Throws: ``JSONError`` if the text isn't JSON or exceeds the limits, or `DecodingError` if it isn't an array.
    package init(utf8 bytes: [UInt8], _ decoder: JSONValueDecoder) throws {
        try self.init(try decoder.document(bytes, isUTF8: true))
    }

    /// Parses an array in MessagePack.
    ///
    /// - Parameters:
    ///   - bytes: The array.
    ///   - decoder: The settings for the elements.
    /// - Throws: ``MessagePackError`` if the bytes aren't MessagePack or exceed the limits, or `DecodingError` if they aren't an array.
    package init(messagePack bytes: [UInt8], _ decoder: MessagePackDecoder) throws {
        try self.init(try decoder.document(bytes))
    }

    private init(_ document: JSONDocument) throws {
        guard document.nodes[0].kind == .array else { throw document.mismatch([Any].self, at: 0) }
        var nodes: [Int] = []
        nodes.reserveCapacity(Int(document.nodes[0].length))
        var child = 1
        while child < document.nodes.count {
            nodes.append(child)
            child = Int(document.nodes[child].end)
        }
        self.document = document
        self.nodes = nodes
    }

    package var count: Int { self.nodes.count }

    /// Decodes an element.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - index: The position of the element, which must be less than ``count``.
    /// - Throws: `DecodingError`, or an error thrown by the type's own `init(from:)`.
    package func decode<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        try self.document.value(type, at: self.nodes[index])
    }
}

extension JSONText {
    /// Returns the texts of an array's elements.
    ///
    /// - Parameter bytes: The text of an array, in valid UTF-8.
    /// - Throws: ``JSONError`` if the text isn't an array or exceeds the limits.
    package static func elements(
        ofArray bytes: UnsafeRawBufferPointer, limits: JSONLimits = JSONLimits()
    ) throws(JSONError) -> [Range<Int>] {
        var scanner = try JSONScanner(bytes, isUTF8: true, limits: limits)
        var sink = JSONNullSink()
        guard try scanner.next() == UInt8(ascii: "[") else { throw scanner.unexpected() }
        scanner.advance()
        var elements: [Range<Int>] = []
        if try scanner.next() == UInt8(ascii: "]") {
            scanner.advance()
            try scanner.finish()
            return elements
        }
        while true {
            _ = try scanner.next()
            let start = scanner.position
            try scanner.value(into: &sink, depth: 1)
            elements.append(start..<scanner.position)
            let byte = try scanner.next()
            guard byte == UInt8(ascii: ",") || byte == UInt8(ascii: "]") else { throw scanner.unexpected() }
            scanner.advance()
            if byte == UInt8(ascii: "]") { break }
        }
        try scanner.finish()
        return elements
    }
}

/// An array that is parsed once, and whose elements are decoded one at a time, each as its own type.
///
/// The type isn't `Sendable`, because decoders aren't.
package struct ArrayElements {
    private let document: CodingDocument
    /// The index of each element's node.
    private let nodes: [Int]

    /// Creates the elements of a document.
    ///
    /// - Throws: `DecodingError` if the document isn't an array.
    init(_ document: CodingDocument) throws {
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

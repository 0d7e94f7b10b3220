/// A value or a key in a tape.
struct JSONNode {
    /// The start of the text; for a string, the position after the opening quote.
    var offset: UInt32
    /// The number of bytes, elements or members. For a number without text, `offset` and `length` contain its 64 bits.
    var length: UInt32
    /// The index of the node after this value and its nested values.
    var end: UInt32
    var kind: JSONKind

    var range: Range<Int> { Int(self.offset)..<Int(self.offset) + Int(self.length) }

    var bits: UInt64 { UInt64(self.length) << 32 | UInt64(self.offset) }

    init(kind: JSONKind, offset: UInt32, length: UInt32, end: UInt32) {
        self.offset = offset
        self.length = length
        self.end = end
        self.kind = kind
    }

    /// Creates a number without text.
    init(kind: JSONKind, bits: UInt64, end: UInt32) {
        self.init(kind: kind, offset: UInt32(truncatingIfNeeded: bits), length: UInt32(truncatingIfNeeded: bits >> 32), end: end)
    }
}

/// A document as a flat list of its values in order, created in one pass and one allocation.
///
/// The decoder and ``JSONValue`` read the tape. A value that is not read costs a node of sixteen bytes and no conversion. Nodes can
/// also contain numbers themselves, so that MessagePack uses the same decoder.
struct JSONTape {
    var nodes: [JSONNode]

    init(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: JSONLimits) throws(JSONError) {
        var scanner = try JSONScanner(bytes, isUTF8: isUTF8, limits: limits)
        var sink = Sink()
        sink.nodes.reserveCapacity(bytes.count / 8 + 4)
        try Self.walk(&scanner, &sink)
        self.nodes = sink.nodes
    }

    @inline(never)
    private static func walk(_ scanner: inout JSONScanner, _ sink: inout Sink) throws(JSONError) {
        try scanner.value(into: &sink)
        try scanner.finish()
    }

    private struct Sink: JSONSink {
        var nodes: [JSONNode] = []
        /// The innermost open array or object. Until it is closed, its `end` contains the index of the enclosing one.
        var parent = UInt32.max

        @inline(__always)
        mutating func append(_ kind: JSONKind, _ offset: Int, _ length: Int, end: UInt32) {
            self.nodes.append(
                JSONNode(kind: kind, offset: UInt32(truncatingIfNeeded: offset), length: UInt32(truncatingIfNeeded: length), end: end))
        }

        @inline(__always)
        mutating func count() {
            if self.parent != .max { self.nodes[Int(self.parent)].length &+= 1 }
        }

        @inline(__always)
        mutating func scalar(_ kind: JSONKind, _ offset: Int, _ length: Int) {
            self.count()
            self.append(kind, offset, length, end: UInt32(truncatingIfNeeded: self.nodes.count &+ 1))
        }

        @inline(__always)
        mutating func key(_ kind: JSONKind, _ offset: Int, _ length: Int) {
            self.append(kind, offset, length, end: UInt32(truncatingIfNeeded: self.nodes.count &+ 1))
        }

        @inline(__always)
        mutating func open(_ kind: JSONKind, _ offset: Int) {
            self.count()
            self.append(kind, offset, 0, end: self.parent)
            self.parent = UInt32(truncatingIfNeeded: self.nodes.count &- 1)
        }

        @inline(__always)
        mutating func close() {
            let index = Int(self.parent)
            self.parent = self.nodes[index].end
            self.nodes[index].end = UInt32(truncatingIfNeeded: self.nodes.count)
        }
    }
}

extension JSONTape {
    /// Converts a node and its nested values to a ``JSONValue``.
    ///
    /// - Parameters:
    ///   - nodes: The nodes of the tape.
    ///   - index: The index of the node.
    ///   - bytes: The text from which the tape was created.
    static func value(_ nodes: UnsafeBufferPointer<JSONNode>, _ index: Int, _ bytes: UnsafeRawBufferPointer) -> JSONValue {
        let node = nodes[index]
        switch node.kind {
        case .null, .missing: return .null
        case .false: return .bool(false)
        case .true: return .bool(true)
        case .integer, .number: return .number(JSONNumber(UnsafeRawBufferPointer(rebasing: bytes[node.range]), node.kind))
        case .signed: return .number(JSONNumber(Int64(bitPattern: node.bits)))
        case .unsigned: return .number(JSONNumber(node.bits))
        case .float, .single: return JSONNumber(Double(bitPattern: node.bits)).map { .number($0) } ?? .null
        // The tape of a text contains neither; that of MessagePack is converted by `JSONDocument.tree(at:)`.
        case .binary, .ext: return .null
        case .string, .escapedString, .repairedString: return .string(self.string(node, bytes))
        case .array:
            var elements: [JSONValue] = []
            elements.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                elements.append(self.value(nodes, child, bytes))
                child = Int(nodes[child].end)
            }
            return .array(elements)
        case .object:
            var members: [JSONObject.Element] = []
            members.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                members.append((self.string(nodes[child], bytes), self.value(nodes, child + 1, bytes)))
                child = Int(nodes[child + 1].end)
            }
            return .object(JSONObject(members))
        }
    }

    static func string(_ node: JSONNode, _ bytes: UnsafeRawBufferPointer) -> String {
        JSONText.string(UnsafeRawBufferPointer(rebasing: bytes[node.range]), isEscaped: node.kind == .escapedString)
    }
}

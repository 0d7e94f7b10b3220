/// The nodes of a text, which the decoder and ``JSONValue`` read.
struct JSONTape {
    var nodes: [CodingNode]

    init(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: CodingLimits) throws(JSONError) {
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
        var nodes: [CodingNode] = []
        /// The innermost open array or object. Until it is closed, its `end` contains the index of the enclosing one.
        var parent = UInt32.max

        @inline(__always)
        mutating func append(_ kind: NodeKind, _ offset: Int, _ length: Int, end: UInt32) {
            self.nodes.append(
                CodingNode(kind: kind, offset: UInt32(truncatingIfNeeded: offset), length: UInt32(truncatingIfNeeded: length), end: end))
        }

        @inline(__always)
        mutating func count() {
            if self.parent != .max { self.nodes[Int(self.parent)].length &+= 1 }
        }

        @inline(__always)
        mutating func scalar(_ kind: NodeKind, _ offset: Int, _ length: Int) {
            self.count()
            self.append(kind, offset, length, end: UInt32(truncatingIfNeeded: self.nodes.count &+ 1))
        }

        @inline(__always)
        mutating func key(_ kind: NodeKind, _ offset: Int, _ length: Int) {
            self.append(kind, offset, length, end: UInt32(truncatingIfNeeded: self.nodes.count &+ 1))
        }

        @inline(__always)
        mutating func open(_ kind: NodeKind, _ offset: Int) {
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
    static func value(_ nodes: UnsafeBufferPointer<CodingNode>, _ index: Int, _ bytes: UnsafeRawBufferPointer) -> JSONValue {
        let node = nodes[index]
        switch node.kind {
        case .null, .missing: return .null
        case .false: return .bool(false)
        case .true: return .bool(true)
        case .integer, .number: return .number(JSONNumber(UnsafeRawBufferPointer(rebasing: bytes[node.range]), node.kind))
        case .signed: return .number(JSONNumber(Int64(bitPattern: node.bits)))
        case .unsigned: return .number(JSONNumber(node.bits))
        case .float, .single: return JSONNumber(Double(bitPattern: node.bits)).map { .number($0) } ?? .null
        // A text contains neither.
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

    static func string(_ node: CodingNode, _ bytes: UnsafeRawBufferPointer) -> String {
        JSONText.string(UnsafeRawBufferPointer(rebasing: bytes[node.range]), isEscaped: node.kind == .escapedString)
    }
}

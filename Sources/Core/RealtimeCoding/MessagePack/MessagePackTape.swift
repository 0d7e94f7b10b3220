/// The nodes of MessagePack, which the decoder and ``MessagePackValue`` read.
struct MessagePackTape {
    let nodes: [CodingNode]

    /// Creates a tape in one pass.
    ///
    /// - Parameters:
    ///   - bytes: The bytes that contain the value. The offsets of the nodes count from their start.
    ///   - range: The range of the value in the bytes.
    ///   - limits: The limits on the size and depth of the value.
    ///   - rejectsInvalidUTF8: Whether strings must be valid UTF-8.
    init(
        _ bytes: UnsafeRawBufferPointer, in range: Range<Int>, limits: CodingLimits, rejectsInvalidUTF8: Bool = false
    ) throws(MessagePackError) {
        guard range.count <= limits.size else { throw MessagePackError(.tooLarge, at: range.lowerBound + limits.size) }
        var reader = MessagePackReader(bytes, in: range)
        var nodes: [CodingNode] = []
        nodes.reserveCapacity(min(range.count / 4 + 4, 1 << 14))
        try Self.walk(&reader, bytes, &nodes, depth: limits.depth, rejectsInvalidUTF8: rejectsInvalidUTF8)
        try reader.finish()
        self.nodes = nodes
    }

    /// An array or map, of which some values are still to be read. A map's keys and values count separately.
    private struct Open {
        var remaining: Int
        var index: Int
        var isMap: Bool
    }

    @inline(never)
    private static func walk(
        _ reader: inout MessagePackReader, _ bytes: UnsafeRawBufferPointer, _ nodes: inout [CodingNode], depth: Int,
        rejectsInvalidUTF8: Bool
    ) throws(MessagePackError) {
        var enclosing: [Open] = []
        var open = Open(remaining: 1, index: 0, isMap: false)
        repeat {
            let start = reader.position
            var node = try reader.next()
            node.end = UInt32(truncatingIfNeeded: nodes.count &+ 1)
            open.remaining &-= 1
            switch node.kind {
            case .string:
                // After a key of a map, an odd number of values is left.
                let isKey = open.isMap && open.remaining & 1 == 1
                if isKey || rejectsInvalidUTF8, !ByteWords.isUTF8(UnsafeRawBufferPointer(rebasing: bytes[node.range])) {
                    if rejectsInvalidUTF8 { throw MessagePackError(.invalidUTF8, at: start) }
                    node.kind = .repairedString
                }
                nodes.append(node)
            case .array, .object:
                guard enclosing.count < depth else { throw MessagePackError(.tooDeep, at: start) }
                if node.length > 0 {
                    enclosing.append(open)
                    let isMap = node.kind == .object
                    open = Open(remaining: isMap ? 2 &* Int(node.length) : Int(node.length), index: nodes.count, isMap: isMap)
                }
                nodes.append(node)
            default: nodes.append(node)
            }
            while open.remaining == 0, let outer = enclosing.popLast() {
                nodes[open.index].end = UInt32(truncatingIfNeeded: nodes.count)
                open = outer
            }
        } while open.remaining > 0
    }
}

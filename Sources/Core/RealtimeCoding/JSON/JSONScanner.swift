/// A consumer of the parts of a document, in order. The offset and length of a string exclude its quotes.
protocol JSONSink {
    mutating func scalar(_ kind: NodeKind, _ offset: Int, _ length: Int)
    mutating func key(_ kind: NodeKind, _ offset: Int, _ length: Int)
    mutating func open(_ kind: NodeKind, _ offset: Int)
    mutating func close()
}

/// A sink that ignores its input, for validation.
struct JSONNullSink: JSONSink {
    /// Gives the value a size. ThreadSanitizer reports false conflicts for a value of size zero, which shares an adjacent address.
    private let padding: UInt8 = 0

    @inline(__always) mutating func scalar(_ kind: NodeKind, _ offset: Int, _ length: Int) {}
    @inline(__always) mutating func key(_ kind: NodeKind, _ offset: Int, _ length: Int) {}
    @inline(__always) mutating func open(_ kind: NodeKind, _ offset: Int) {}
    @inline(__always) mutating func close() {}
}

/// A scanner for JSON text (RFC 8259). It does not recurse: each level of nesting takes one bit instead of a stack frame.
///
/// All readers of JSON use this scanner, so that they accept the same texts.
struct JSONScanner {
    private let base: UnsafePointer<UInt8>
    private let end: Int
    private let checksUTF8: Bool
    private let depthLimit: Int
    private(set) var position: Int

    /// Creates a scanner.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - isUTF8: Whether the bytes are known to be valid UTF-8, as WebSocket text is. They are not validated again.
    ///   - limits: The limits on the text.
    ///   - position: The offset at which to start.
    init(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: CodingLimits, from position: Int = 0) throws(JSONError) {
        guard bytes.count <= limits.size else { throw JSONError(.tooLarge, at: limits.size) }
        guard let base = bytes.baseAddress, bytes.count > 0 else { throw JSONError(.unexpectedEnd, at: 0) }
        self.base = base.assumingMemoryBound(to: UInt8.self)
        self.end = bytes.count
        self.checksUTF8 = !isUTF8
        self.depthLimit = limits.depth
        self.position = position
        if position == 0, self.end >= 3, self.base[0] == 0xEF, self.base[1] == 0xBB, self.base[2] == 0xBF {
            throw JSONError(.byteOrderMark, at: 0)
        }
    }

    /// Skips whitespace and returns the next byte without consuming it.
    @inline(__always)
    mutating func next() throws(JSONError) -> UInt8 {
        while self.position < self.end {
            let byte = self.base[self.position]
            if byte > 0x20 { return byte }
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { throw self.unexpected() }
            self.position &+= 1
        }
        throw JSONError(.unexpectedEnd, at: self.end)
    }

    @inline(__always)
    mutating func advance() {
        self.position &+= 1
    }

    /// Throws if anything other than whitespace is left.
    mutating func finish() throws(JSONError) {
        while self.position < self.end {
            switch self.base[self.position] {
            case 0x20, 0x0A, 0x0D, 0x09: self.position &+= 1
            default: throw JSONError(.trailingContent, at: self.position)
            }
        }
    }

    /// The error for the current position.
    func unexpected() -> JSONError {
        JSONError(self.position < self.end ? .unexpectedCharacter : .unexpectedEnd, at: self.position)
    }

    /// Scans a string, from after its opening quote to after its closing quote.
    @inline(__always)
    mutating func string() throws(JSONError) -> (kind: NodeKind, offset: Int, length: Int) {
        let start = self.position
        var kind = NodeKind.string
        var index = start
        while true {
            while index &+ 8 <= self.end {
                let word = ByteWords.load(self.base + index)
                let stops = ByteWords.stops(word, includingNonASCII: self.checksUTF8)
                if stops != 0 {
                    index &+= stops.trailingZeroBitCount &>> 3
                    break
                }
                index &+= 8
            }
            guard index < self.end else { throw JSONError(.unexpectedEnd, at: self.end) }
            let byte = self.base[index]
            if byte == UInt8(ascii: "\"") {
                self.position = index &+ 1
                return (kind, start, index &- start)
            }
            if byte == UInt8(ascii: "\\") {
                kind = .escapedString
                // The fast path for JSON within JSON, where quotes are the most frequent escape.
                if index &+ 1 < self.end, self.base[index &+ 1] == UInt8(ascii: "\"") {
                    index &+= 2
                } else {
                    index = try self.escape(index)
                }
            } else if byte < 0x20 {
                throw JSONError(.controlCharacter, at: index)
            } else if byte < 0x80 || !self.checksUTF8 {
                index &+= 1
            } else {
                repeat {
                    let length = ByteWords.sequenceLength(self.base, index, self.end)
                    guard length > 0 else { throw JSONError(.invalidUTF8, at: index) }
                    index &+= length
                } while index < self.end && self.base[index] >= 0x80
            }
        }
    }

    /// Validates the escape sequence at `index` and returns the index after it.
    private func escape(_ index: Int) throws(JSONError) -> Int {
        guard index &+ 1 < self.end else { throw JSONError(.unexpectedEnd, at: self.end) }
        switch self.base[index &+ 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"),
            UInt8(ascii: "b"), UInt8(ascii: "f"):
            return index &+ 2
        case UInt8(ascii: "u"):
            for digit in (index &+ 2)..<(index &+ 6) {
                guard digit < self.end else { throw JSONError(.unexpectedEnd, at: self.end) }
                switch self.base[digit] {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"):
                    continue
                default: throw JSONError(.invalidEscape, at: index)
                }
            }
            return index &+ 6
        default: throw JSONError(.invalidEscape, at: index)
        }
    }

    /// Scans a number, from its first character.
    @inline(__always)
    mutating func number() throws(JSONError) -> NodeKind {
        let start = self.position
        var index = start
        guard let kind = NumberText.scan(self.base, from: &index, to: self.end) else {
            throw index < self.end ? JSONError(.invalidNumber, at: start) : JSONError(.unexpectedEnd, at: self.end)
        }
        self.position = index
        return kind
    }

    /// Scans `null`, `true` or `false`, which the first letter determines.
    @inline(__always)
    mutating func literal(_ first: UInt8) throws(JSONError) -> NodeKind {
        switch first {
        case UInt8(ascii: "t"): return try self.literal("true", .true)
        case UInt8(ascii: "f"): return try self.literal("false", .false)
        case UInt8(ascii: "n"): return try self.literal("null", .null)
        default: throw self.unexpected()
        }
    }

    @inline(__always)
    private mutating func literal(_ text: StaticString, _ kind: NodeKind) throws(JSONError) -> NodeKind {
        for offset in 0..<text.utf8CodeUnitCount {
            guard self.position < self.end, self.base[self.position] == text.utf8Start[offset] else { throw self.unexpected() }
            self.position &+= 1
        }
        return kind
    }

    /// Scans a key and the colon after it.
    @inline(__always)
    mutating func key() throws(JSONError) -> (kind: NodeKind, offset: Int, length: Int) {
        guard try self.next() == UInt8(ascii: "\"") else { throw self.unexpected() }
        self.advance()
        let key = try self.string()
        guard try self.next() == UInt8(ascii: ":") else { throw self.unexpected() }
        self.advance()
        return key
    }

    /// Scans a value of any kind, including all nested values.
    ///
    /// - Parameters:
    ///   - sink: The consumer of the parts.
    ///   - depth: The number of enclosing arrays and objects.
    @inline(__always)
    mutating func value<Sink: JSONSink>(into sink: inout Sink, depth: Int = 0) throws(JSONError) {
        var nesting = JSONNesting()
        while true {
            let first = try self.next()
            switch first {
            case UInt8(ascii: "\""):
                self.advance()
                let string = try self.string()
                sink.scalar(string.kind, string.offset, string.length)
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                let start = self.position
                let kind = try self.number()
                sink.scalar(kind, start, self.position &- start)
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard depth &+ nesting.depth < self.depthLimit else { throw JSONError(.tooDeep, at: self.position) }
                let isObject = first == UInt8(ascii: "{")
                sink.open(isObject ? .object : .array, self.position)
                self.advance()
                // In ASCII, the code of a closing bracket is two more than the code of the opening one.
                if try self.next() == first &+ 2 {
                    self.advance()
                    sink.close()
                    break
                }
                nesting.push(isObject)
                if isObject {
                    let key = try self.key()
                    sink.key(key.kind, key.offset, key.length)
                }
                continue
            default:
                let start = self.position
                let kind = try self.literal(first)
                sink.scalar(kind, start, self.position &- start)
            }

            while true {
                if nesting.depth == 0 { return }
                let byte = try self.next()
                if byte == UInt8(ascii: ",") {
                    self.advance()
                    if nesting.isObject {
                        let key = try self.key()
                        sink.key(key.kind, key.offset, key.length)
                    }
                    break
                }
                guard byte == (nesting.isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { throw self.unexpected() }
                self.advance()
                sink.close()
                nesting.pop()
            }
        }
    }
}

extension JSONScanner {
    /// Finds the next element of an array of scalars.
    ///
    /// - Returns: The element and its end; `nil` if it isn't a scalar, or the text is invalid.
    static func arrayScalar(_ bytes: UnsafeRawBufferPointer, at position: Int, isFirst: Bool) -> (CodingNode, end: Int)? {
        do throws(JSONError) {
            var scanner = try JSONScanner(bytes, isUTF8: true, limits: CodingLimits(), from: position)
            guard try scanner.next() == (isFirst ? UInt8(ascii: "[") : UInt8(ascii: ",")) else { return nil }
            scanner.advance()
            let first = try scanner.next()
            let start = scanner.position
            switch first {
            case UInt8(ascii: "\""):
                scanner.advance()
                let string = try scanner.string()
                return (self.node(string.kind, string.offset, string.length), scanner.position)
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                let kind = try scanner.number()
                return (self.node(kind, start, scanner.position - start), scanner.position)
            case UInt8(ascii: "t"), UInt8(ascii: "f"):
                return (self.node(try scanner.literal(first), start, scanner.position - start), scanner.position)
            default: return nil
            }
        } catch {
            return nil
        }
    }

    private static func node(_ kind: NodeKind, _ offset: Int, _ length: Int) -> CodingNode {
        CodingNode(kind: kind, offset: UInt32(truncatingIfNeeded: offset), length: UInt32(truncatingIfNeeded: length), end: 0)
    }
}

/// A stack that stores whether each enclosing value is an object or an array. It allocates only above 64 levels.
private struct JSONNesting {
    private var bits: UInt64 = 0
    private var spilled: [UInt64] = []
    private(set) var depth = 0

    @inline(__always)
    var isObject: Bool { self.bits & 1 != 0 }

    @inline(__always)
    mutating func push(_ isObject: Bool) {
        if self.depth & 63 == 0, self.depth > 0 { self.spilled.append(self.bits) }
        self.bits = self.bits &<< 1 | (isObject ? 1 : 0)
        self.depth &+= 1
    }

    @inline(__always)
    mutating func pop() {
        self.bits &>>= 1
        self.depth &-= 1
        if self.depth & 63 == 0, self.depth > 0 { self.bits = self.spilled.removeLast() }
    }
}

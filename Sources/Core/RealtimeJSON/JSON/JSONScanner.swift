/// What a raw value is.
package enum JSONKind: UInt8, Hashable, Sendable {
    /// There is no such member.
    case missing
    case null, `false`, `true`
    /// A number without fraction and exponent.
    case integer
    /// A number with a fraction or an exponent.
    case number
    /// A string whose bytes are its value.
    case string
    /// A string with at least one backslash.
    case escapedString
    case array, object
    /// Numbers that stand in a tape's entry itself, as 64 bits, for values that were never text.
    case signed, unsigned, float

    package var isString: Bool { self == .string || self == .escapedString }
    package var isNumber: Bool { self == .integer || self == .number }
}

/// Receives a document's pieces in their order. Offsets and lengths of strings are those between the quotes.
protocol JSONSink {
    mutating func scalar(_ kind: JSONKind, _ offset: Int, _ length: Int)
    mutating func key(_ kind: JSONKind, _ offset: Int, _ length: Int)
    mutating func open(_ kind: JSONKind, _ offset: Int)
    mutating func close()
}

/// The sink of whoever only wants to know whether it is JSON.
struct JSONNoSink: JSONSink {
    /// So that it has an address of its own: ThreadSanitizer takes that of a value without size for its neighbour's.
    private let place: UInt8 = 0

    @inline(__always) mutating func scalar(_ kind: JSONKind, _ offset: Int, _ length: Int) {}
    @inline(__always) mutating func key(_ kind: JSONKind, _ offset: Int, _ length: Int) {}
    @inline(__always) mutating func open(_ kind: JSONKind, _ offset: Int) {}
    @inline(__always) mutating func close() {}
}

/// The grammar of RFC 8259 over bytes, without recursion: depth costs a bit, not a stack frame.
///
/// Everything that reads JSON here goes through this one walk, so that scanner, tape and tree agree on what is JSON.
struct JSONScanner {
    private let base: UnsafePointer<UInt8>
    private let end: Int
    private let checksUTF8: Bool
    private let depthLimit: Int
    private(set) var position = 0

    /// - Parameter isUTF8: the bytes are known to be UTF-8, as WebSocket text is, and are not checked again.
    init(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: JSONLimits) throws(JSONError) {
        guard bytes.count <= limits.size else { throw JSONError(.tooLarge, at: limits.size) }
        guard let base = bytes.baseAddress, bytes.count > 0 else { throw JSONError(.unexpectedEnd, at: 0) }
        self.base = base.assumingMemoryBound(to: UInt8.self)
        self.end = bytes.count
        self.checksUTF8 = !isUTF8
        self.depthLimit = limits.depth
        if self.end >= 3, self.base[0] == 0xEF, self.base[1] == 0xBB, self.base[2] == 0xBF { throw JSONError(.byteOrderMark, at: 0) }
    }

    /// The next byte that is not white space, not yet taken.
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
    mutating func take() {
        self.position &+= 1
    }

    mutating func finish() throws(JSONError) {
        while self.position < self.end {
            switch self.base[self.position] {
            case 0x20, 0x0A, 0x0D, 0x09: self.position &+= 1
            default: throw JSONError(.trailingContent, at: self.position)
            }
        }
    }

    func unexpected() -> JSONError {
        JSONError(self.position < self.end ? .unexpectedCharacter : .unexpectedEnd, at: self.position)
    }

    @inline(__always)
    private func isBehindDigits(_ index: Int) -> Bool {
        index >= self.end || self.base[index] &- UInt8(ascii: "0") > 9
    }

    /// A string, from behind its opening quote to behind the closing one.
    @inline(__always)
    mutating func string() throws(JSONError) -> (kind: JSONKind, offset: Int, length: Int) {
        let start = self.position
        var kind = JSONKind.string
        var index = start
        while true {
            while index &+ 8 <= self.end {
                let word = JSONBytes.load(self.base + index)
                let stops = JSONBytes.stops(word, beyondASCII: self.checksUTF8)
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
                // Quotes are what is mostly escaped: JSON within JSON.
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
                    let length = JSONBytes.sequenceLength(self.base, index, self.end)
                    guard length > 0 else { throw JSONError(.invalidUTF8, at: index) }
                    index &+= length
                } while index < self.end && self.base[index] >= 0x80
            }
        }
    }

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

    /// A number, from its first character on.
    @inline(__always)
    mutating func number() throws(JSONError) -> JSONKind {
        let start = self.position
        var index = start
        if self.base[index] == UInt8(ascii: "-") { index &+= 1 }
        guard !self.isBehindDigits(index) else { throw self.badNumber(start, index) }
        if self.base[index] == UInt8(ascii: "0") {
            index &+= 1
            guard self.isBehindDigits(index) else { throw JSONError(.invalidNumber, at: start) }
        } else {
            repeat { index &+= 1 } while !self.isBehindDigits(index)
        }
        var kind = JSONKind.integer
        if index < self.end, self.base[index] == UInt8(ascii: ".") {
            kind = .number
            index &+= 1
            guard !self.isBehindDigits(index) else { throw self.badNumber(start, index) }
            repeat { index &+= 1 } while !self.isBehindDigits(index)
        }
        if index < self.end, self.base[index] | 0x20 == UInt8(ascii: "e") {
            kind = .number
            index &+= 1
            if index < self.end, self.base[index] == UInt8(ascii: "+") || self.base[index] == UInt8(ascii: "-") { index &+= 1 }
            guard !self.isBehindDigits(index) else { throw self.badNumber(start, index) }
            repeat { index &+= 1 } while !self.isBehindDigits(index)
        }
        self.position = index
        return kind
    }

    private func badNumber(_ start: Int, _ index: Int) -> JSONError {
        index < self.end ? JSONError(.invalidNumber, at: start) : JSONError(.unexpectedEnd, at: self.end)
    }

    /// `null`, `true` or `false`, known by its first letter.
    @inline(__always)
    mutating func word(_ first: UInt8) throws(JSONError) -> JSONKind {
        switch first {
        case UInt8(ascii: "t"): return try self.word("true", .true)
        case UInt8(ascii: "f"): return try self.word("false", .false)
        case UInt8(ascii: "n"): return try self.word("null", .null)
        default: throw self.unexpected()
        }
    }

    @inline(__always)
    private mutating func word(_ text: StaticString, _ kind: JSONKind) throws(JSONError) -> JSONKind {
        for offset in 0..<text.utf8CodeUnitCount {
            guard self.position < self.end, self.base[self.position] == text.utf8Start[offset] else { throw self.unexpected() }
            self.position &+= 1
        }
        return kind
    }

    /// A member's name with its colon.
    @inline(__always)
    mutating func key() throws(JSONError) -> (kind: JSONKind, offset: Int, length: Int) {
        guard try self.next() == UInt8(ascii: "\"") else { throw self.unexpected() }
        self.take()
        let key = try self.string()
        guard try self.next() == UInt8(ascii: ":") else { throw self.unexpected() }
        self.take()
        return key
    }

    /// One value of any kind, with all that is in it.
    ///
    /// - Parameter depth: how many arrays and objects are around it already.
    @inline(__always)
    mutating func value<Sink: JSONSink>(into sink: inout Sink, depth: Int = 0) throws(JSONError) {
        var nesting = JSONNesting()
        while true {
            let first = try self.next()
            switch first {
            case UInt8(ascii: "\""):
                self.take()
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
                self.take()
                // The closing bracket is the opening one's code and two.
                if try self.next() == first &+ 2 {
                    self.take()
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
                let kind = try self.word(first)
                sink.scalar(kind, start, self.position &- start)
            }

            while true {
                if nesting.depth == 0 { return }
                let byte = try self.next()
                if byte == UInt8(ascii: ",") {
                    self.take()
                    if nesting.isObject {
                        let key = try self.key()
                        sink.key(key.kind, key.offset, key.length)
                    }
                    break
                }
                guard byte == (nesting.isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { throw self.unexpected() }
                self.take()
                sink.close()
                nesting.pop()
            }
        }
    }
}

/// Whether each of the enclosing values is an object or an array: 64 of them in a word, allocating only beyond.
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

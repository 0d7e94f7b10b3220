/// Text that is not JSON, or a value that JSON cannot hold.
public struct JSONError: Error, Hashable, Sendable {
    /// What kind of failure it was. More may be added, so a `switch` over it needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case unexpectedEnd, unexpectedCharacter, invalidNumber, invalidEscape, controlCharacter, invalidUTF8, loneSurrogate,
                byteOrderMark, trailingContent, notAnObject, tooDeep, tooLarge, notFinite
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The text ends within a value.
        public static let unexpectedEnd = Code(.unexpectedEnd)
        /// A character that may not stand there.
        public static let unexpectedCharacter = Code(.unexpectedCharacter)
        /// A number not written as JSON wants it, such as `01` or `1.`.
        public static let invalidNumber = Code(.invalidNumber)
        /// A backslash with something else behind it than JSON knows.
        public static let invalidEscape = Code(.invalidEscape)
        /// A character below U+0020 in a string, which must be written as an escape.
        public static let controlCharacter = Code(.controlCharacter)
        /// Bytes that are not UTF-8.
        public static let invalidUTF8 = Code(.invalidUTF8)
        /// Half of a surrogate pair, where such are refused.
        public static let loneSurrogate = Code(.loneSurrogate)
        /// A byte order mark in front of the text.
        public static let byteOrderMark = Code(.byteOrderMark)
        /// Something other than white space behind the value.
        public static let trailingContent = Code(.trailingContent)
        /// An object was wanted and another value is there.
        public static let notAnObject = Code(.notAnObject)
        /// Arrays and objects nested deeper than the limit.
        public static let tooDeep = Code(.tooDeep)
        /// More bytes than the limit.
        public static let tooLarge = Code(.tooLarge)
        /// Infinity or not-a-number, which JSON cannot hold.
        public static let notFinite = Code(.notFinite)

        /// The code's name.
        public var description: String { self.value.rawValue }
    }

    /// What kind of failure it was.
    public let code: Code
    /// The offset in bytes of what was wrong, from the start of the text.
    public let offset: Int

    package init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// What was wrong and where, in one sentence, without any of the text.
    public var message: String {
        let what =
            switch self.code {
            case .unexpectedEnd: "the text ends within a value"
            case .unexpectedCharacter: "a character that may not stand there"
            case .invalidNumber: "a number that is not written as JSON wants it"
            case .invalidEscape: "a backslash followed by something that JSON does not know"
            case .controlCharacter: "a control character in a string, write it as an escape"
            case .invalidUTF8: "bytes that are not UTF-8"
            case .loneSurrogate: "an escape that is half of a surrogate pair"
            case .byteOrderMark: "a byte order mark, leave it out"
            case .trailingContent: "something behind the end of the value"
            case .notAnObject: "an object was expected"
            case .tooDeep: "arrays and objects nested deeper than the limit"
            case .tooLarge: "more bytes than the limit"
            default: "infinity or not-a-number, which JSON cannot hold"
            }
        return "not valid JSON at byte \(self.offset): \(what)"
    }
}

extension JSONError: CustomStringConvertible {
    /// The same as ``message``.
    public var description: String { self.message }
}

/// How much a parser takes in before it refuses.
public struct JSONLimits: Hashable, Sendable {
    /// How deep arrays and objects may be nested. The default is 512; a tree that is thousands deep can exhaust a thread's stack
    /// when it is walked or let go.
    public var depth: Int
    /// How many bytes a text may have; at most 2 GiB, the default.
    public var size: Int

    /// The limits of the defaults, or others.
    public init(depth: Int = 512, size: Int = Int(Int32.max)) {
        self.depth = depth
        self.size = min(size, Int(Int32.max))
    }
}

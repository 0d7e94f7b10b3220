/// An error for text that isn't valid JSON, or a value that JSON can't represent.
public struct JSONError: Error, Hashable, Sendable {
    /// The kind of an error. Future versions may add codes, so a `switch` over codes needs a `default` case.
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
        /// A character isn't allowed at its position.
        public static let unexpectedCharacter = Code(.unexpectedCharacter)
        /// A number has invalid syntax, such as `01` or `1.`.
        public static let invalidNumber = Code(.invalidNumber)
        /// A string contains an escape sequence that JSON doesn't define.
        public static let invalidEscape = Code(.invalidEscape)
        /// A string contains an unescaped control character, below U+0020.
        public static let controlCharacter = Code(.controlCharacter)
        /// A string contains bytes that aren't valid UTF-8.
        public static let invalidUTF8 = Code(.invalidUTF8)
        /// A string contains an escaped surrogate that isn't part of a pair.
        public static let loneSurrogate = Code(.loneSurrogate)
        /// The text starts with a byte order mark.
        public static let byteOrderMark = Code(.byteOrderMark)
        /// The value is followed by characters other than whitespace.
        public static let trailingContent = Code(.trailingContent)
        /// The text contains another value where an object is required.
        public static let notAnObject = Code(.notAnObject)
        /// Arrays and objects are nested more deeply than the limit allows.
        public static let tooDeep = Code(.tooDeep)
        /// The text has more bytes than the limit allows.
        public static let tooLarge = Code(.tooLarge)
        /// A number is infinite or not a number, which JSON can't represent.
        public static let notFinite = Code(.notFinite)

        /// The name of the code, such as `unexpectedEnd`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// The byte offset of the error from the start of the text.
    public let offset: Int

    package init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// A description of the error and its position. It doesn't contain any of the text.
    public var message: String {
        let reason =
            switch self.code {
            case .unexpectedEnd: "unexpected end of the text"
            case .unexpectedCharacter: "unexpected character"
            case .invalidNumber: "invalid number"
            case .invalidEscape: "invalid escape sequence"
            case .controlCharacter: "unescaped control character in a string"
            case .invalidUTF8: "invalid UTF-8"
            case .loneSurrogate: "lone surrogate"
            case .byteOrderMark: "byte order mark"
            case .trailingContent: "unexpected content after the value"
            case .notAnObject: "expected an object"
            case .tooDeep: "arrays and objects are nested too deeply"
            case .tooLarge: "the text is too large"
            default: "the number is not finite"
            }
        return "invalid JSON at byte \(self.offset): \(reason)"
    }
}

extension JSONError: CustomStringConvertible {
    /// The same as ``message``.
    public var description: String { self.message }
}

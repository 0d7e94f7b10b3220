/// An error for bytes that aren't valid MessagePack.
public struct MessagePackError: Error, Hashable, Sendable {
    /// The kind of an error. Future versions may add codes, so a `switch` over codes needs a `default` case.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case unexpectedEnd, invalidFormat, invalidUTF8, unexpectedType, trailingContent, tooDeep, tooLarge
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The bytes end within a value, or an array or map announces more elements than there are bytes.
        public static let unexpectedEnd = Code(.unexpectedEnd)
        /// The byte 0xC1, which MessagePack doesn't use.
        public static let invalidFormat = Code(.invalidFormat)
        /// A string contains bytes that aren't valid UTF-8, and ``MessagePackDecoder/rejectsInvalidUTF8`` is set.
        public static let invalidUTF8 = Code(.invalidUTF8)
        /// A value has another type than the structure of a message requires.
        public static let unexpectedType = Code(.unexpectedType)
        /// The value is followed by further bytes.
        public static let trailingContent = Code(.trailingContent)
        /// Arrays and maps are nested more deeply than the limit allows.
        public static let tooDeep = Code(.tooDeep)
        /// There are more bytes than the limit allows.
        public static let tooLarge = Code(.tooLarge)

        /// The name of the code, such as `unexpectedEnd`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// The byte offset of the value with the error.
    public let offset: Int

    package init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// A description of the error and its position. It doesn't contain any of the bytes.
    public var message: String {
        let reason =
            switch self.code {
            case .unexpectedEnd: "unexpected end of the bytes"
            case .invalidFormat: "invalid format byte"
            case .invalidUTF8: "invalid UTF-8"
            case .unexpectedType: "unexpected type"
            case .trailingContent: "unexpected content after the value"
            case .tooDeep: "arrays and maps are nested too deeply"
            default: "there are too many bytes"
            }
        return "invalid MessagePack at byte \(self.offset): \(reason)"
    }
}

extension MessagePackError: CustomStringConvertible {
    /// The same as ``message``.
    public var description: String { self.message }
}

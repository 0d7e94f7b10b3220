package import RealtimeCoding
import RealtimeCore

/// Encodes and decodes one value, in place of ``HubValueCoder``'s own coders.
package protocol HubValueCoding: Sendable {
    /// Encodes a value.
    ///
    /// - Returns: One value in the format for which the coder is used.
    func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]
    /// Decodes one value in the format for which the coder is used.
    func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}

/// Encodes and decodes the application's values: arguments, items and results. It calls code of the application, so it is used outside of
/// locks and not where messages are received.
///
/// The values have the forms that .NET's serializers use by default. In JSON:
/// - A `Date` is an ISO 8601 text in UTC, with as many digits after the second as it needs, up to seven. Dates are read with up to
///   seven digits and any offset. .NET writes dates of an unspecified kind without an offset; they are read as UTC, and so are dates without
///   a time.
/// - `Data` is a Base64 text, `URL` and `UUID` are texts, and `Decimal` is a number.
/// - Enumerations are their raw values. .NET sends enumerations as numbers.
/// - A number that isn't finite is an error.
///
/// In MessagePack:
/// - The names of properties begin with a capital letter, as in .NET, where other names would be ignored without an error. They are read
///   in any case. The keys of dictionaries are unchanged.
/// - A `Date` is a timestamp, and is also read from the array with an offset that .NET writes for a `DateTimeOffset`.
/// - `Data` is binary. `URL`, `UUID` and `Decimal` are texts.
/// - Enumerations are their raw values. .NET sends enumerations as their names.
package struct HubValueCoder: Sendable {
    private enum Coder: Sendable {
        case json(JSONValueEncoder, JSONValueDecoder)
        case messagePack(MessagePackEncoder, MessagePackDecoder)
        case custom(any HubValueCoding)
    }

    package let format: HubFormat
    private let coder: Coder

    /// Creates a coder with the defaults of .NET.
    package init(_ format: HubFormat) {
        switch format {
        case .json: self = Self.json
        case .messagePack: self = Self.messagePack
        }
    }

    private static let json = {
        var encoder = JSONValueEncoder()
        encoder.dates = .iso8601
        // The resolution of dates in .NET is a ten-millionth of a second.
        encoder.dateFractionDigits = 7
        var decoder = JSONValueDecoder()
        decoder.dates = .iso8601
        decoder.assumesUTC = true
        return HubValueCoder(encoder, decoder)
    }()

    private static let messagePack = {
        var encoder = MessagePackEncoder()
        encoder.keys = .convertToPascalCase
        var decoder = MessagePackDecoder()
        decoder.keys = .ignoreCase
        return HubValueCoder(encoder, decoder)
    }()

    /// Creates a coder for JSON with other settings.
    package init(_ encoder: JSONValueEncoder, _ decoder: JSONValueDecoder) {
        self.format = .json
        self.coder = .json(encoder, decoder)
    }

    /// Creates a coder for MessagePack with other settings, such as unchanged names of properties.
    package init(_ encoder: MessagePackEncoder, _ decoder: MessagePackDecoder) {
        self.format = .messagePack
        self.coder = .messagePack(encoder, decoder)
    }

    /// Creates a coder that uses another implementation.
    ///
    /// - Parameters:
    ///   - format: The format of the values that the implementation encodes.
    ///   - custom: The implementation. What it encodes is validated, because an invalid value would make the rest of the connection
    ///     unreadable.
    package init(_ format: HubFormat, custom: any HubValueCoding) {
        self.format = format
        self.coder = .custom(custom)
    }

    // MARK: Encoding

    /// Encodes the arguments of an invocation as an array.
    ///
    /// - Throws: ``HubValueError``, which names the argument.
    package func arguments(of values: [any Encodable]) throws -> HubPayload {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64)
        self.beginArray(count: values.count, &bytes)
        for (index, value) in values.enumerated() { try self.append(value, index, values.count, to: &bytes) }
        self.endArray(&bytes)
        return HubPayload(self.format, bytes)
    }

    /// Encodes the arguments of an invocation as an array.
    ///
    /// - Throws: ``HubValueError``, which names the argument.
    package func arguments<each Argument: Encodable>(_ values: repeat each Argument) throws -> HubPayload {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64)
        try self.appendArguments(repeat each values, to: &bytes)
        return HubPayload(self.format, bytes)
    }

    /// Appends the arguments of an invocation as an array.
    ///
    /// - Throws: ``HubValueError``, which names the argument. Some of the arguments may have been appended.
    package func appendArguments<each Argument: Encodable>(_ values: repeat each Argument, to bytes: inout [UInt8]) throws {
        var count = 0
        for _ in repeat each values { count += 1 }
        self.beginArray(count: count, &bytes)
        var index = 0
        for value in repeat each values {
            try self.append(value, index, count, to: &bytes)
            index += 1
        }
        self.endArray(&bytes)
    }

    /// Encodes an item or a result.
    ///
    /// - Throws: `EncodingError` or the error of the value's own `encode(to:)`.
    package func payload<Value: Encodable>(_ value: Value) throws -> HubPayload {
        var bytes: [UInt8] = []
        try self.append(value, to: &bytes)
        return HubPayload(self.format, bytes)
    }

    private func beginArray(count: Int, _ bytes: inout [UInt8]) {
        switch self.format {
        case .json: bytes.append(UInt8(ascii: "["))
        case .messagePack:
            var writer = MessagePackWriter()
            swap(&writer.bytes, &bytes)
            writer.arrayHeader(count)
            swap(&writer.bytes, &bytes)
        }
    }

    private func endArray(_ bytes: inout [UInt8]) {
        if self.format == .json { bytes.append(UInt8(ascii: "]")) }
    }

    private func append<Value: Encodable>(_ value: Value, _ index: Int, _ count: Int, to bytes: inout [UInt8]) throws {
        if index > 0, self.format == .json { bytes.append(UInt8(ascii: ",")) }
        do {
            try self.append(value, to: &bytes)
        } catch {
            throw HubValueError("Argument \(index + 1) of \(count) (\(Value.self)) can't be encoded", argument: index, error)
        }
    }

    private func append<Value: Encodable>(_ value: Value, to bytes: inout [UInt8]) throws {
        switch self.coder {
        case .json(let encoder, _): try encoder.encode(value, to: &bytes)
        case .messagePack(let encoder, _): try encoder.encode(value, to: &bytes)
        case .custom(let coder):
            let encoded = try coder.encode(value)
            try encoded.withUnsafeBytes { encoded in
                switch self.format {
                case .json: try JSONText.validate(encoded)
                case .messagePack:
                    var reader = MessagePackReader(encoded)
                    try reader.skip()
                    try reader.finish()
                }
            }
            bytes += encoded
        }
    }

    // MARK: Decoding

    /// Decodes an item or a result.
    ///
    /// - Throws: `DecodingError`, ``JSONError``, ``MessagePackError``, or the error of the type's own `init(from:)`.
    package func decode<Value: Decodable>(_ type: Value.Type, from payload: HubPayload) throws -> Value {
        try self.checkFormat(payload)
        switch self.coder {
        case .json(_, let decoder): return try decoder.decode(type, fromUTF8: payload.bytes)
        case .messagePack(_, let decoder): return try decoder.decode(type, from: payload.bytes)
        case .custom(let coder): return try coder.decode(type, from: payload.bytes)
        }
    }

    /// Returns a reader of the arguments of an invocation.
    ///
    /// - Throws: ``HubValueError`` if the payload has another format or, with a custom coder, isn't an array.
    package func decodeArguments(_ payload: HubPayload) throws -> HubArguments {
        do {
            try self.checkFormat(payload)
            switch self.coder {
            case .json(_, let decoder): return HubArguments(ArrayReader(utf8: payload.bytes, decoder))
            case .messagePack(_, let decoder): return HubArguments(ArrayReader(messagePack: payload.bytes, decoder))
            case .custom(let coder): return HubArguments(payload.bytes, try Self.elements(payload), coder)
            }
        } catch {
            throw HubValueError.unreadable(error)
        }
    }

    /// The positions of an array's elements.
    private static func elements(_ payload: HubPayload) throws -> [Range<Int>] {
        try payload.bytes.withUnsafeBytes { bytes in
            switch payload.format {
            case .json: return try JSONText.elements(ofArray: bytes)
            case .messagePack:
                var reader = MessagePackReader(bytes)
                let elements = try (0..<(try reader.arrayHeader())).map { _ in try reader.skip() }
                try reader.finish()
                return elements
            }
        }
    }

    private func checkFormat(_ payload: HubPayload) throws {
        guard payload.format == self.format else {
            throw HubValueError("A value in \(payload.format.protocolName) can't be decoded as \(self.format.protocolName).")
        }
    }
}

/// The arguments of an invocation, which are decoded in order. A copy continues at the same argument.
///
/// The type isn't `Sendable`, because decoders aren't.
package struct HubArguments {
    /// The arguments for another implementation of the coder.
    private final class CustomElements {
        let bytes: [UInt8]
        let ranges: [Range<Int>]
        let coder: any HubValueCoding

        init(_ bytes: [UInt8], _ ranges: [Range<Int>], _ coder: any HubValueCoding) {
            (self.bytes, self.ranges, self.coder) = (bytes, ranges, coder)
        }

        func decode<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
            guard index < self.ranges.count else { throw ArrayReader.End() }
            return try self.coder.decode(type, from: Array(self.bytes[self.ranges[index]]))
        }
    }

    private var reader: ArrayReader
    private let custom: CustomElements?
    /// The number of arguments that were decoded, also those that failed.
    private var index = 0

    init(_ reader: ArrayReader) {
        self.reader = reader
        self.custom = nil
    }

    init(_ bytes: [UInt8], _ ranges: [Range<Int>], _ coder: any HubValueCoding) {
        self.reader = ArrayReader(utf8: [], JSONValueDecoder())
        self.custom = CustomElements(bytes, ranges, coder)
    }

    /// Parses all arguments and returns their number.
    ///
    /// - Throws: ``HubValueError`` if they aren't an array, or exceed the limits of the decoder.
    package mutating func count() throws -> Int {
        if let custom { return custom.ranges.count }
        do {
            return try self.reader.parse().count
        } catch {
            throw HubValueError.unreadable(error)
        }
    }

    /// Decodes the next argument.
    ///
    /// - Throws: ``HubValueError``, which names the position, the type and the number of arguments.
    package mutating func next<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let index = self.index
        self.index += 1
        do {
            if let custom { return try custom.decode(type, at: index) }
            return try self.reader.next(type)
        } catch is ArrayReader.End {
            throw HubValueError("Expected argument \(index + 1) of type \(type), received \(Self.text(try self.count())).", argument: index)
        } catch {
            throw HubValueError("Argument \(index + 1) of \(try self.count()) can't be decoded as \(type)", argument: index, error)
        }
    }

    /// Decodes all arguments.
    ///
    /// - Parameters:
    ///   - types: The types of the arguments.
    ///   - ignoresMore: Whether there may be more arguments than types.
    /// - Throws: ``HubValueError`` if the number of arguments doesn't match, or for the first argument that can't be decoded.
    package func decode<each Value: Decodable>(
        _ types: repeat (each Value).Type, ignoresMore: Bool = false
    ) throws -> (repeat each Value) {
        var arguments = self
        if !ignoresMore {
            var names: [String] = []
            for type in repeat each types { names.append("\(type)") }
            let count = try arguments.count()
            guard count == names.count else {
                let list = names.isEmpty ? "" : " (\(names.joined(separator: ", ")))"
                throw HubValueError("Expected \(Self.text(names.count))\(list), received \(count).")
            }
        }
        return (repeat try arguments.next((each Value).self))
    }

    private static func text(_ count: Int) -> String { count == 1 ? "1 argument" : "\(count) arguments" }
}

/// The reason why a value can't be encoded or decoded, in terms of the call.
package struct HubValueError: Error, CustomStringConvertible {
    /// A description of the problem, with the position of the argument and its type. It contains no values.
    package let problem: String
    /// The position of the argument, starting at 0, if one is concerned.
    package let argument: Int?
    /// The error of the encoder or decoder, if there is one.
    package let underlying: (any Error)?

    package init(_ problem: String, argument: Int? = nil) {
        self.problem = problem
        self.argument = argument
        self.underlying = nil
    }

    init(_ problem: String, argument: Int? = nil, _ underlying: any Error) {
        self.problem = "\(problem): \(Self.reason(underlying))."
        self.argument = argument
        self.underlying = underlying
    }

    /// The error of arguments that aren't an array, or exceed the limits of the decoder.
    static func unreadable(_ error: any Error) -> Self { Self("The arguments can't be read", error) }

    package var description: String { self.problem }

    /// Returns the error of an encoder, a decoder or a type of the application that led to an error; `nil` if there is none.
    package static func cause(of error: any Error) -> (any Error)? {
        if let error = error as? HubValueError { error.underlying } else { error }
    }

    /// Describes an error of an encoder or decoder for messages and logs: where it occurred, and what was expected. The value isn't part of
    /// it, nor is a text of the application's own coding, which may contain values or secrets.
    package static func reason(_ error: any Error) -> String {
        switch error {
        case let error as HubValueError: error.problem.hasSuffix(".") ? String(error.problem.dropLast()) : error.problem
        case let error as JSONError: error.message
        case let error as MessagePackError: error.message
        default: CodingProblem.text(error) ?? "it threw an error of type \(Swift.type(of: error))"
        }
    }
}

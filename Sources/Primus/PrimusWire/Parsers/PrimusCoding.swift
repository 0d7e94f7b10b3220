package import RealtimeCoding
package import RealtimeCore
import RealtimeSystem

/// The encoding of the values in packets, which is that of the connection's parser.
package enum PrimusCoding: Hashable, Sendable {
    case json, ejson, messagePack, binary
    // Indirect: a message has a copy, which costs less without the existential value.
    indirect case custom(CustomParser)

    /// A parser of the application. Parsers with the same name are equal.
    package struct CustomParser: Hashable, Sendable {
        package let parser: any PrimusParser

        package static func == (lhs: Self, rhs: Self) -> Bool { ByteString(lhs.parser.name) == ByteString(rhs.parser.name) }
        package func hash(into hasher: inout Hasher) { hasher.combine(ByteString(self.parser.name)) }
    }

    /// Creates the encoding of a parser that Primus contains; `nil` for another one.
    package init?(_ kind: PrimusParserKind) {
        switch kind {
        case .json: self = .json
        case .ejson: self = .ejson
        case .msgpack: self = .messagePack
        case .binary: self = .binary
        case .custom: return nil
        }
    }

    /// Creates the encoding of a parser of the application.
    package init(_ parser: any PrimusParser) { self = .custom(CustomParser(parser: parser)) }

    package var kind: PrimusParserKind {
        switch self {
        case .json: .json
        case .ejson: .ejson
        case .messagePack: .msgpack
        case .binary: .binary
        case .custom(let custom): .custom(custom.parser.name)
        }
    }

    /// The form of packets.
    enum Form: Hashable, Sendable {
        /// Text in JSON, whose values can be cut from it.
        case json
        /// MessagePack, whose values can be cut from it.
        case messagePack
        /// A tree, since the values can't be cut from a packet.
        case tree
    }

    var form: Form {
        switch self {
        case .json, .ejson: .json
        case .messagePack: .messagePack
        case .binary, .custom: .tree
        }
    }

    var isTree: Bool { self.form == .tree }

    /// The kind of the messages that carry packets; `nil` if a parser of the application decides.
    package var messageKind: TransportMessage.Kind? {
        switch self {
        case .json, .ejson: .text
        case .messagePack, .binary: .binary
        case .custom: nil
        }
    }
}

// MARK: Coders

extension PrimusCoding {
    /// The parser `json` writes dates as JavaScript does, in ISO 8601 with up to three digits of the fraction, and bytes as Node does.
    private static let jsonEncoder = {
        var encoder = JSONValueEncoder()
        encoder.dates = .iso8601
        encoder.dateFractionDigits = 3
        encoder.writesNodeBuffers = true
        return encoder
    }()

    private static let jsonDecoder = {
        var decoder = JSONValueDecoder()
        decoder.dates = .iso8601
        decoder.assumesUTC = true
        decoder.acceptsNodeBuffers = true
        return decoder
    }()

    /// Converts the error of a codec.
    private static func converted(_ error: JSONError, _ parser: PrimusParserKind) -> PrimusParserError {
        let isLimit = error.code == .tooDeep || error.code == .tooLarge
        return PrimusParserError(
            isLimit ? .limitExceeded : .invalidPacket, "The packet isn't valid for the parser \(parser): \(error.message).")
    }

    private static func converted(_ error: MessagePackError) -> PrimusParserError {
        let isLimit = error.code == .tooDeep || error.code == .tooLarge
        return PrimusParserError(
            isLimit ? .limitExceeded : .invalidPacket, "The packet isn't valid for the parser msgpack: \(error.message).")
    }

    /// Describes an error of a parser or coder for messages and logs. The value isn't part of it, nor is a text of the application's own
    /// coding, which may contain values or secrets.
    package static func reason(_ error: any Error) -> String {
        switch error {
        case let error as PrimusParserError: error.message.hasSuffix(".") ? String(error.message.dropLast()) : error.message
        case let error as JSONError: error.message
        case let error as MessagePackError: error.message
        default: CodingProblem.text(error) ?? "it threw an error of type \(Swift.type(of: error))"
        }
    }

    // MARK: Decoding

    /// Decodes the bytes of a packet, or of a value that was cut from one.
    ///
    /// - Throws: `PrimusParserError`, or the error of the application's parser.
    package func value(_ bytes: [UInt8], limits: CodingLimits = CodingLimits()) throws -> PrimusValue {
        switch self {
        case .json: return PrimusValue(json: try self.parsedJSON(bytes, limits))
        case .ejson: return PrimusValue(ejson: try self.parsedJSON(bytes, limits))
        case .messagePack:
            let value: MessagePackValue
            do throws(MessagePackError) { value = try MessagePackValue(parsing: bytes, limits: limits) } catch {
                throw Self.converted(error)
            }
            return try PrimusValue(messagePack: value, .wire)
        case .binary: return try bytes.withUnsafeBytes { bytes throws(PrimusParserError) in try BinaryPack.value(bytes, limits: limits) }
        case .custom(let custom): return try custom.parser.decode(.binary(bytes))
        }
    }

    private func parsedJSON(_ bytes: [UInt8], _ limits: CodingLimits) throws(PrimusParserError) -> JSONValue {
        do throws(JSONError) { return try JSONValue(parsing: bytes, limits: limits) } catch { throw Self.converted(error, self.kind) }
    }

    /// Decodes a packet. In JSON and EJSON, a binary message isn't decoded, but is the value itself, as in Primus.
    ///
    /// - Throws: `PrimusParserError`, or the error of the application's parser.
    package func value(of message: TransportMessage, limits: CodingLimits = CodingLimits()) throws -> PrimusValue {
        switch self {
        case .json, .ejson: message.kind == .text ? try self.value(message.bytes, limits: limits) : .bytes(message.bytes)
        case .messagePack, .binary:
            if message.kind == .text { throw self.isText } else { try self.value(message.bytes, limits: limits) }
        case .custom(let custom): try custom.parser.decode(message)
        }
    }

    private var isText: PrimusParserError {
        PrimusParserError(
            .invalidPacket, "The packet is text, and the parser \(self.kind) expects binary messages. The server may use another parser.")
    }

    /// Decodes the bytes of a packet, or of a value that was cut from one, as a type of the application.
    ///
    /// Usually, it is decoded without a tree.
    ///
    /// - Throws: `DecodingError`, `PrimusParserError`, or the error of the type's own `init(from:)`.
    package func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8], limits: CodingLimits = CodingLimits()) throws -> Value {
        if Value.self != PrimusValue.self {
            switch self {
            case .json: return try self.decodeJSON(type, bytes, limits)
            case .ejson where !bytes.withUnsafeBytes(Self.mayContainWrapper): return try self.decodeJSON(type, bytes, limits)
            case .messagePack where !Self.containsExtension(bytes):
                var decoder = MessagePackDecoder()
                decoder.limits = limits
                do { return try decoder.decode(type, from: bytes) } catch let error as MessagePackError { throw Self.converted(error) }
            case .binary:
                let nodes = try bytes.withUnsafeBytes { bytes throws(PrimusParserError) in try BinaryPack.nodes(bytes, limits: limits) }
                if let nodes { return try MessagePackDecoder().decode(type, from: bytes, nodes: nodes) }
            default: break
            }
        }
        return try self.value(bytes, limits: limits).decode(as: type)
    }

    private func decodeJSON<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8], _ limits: CodingLimits) throws -> Value {
        do {
            // Usually, the decoder needs no copy with other limits.
            if limits == Self.jsonDecoder.limits { return try Self.jsonDecoder.decode(type, from: bytes) }
            var decoder = Self.jsonDecoder
            decoder.limits = limits
            return try decoder.decode(type, from: bytes)
        } catch let error as JSONError {
            throw Self.converted(error, self.kind)
        }
    }

    /// Decodes a packet as a type of the application.
    ///
    /// - Throws: `DecodingError`, `PrimusParserError`, or the error of the type's own `init(from:)`.
    package func decode<Value: Decodable>(
        _ type: Value.Type, of message: TransportMessage, limits: CodingLimits = CodingLimits()
    ) throws -> Value {
        switch (self, message.kind) {
        case (.json, .text), (.ejson, .text), (.messagePack, .binary), (.binary, .binary):
            try self.decode(type, from: message.bytes, limits: limits)
        default: try self.value(of: message, limits: limits).decode(as: type)
        }
    }

    /// Whether a text in EJSON may contain a wrapper: a key that begins with a dollar sign.
    private static func mayContainWrapper(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while let quote = bytes[index...].firstIndex(of: UInt8(ascii: "\"")) {
            // The dollar sign may be escaped.
            guard quote + 1 < bytes.count else { return false }
            if bytes[quote + 1] == UInt8(ascii: "$") || bytes[quote + 1] == UInt8(ascii: "\\") { return true }
            index = quote + 1
        }
        return false
    }

    private static func containsExtension(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { bytes in
            var reader = MessagePackReader(bytes)
            // The decoder reports invalid bytes.
            return (try? reader.containsExtension()) ?? false
        }
    }

    /// Returns a reader of the elements of an array, which doesn't build a tree; `nil` where that isn't possible.
    func reader(_ bytes: [UInt8]) -> ArrayReader? {
        switch self {
        case .json: ArrayReader(utf8: bytes, Self.jsonDecoder)
        case .ejson: bytes.withUnsafeBytes(Self.mayContainWrapper) ? nil : ArrayReader(utf8: bytes, Self.jsonDecoder)
        case .messagePack: Self.containsExtension(bytes) ? nil : ArrayReader(messagePack: bytes, MessagePackDecoder())
        case .binary, .custom: nil
        }
    }

    // MARK: Encoding

    /// Encodes a value as the bytes of a packet.
    ///
    /// - Throws: `PrimusParserError`, or the error of the application's parser.
    package func encode(_ value: PrimusValue) throws -> [UInt8] {
        var bytes: [UInt8] = []
        switch self {
        case .json:
            bytes = try value.json().bytes
            Self.escapeSeparators(&bytes, from: 0)
        case .ejson:
            bytes = try value.ejson().bytes
            Self.escapeSeparators(&bytes, from: 0)
        case .messagePack: try value.messagePack(.wire).write(to: &bytes)
        case .binary: try BinaryPack.append(value, to: &bytes)
        case .custom(let custom): bytes = try custom.parser.encode(value).bytes
        }
        return bytes
    }

    /// Encodes a value as a packet.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - sendsBytes: Whether the parser `json` sends bytes as a binary message, which a server receives as a buffer. Otherwise, they have the
    ///     form of a buffer in JSON, which SockJS requires.
    /// - Throws: `PrimusParserError`, or the error of the application's parser.
    package func message(_ value: PrimusValue, sendsBytes: Bool = true) throws -> TransportMessage {
        if case .custom(let custom) = self {
            let message = try custom.parser.encode(value)
            switch message.kind {
            case .text, .binary: return message
            case .ping, .pong:
                throw PrimusParserError(
                    .unsupportedValue, "The parser \(custom.parser.name) returned a ping or pong. A packet is a text or binary message.")
            }
        }
        if sendsBytes, self == .json, case .bytes(let bytes) = value { return .binary(bytes) }
        return TransportMessage(self.messageKind ?? .binary, try self.encode(value))
    }

    /// Returns bytes as the parser `json` writes them where a binary message isn't possible.
    package static func nodeBuffer(_ bytes: [UInt8]) -> String {
        #"{"type":"Buffer","data":["# + bytes.map { "\($0)" }.joined(separator: ",") + "]}"
    }

    /// Encodes a value of the application as a packet.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - sendsBytes: Whether the parser `json` sends a `Data` as a binary message; see ``message(_:sendsBytes:)``.
    /// - Throws: `EncodingError`, `PrimusParserError`, or the error of the value's own `encode(to:)`.
    package func message<Value: Encodable>(encoding value: Value, sendsBytes: Bool = true) throws -> TransportMessage {
        if self.isTree || Value.self == PrimusValue.self {
            return try self.message(PrimusValue(encoding: value), sendsBytes: sendsBytes)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(128)
        try self.append(value, to: &bytes)
        // The first bytes of a buffer, before a look at the type.
        if sendsBytes, self == .json, bytes.starts(with: #"{"type":"Buffer""#.utf8),
            let data = try JSONValueEncoder.bytes(ofFoundationData: value)
        {
            return .binary(data)
        }
        return TransportMessage(self.messageKind ?? .binary, bytes)
    }

    /// Appends a value of the application. In JSON and MessagePack, it is encoded without a tree.
    ///
    /// - Throws: `EncodingError`, `PrimusParserError`, or the error of the value's own `encode(to:)`. Nothing is appended then.
    package func append<Value: Encodable>(_ value: Value, to bytes: inout [UInt8]) throws {
        if let value = value as? PrimusValue {
            bytes += try self.encode(value)
            return
        }
        let start = bytes.count
        switch self {
        case .json:
            try Self.jsonEncoder.encode(value, to: &bytes)
            Self.escapeSeparators(&bytes, from: start)
        case .messagePack:
            try MessagePackEncoder().encode(value, to: &bytes)
            let isPlain = bytes.withUnsafeBytes { bytes in
                var reader = MessagePackReader(bytes, in: start..<bytes.count)
                return (try? reader.containsExtension()) == false
            }
            guard !isPlain else { return }
            // The forms of dates differ.
            let encoded = Array(bytes[start...])
            bytes.removeSubrange(start...)
            bytes += try self.encode(PrimusValue(messagePack: MessagePackValue(parsing: encoded), .types))
        case .ejson, .binary, .custom: bytes += try self.encode(PrimusValue(encoding: value))
        }
    }

    func appendArrayStart(count: Int, to bytes: inout [UInt8]) {
        switch self.form {
        case .json: bytes.append(UInt8(ascii: "["))
        case .messagePack:
            var writer = MessagePackWriter()
            swap(&writer.bytes, &bytes)
            writer.arrayHeader(count)
            swap(&writer.bytes, &bytes)
        case .tree: break
        }
    }

    func appendSeparator(to bytes: inout [UInt8]) { if self.form == .json { bytes.append(UInt8(ascii: ",")) } }

    func appendArrayEnd(to bytes: inout [UInt8]) { if self.form == .json { bytes.append(UInt8(ascii: "]")) } }

    /// Replaces U+2028 and U+2029, as Primus does: both end a line in older JavaScript. In JSON, they only occur in strings.
    ///
    /// Source: `encoder` in `primus.js` of Primus 8.
    private static func escapeSeparators(_ bytes: inout [UInt8], from start: Int) {
        guard var index = Self.separator(bytes, from: start) else { return }
        var output = Array(bytes[..<index])
        while index < bytes.count {
            if index + 2 < bytes.count, bytes[index] == 0xE2, bytes[index + 1] == 0x80, bytes[index + 2] & 0xFE == 0xA8 {
                output.append(contentsOf: bytes[index + 2] == 0xA8 ? #"\u2028"#.utf8 : #"\u2029"#.utf8)
                index += 3
            } else {
                output.append(bytes[index])
                index += 1
            }
        }
        bytes = output
    }

    private static func separator(_ bytes: [UInt8], from start: Int) -> Int? {
        var index = start
        while let position = bytes[index...].firstIndex(of: 0xE2) {
            if position + 2 < bytes.count, bytes[position + 1] == 0x80, bytes[position + 2] & 0xFE == 0xA8 { return position }
            index = position + 1
        }
        return nil
    }
}

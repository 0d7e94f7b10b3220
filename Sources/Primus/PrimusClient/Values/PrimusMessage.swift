public import PrimusWire
public import RealtimeCore

/// A message of the server: a packet that isn't decoded until you ask for its value.
///
/// ```swift
/// for await message in primus.messages {
///     print(try message.decode(as: Reading.self))
/// }
/// ```
/// Decoding takes place in your task, each time you ask.
public struct PrimusMessage: Sendable {
    /// The packet as it was received.
    public let raw: TransportMessage
    /// The value of a message that a transform has rewritten.
    private let transformed: PrimusValue?
    package let coding: PrimusCoding

    package init(_ raw: TransportMessage, _ coding: PrimusCoding, transformed: PrimusValue? = nil) {
        (self.raw, self.coding, self.transformed) = (raw, coding, transformed)
    }

    /// The parser of the connection.
    public var parser: PrimusParserKind { self.coding.kind }

    /// The value, of any kind that the parser can carry.
    ///
    /// - Throws: ``PrimusError/Code/decodingFailed`` if the packet isn't valid for the parser.
    public var value: PrimusValue {
        get throws(PrimusError) {
            if let transformed { return transformed }
            do {
                return try self.coding.value(of: self.raw)
            } catch {
                throw .decoding(error, "a value")
            }
        }
    }

    /// Decodes the value as a type of yours. JSON and MessagePack are decoded without an intermediate tree.
    ///
    /// - Parameter type: The type.
    /// - Returns: The decoded value.
    /// - Throws: ``PrimusError/Code/decodingFailed``, whose ``PrimusError/cause`` is the error of the decoder.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws(PrimusError) -> Value {
        do {
            if let transformed { return try transformed.decode(as: type) }
            return try self.coding.decode(type, of: self.raw)
        } catch {
            throw .decoding(error, "\(type)")
        }
    }
}

extension PrimusError {
    static func decoding(_ error: any Error, _ type: String) -> PrimusError {
        PrimusError(.decodingFailed, "The message can't be decoded as \(type): \(PrimusCoding.reason(error)).", cause: error)
    }

    static func encoding(_ error: any Error) -> PrimusError {
        PrimusError(.encodingFailed, "The value can't be encoded, and wasn't sent: \(PrimusCoding.reason(error)).", cause: error)
    }
}

extension PrimusMessage: Redacting {
    /// The value of the message, or the size of one that can't be decoded.
    public var description: String { (try? self.value)?.description ?? "<\(self.raw.bytes.count) bytes>" }

    package var visibleFields: [(name: String, value: Any?)] { [("parser", self.parser), ("value", try? self.value)] }
}

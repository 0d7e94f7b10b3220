public import Foundation
import RealtimeCoding

/// A point in time as MessagePack's extension type -1 stores it.
public struct MsgpackTimestamp: Equatable, Sendable, Encodable, Decodable {
    /// The seconds since 1970.
    public var seconds: Int64
    /// The nanoseconds to add, from 0 to 999,999,999.
    public var nanoseconds: UInt32

    /// Creates a timestamp.
    public init(seconds: Int64, nanoseconds: UInt32) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    /// Decodes a timestamp.
    ///
    /// - Throws: `DecodingError` if the decoder isn't one for MessagePack, or the value isn't a timestamp.
    public init(from decoder: any Decoder) throws {
        let timestamp = try MessagePackTimestamp(from: decoder)
        self.init(seconds: timestamp.seconds, nanoseconds: timestamp.nanoseconds)
    }

    /// Encodes the timestamp in the shortest of its three forms.
    ///
    /// - Throws: `EncodingError` if the encoder isn't one for MessagePack, or there are too many nanoseconds.
    public func encode(to encoder: any Encoder) throws {
        try MessagePackTimestamp(seconds: self.seconds, nanoseconds: self.nanoseconds).encode(to: encoder)
    }
}

extension Encoder {
    /// Returns whether the value is encoded as MessagePack.
    public func isMsgpackEncoder() -> Bool { self.isMessagePackEncoder }

    /// Encodes an extension value of MessagePack.
    ///
    /// - Parameters:
    ///   - extType: The type of the value. Negative types are reserved by the specification.
    ///   - extData: The data of the value.
    /// - Throws: `EncodingError` if the encoder isn't one for MessagePack.
    public func encodeMsgpackExt(extType: Int8, extData: Data) throws {
        try self.encodeMessagePackExtension(type: extType, data: Array(extData))
    }
}

extension Decoder {
    /// Returns whether the value is decoded from MessagePack.
    public func isMsgpackDecoder() -> Bool { self.isMessagePackDecoder }

    /// Returns the type of an extension value of MessagePack.
    ///
    /// - Throws: `DecodingError` if the value isn't an extension value.
    public func getMsgpackExtType() throws -> Int8 { try self.messagePackExtensionType() }

    /// Returns the data of an extension value of MessagePack.
    ///
    /// - Throws: `DecodingError` if the value isn't an extension value.
    public func getMsgpackExtData() throws -> Data { Data(try self.messagePackExtensionData()) }
}

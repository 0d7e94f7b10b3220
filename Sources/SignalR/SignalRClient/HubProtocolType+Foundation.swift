public import Foundation
public import SignalRHubs
import SignalRWire

extension HubProtocolType {
    /// JSON, with the forms that .NET uses by default.
    public static func json() -> HubProtocolType { .json }

    /// JSON with the coders of Foundation.
    ///
    /// Use it for settings that .NET's defaults don't need, such as another strategy for keys. The default of Foundation for a `Date` is a
    /// number, which .NET doesn't read.
    ///
    /// - Parameters:
    ///   - encoder: The encoder for arguments, the results of handlers and the items of streams to the server. It must not be changed
    ///     afterwards.
    ///   - decoder: The decoder for results, the arguments of handlers and the items of streams from the server. It must not be changed
    ///     afterwards.
    public static func json(_ encoder: JSONEncoder, _ decoder: JSONDecoder = JSONDecoder()) -> HubProtocolType {
        HubProtocolType(HubValueCoder(.json, custom: FoundationCoder(encoder: encoder, decoder: decoder)))
    }
}

/// Encodes and decodes with the coders of Foundation.
private struct FoundationCoder: HubValueCoding {
    let encoder: JSONEncoder
    let decoder: JSONDecoder

    func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { Array(try self.encoder.encode(value)) }
    func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try self.decoder.decode(type, from: Data(bytes))
    }
}

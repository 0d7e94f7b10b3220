import RealtimeCoding

/// Reads arbitrary bytes with all readers of MessagePack. They must return the same error or value, and the value must survive writing
/// and parsing.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzMessagePack(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    let bytes = Array(input)
    var reader = MessagePackReader(input)
    let skipError = messagePackError {
        try reader.skip()
        try reader.finish()
    }

    var value: MessagePackValue?
    let error = messagePackError { value = try MessagePackValue(parsing: bytes) }
    // Skipping values does not limit their depth, and can report another one of several errors, because it counts the bytes that all open arrays need.
    precondition(error == nil || skipError != nil || error?.code == .tooDeep, "skipping accepts invalid bytes")
    precondition(skipError == nil || error != nil, "skipping rejects valid bytes")
    var decoded: MessagePackValue?
    let decoderError = messagePackError { decoded = try MessagePackDecoder().decode(MessagePackValue.self, from: bytes) }
    precondition(decoderError == error, "decoding and parsing return different errors")
    // The bytes are compared, because NaN isn't equal to itself.
    precondition(decoded?.bytes == value?.bytes, "decoding and parsing return different values")

    if let value { checkWriting(value) }
    return 0
}

private func checkWriting(_ value: MessagePackValue) {
    let written = value.bytes
    guard let parsed = try? MessagePackValue(parsing: written) else { preconditionFailure("the written value is invalid") }
    precondition(parsed.bytes == written, "writing the parsed value again results in other bytes")
    precondition((try? MessagePackEncoder().encode(value)) == written, "the encoder writes other bytes")
    var encoder = MessagePackEncoder()
    encoder.keys = .convertToPascalCase
    precondition((try? encoder.encode([value])) == [0x91] + written, "the encoder writes other bytes in an array")

    if let json = try? MessagePackDecoder().decode(JSONValue.self, from: written) {
        guard let bytes = try? MessagePackEncoder().encode(json) else { preconditionFailure("a JSON value is not encoded") }
        precondition((try? MessagePackDecoder().decode(JSONValue.self, from: bytes)) == json, "a JSON value does not survive MessagePack")
    }
    var decoder = MessagePackDecoder()
    for keys in [MessagePackDecoder.KeyStrategy.useDefaultKeys, .ignoreCase] {
        decoder.keys = keys
        _ = try? decoder.decode(Shape.self, from: written)
        _ = try? decoder.decode([String: Shape].self, from: written)
        _ = try? decoder.decode([Int: MessagePackTimestamp].self, from: written)
        _ = try? decoder.decode([Bool: [UInt8]].self, from: written)
    }
}

/// A type that decodes many kinds of values.
private struct Shape: Decodable {
    var a: Int?
    var event: String?
    var channel: [Double]?
    var data: [String: Int8?]?
    var bytes: [UInt8]?
    var time: MessagePackTimestamp?
    var numbers: [Int: Float]?
    var more: [Shape]?
}

private func messagePackError(_ body: () throws -> Void) -> MessagePackError? {
    do {
        try body()
        return nil
    } catch let error as MessagePackError {
        return error
    } catch {
        preconditionFailure("not a MessagePackError: \(error)")
    }
}

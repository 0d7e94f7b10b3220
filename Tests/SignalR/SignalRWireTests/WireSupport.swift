import SignalRWire

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

func json(_ text: String) -> HubPayload { HubPayload(.json, bytes(text)) }

/// Text for bytes in tables: hexadecimal numbers, separated by spaces.
func hex(_ text: String) -> [UInt8] { text.split(separator: " ").compactMap { UInt8($0, radix: 16) } }

extension HubMessageReader {
    /// Reads a part of the connection.
    mutating func read(_ bytes: some Sequence<UInt8>, isUTF8: Bool = false) throws -> [Output] {
        var outputs: [Output] = []
        try Array(bytes).withUnsafeBytes { try self.read($0, isUTF8: isUTF8) { outputs.append($0) } }
        return outputs
    }
}

/// The output of a new reader for these parts of a connection.
func read(_ parts: [[UInt8]], _ format: HubFormat, messageLimit: Int = 1 << 20) throws -> [HubMessageReader.Output] {
    var reader = HubMessageReader(format, messageLimit: messageLimit)
    return try parts.flatMap { try reader.read($0) }
}

/// The only output for one message in JSON, without its separator.
func readJSON(_ text: String) throws -> HubMessageReader.Output? {
    let outputs = try read([bytes(text) + [0x1E]], .json)
    return outputs.count == 1 ? outputs[0] : nil
}

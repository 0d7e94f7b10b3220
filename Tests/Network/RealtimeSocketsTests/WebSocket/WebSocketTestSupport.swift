import RealtimeCore
import RealtimeSockets

/// Encodes a frame byte by byte as in the RFC, without the encoder under test.
func frame(_ first: UInt8, _ payload: [UInt8] = [], key: [UInt8]? = nil, lengthBytes: Int? = nil, claims length: UInt64? = nil) -> [UInt8] {
    let length = length ?? UInt64(payload.count)
    let size = lengthBytes ?? (length < 126 ? 0 : length < 65536 ? 2 : 8)
    var bytes = [first, (key == nil ? 0 : 0x80) | (size == 0 ? UInt8(length) : size == 2 ? 126 : 127)]
    for index in 0..<size { bytes.append(UInt8(truncatingIfNeeded: length >> UInt64(8 * (size - 1 - index)))) }
    bytes += key ?? []
    for (index, byte) in payload.enumerated() { bytes.append(byte ^ (key.map { $0[index % 4] } ?? 0)) }
    return bytes
}

func frame(_ first: UInt8, _ text: String, key: [UInt8]? = nil) -> [UInt8] { frame(first, Array(text.utf8), key: key) }

func closeFrame(_ code: UInt16, _ reason: String = "", key: [UInt8]? = nil) -> [UInt8] {
    frame(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)] + Array(reason.utf8), key: key)
}

/// The messages and the end that a decoder returned for a stream.
struct Decoded: Equatable {
    var messages: [TransportMessage] = []
    var end: FrameDecoder.End?

    /// The close code for a violation.
    var failure: CloseCode? {
        if case .failure(let error) = self.end { error.code } else { nil }
    }
}

func decode(_ pieces: [[UInt8]], role: WebSocketRole = .client, limit: Int = 1 << 24) -> Decoded {
    var decoder = FrameDecoder(role: role, messageLimit: limit)
    var decoded = Decoded()
    for piece in pieces {
        var batch = MessageBatch()
        let result = piece.withUnsafeBytes { decoder.decode($0, into: &batch) }
        decoded.messages += batch.messages
        if let end = result.end { decoded.end = end }
    }
    return decoded
}

/// Returns the bytes as single bytes, and split in two at every position.
func everySplit(_ bytes: [UInt8]) -> [[[UInt8]]] {
    [bytes.map { [$0] }] + (0...bytes.count).map { [Array(bytes[..<$0]), Array(bytes[$0...])] }
}

extension [UInt8] {
    /// From hexadecimal digits.
    init(hex: String) {
        let digits: [Character] = .init(hex.filter(\.isHexDigit))
        self = stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0..<($0 + 2)]), radix: 16)! }
    }
}

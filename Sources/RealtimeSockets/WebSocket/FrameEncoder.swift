package import RealtimeCore

/// Writes frames. Messages are never fragmented.
package enum FrameEncoder {
    /// Adds one message as one frame.
    ///
    /// - Parameter mask: the key of a client's frame, never used before; `nil` on a server.
    @inline(__always)
    package static func append(_ kind: WebSocketMessage.Kind, _ payload: [UInt8], mask: UInt32?, to output: inout [UInt8]) {
        payload.withUnsafeBytes { Self.append(kind, $0, mask: mask, to: &output) }
    }

    package static func append(_ kind: WebSocketMessage.Kind, _ payload: UnsafeRawBufferPointer, mask: UInt32?, to output: inout [UInt8]) {
        let opcode =
            switch kind {
            case .text: FrameOpcode.text
            case .binary: FrameOpcode.binary
            case .ping: FrameOpcode.ping
            case .pong: FrameOpcode.pong
            }
        Self.append(opcode: opcode, payload, mask: mask, to: &output)
    }

    /// Adds a close frame. A code that may not be sent stands for none; a reason of more than 123 bytes is cut at a character.
    package static func appendClose(_ code: CloseCode, reason: String, mask: UInt32?, to output: inout [UInt8]) {
        var payload: [UInt8] = []
        if code.mayBeSent {
            payload = [UInt8(code.rawValue >> 8), UInt8(truncatingIfNeeded: code.rawValue)]
            for character in reason.unicodeScalars {
                guard payload.count + UTF8.width(character) <= 125 else { break }
                payload.append(contentsOf: UTF8.encode(character) ?? UTF8.encodedReplacementCharacter)
            }
        }
        payload.withUnsafeBytes { Self.append(opcode: FrameOpcode.close, $0, mask: mask, to: &output) }
    }

    @inline(__always)
    private static func append(opcode: UInt8, _ payload: UnsafeRawBufferPointer, mask: UInt32?, to output: inout [UInt8]) {
        let count = payload.count
        let masked: UInt8 = mask == nil ? 0 : 0x80
        // The header as it lies in memory: two bytes, the longer length if there is one, the key if there is one.
        var header: (UInt64, UInt64) = (0, 0)
        let size = withUnsafeMutableBytes(of: &header) { bytes -> Int in
            var size = 2
            bytes[0] = 0x80 | opcode
            switch count {
            case ..<126:
                bytes[1] = masked | UInt8(truncatingIfNeeded: count)
            case ...0xFFFF:
                bytes[1] = masked | 126
                bytes.storeBytes(of: UInt16(truncatingIfNeeded: count).bigEndian, toByteOffset: 2, as: UInt16.self)
                size = 4
            default:
                bytes[1] = masked | 127
                bytes.storeBytes(of: UInt64(count).bigEndian, toByteOffset: 2, as: UInt64.self)
                size = 10
            }
            if let mask {
                bytes.storeBytes(of: mask.littleEndian, toByteOffset: size, as: UInt32.self)
                size &+= 4
            }
            return size
        }
        withUnsafeBytes(of: &header) { output.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<size])) }
        let start = output.count
        output.append(contentsOf: payload)
        if let mask {
            output.withUnsafeMutableBytes { applyMask(mask, to: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
        }
    }
}

package import RealtimeCore

/// Encodes frames. Messages are never fragmented.
package enum FrameEncoder {
    /// Appends a message as one frame.
    ///
    /// - Parameter mask: A new random key for a frame of a client; `nil` for a frame of a server.
    @inline(__always)
    package static func append(_ kind: TransportMessage.Kind, _ payload: [UInt8], mask: UInt32?, to output: inout [UInt8]) {
        payload.withUnsafeBytes { Self.append(kind, $0, mask: mask, to: &output) }
    }

    package static func append(_ kind: TransportMessage.Kind, _ payload: UnsafeRawBufferPointer, mask: UInt32?, to output: inout [UInt8]) {
        Self.append(opcode: Self.opcode(kind), payload, mask: mask, to: &output)
    }

    private static func opcode(_ kind: TransportMessage.Kind) -> UInt8 {
        switch kind {
        case .text: FrameOpcode.text
        case .binary: FrameOpcode.binary
        case .ping: FrameOpcode.ping
        case .pong: FrameOpcode.pong
        }
    }

    /// Appends the header of a server's frame, whose payload follows unchanged.
    package static func appendHeader(_ kind: TransportMessage.Kind, count: Int, to output: inout [UInt8]) {
        output.append(addingCapacity: FrameHeader.maximumSize) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let start = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                initialized = Self.writeHeader(Self.opcode(kind), count, isMasked: false, to: start)
            }
        }
    }

    /// Appends a close frame. Omits code and reason if the code must not be sent. Truncates a reason of more than 123 bytes at a
    /// character boundary.
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
        output.append(addingCapacity: FrameHeader.maximumSize &+ count) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let start = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                var size = Self.writeHeader(opcode, count, isMasked: mask != nil, to: start)
                if let mask {
                    start.storeBytes(of: mask.littleEndian, toByteOffset: size, as: UInt32.self)
                    size &+= 4
                }
                if let source = payload.baseAddress {
                    if let mask {
                        Mask(mask).copy(source, to: start + size, count: count)
                    } else {
                        (start + size).copyMemory(from: source, byteCount: count)
                    }
                }
                initialized = size &+ count
            }
        }
    }

    /// Writes the header without the mask key.
    ///
    /// - Returns: The number of bytes written.
    @inline(__always)
    private static func writeHeader(_ opcode: UInt8, _ count: Int, isMasked: Bool, to start: UnsafeMutableRawPointer) -> Int {
        let mask: UInt8 = isMasked ? 0x80 : 0
        start.storeBytes(of: 0x80 | opcode, as: UInt8.self)
        switch count {
        case ..<126:
            start.storeBytes(of: mask | UInt8(truncatingIfNeeded: count), toByteOffset: 1, as: UInt8.self)
            return 2
        case ...0xFFFF:
            start.storeBytes(of: mask | 126, toByteOffset: 1, as: UInt8.self)
            start.storeBytes(of: UInt16(truncatingIfNeeded: count).bigEndian, toByteOffset: 2, as: UInt16.self)
            return 4
        default:
            start.storeBytes(of: mask | 127, toByteOffset: 1, as: UInt8.self)
            start.storeBytes(of: UInt64(count).bigEndian, toByteOffset: 2, as: UInt64.self)
            return 10
        }
    }
}

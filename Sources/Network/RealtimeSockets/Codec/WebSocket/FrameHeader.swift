package import RealtimeCore

/// The role of an endpoint of a WebSocket. A client masks the frames it sends, a server does not (RFC 6455 section 5.1).
package enum WebSocketRole: Sendable {
    case client, server
}

/// A violation of the protocol or of a limit that ends the connection.
package struct FrameError: Error, Hashable, Sendable {
    /// The code of the close frame to send.
    package var code: CloseCode
    package var message: String
    /// The reason in the close frame, for the peer.
    package var reason: String

    package init(_ code: CloseCode, _ message: String, reason: String? = nil) {
        self.code = code
        self.message = message
        self.reason = reason ?? message
    }

    static func violation(_ message: String) -> FrameError { FrameError(.protocolError, message) }

    /// The error to report to the owner of the connection.
    package var transportError: TransportError {
        TransportError(self.code == .tooLarge ? .tooLarge : .protocolViolation, self.message)
    }
}

/// The opcodes of RFC 6455 section 5.2.
enum FrameOpcode {
    static let continuation: UInt8 = 0
    static let text: UInt8 = 1
    static let binary: UInt8 = 2
    static let close: UInt8 = 8
    static let ping: UInt8 = 9
    static let pong: UInt8 = 10
}

/// The 2 to 14 bytes before a frame's payload.
struct FrameHeader {
    static let maximumSize = 14

    /// FIN, RSV1 to RSV3 and the opcode.
    var first: UInt8
    var key: UInt32
    var length: Int

    var opcode: UInt8 { self.first & 0x0F }
    var isFinal: Bool { self.first & 0x80 != 0 }
    var isControl: Bool { self.first & 0x08 != 0 }

    /// The size of the header with this second byte.
    @inline(__always)
    static func size(second: UInt8) -> Int {
        let lengthSize =
            switch second & 0x7F {
            case 126: 2
            case 127: 8
            default: 0
            }
        return 2 &+ lengthSize &+ (second & 0x80 == 0 ? 0 : 4)
    }

    /// Reads a complete header and validates it.
    @inline(__always)
    init(_ start: UnsafeRawPointer, role: WebSocketRole) throws(FrameError) {
        self.first = start.load(as: UInt8.self)
        let second = start.load(fromByteOffset: 1, as: UInt8.self)
        try Self.check(first: self.first, second: second, role: role)
        var offset = 2
        switch second & 0x7F {
        case 126:
            self.length = Int(UInt16(bigEndian: start.loadUnaligned(fromByteOffset: 2, as: UInt16.self)))
            guard self.length > 125 else { throw Self.notMinimal }
            offset = 4
        case 127:
            let length = UInt64(bigEndian: start.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
            guard length > 0xFFFF else { throw Self.notMinimal }
            guard let length = Int(exactly: length) else { throw .violation("The peer sent a frame length with its highest bit set.") }
            self.length = length
            offset = 10
        case let short:
            self.length = Int(short)
        }
        self.key = second & 0x80 == 0 ? 0 : UInt32(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    /// Validates the first two bytes.
    @inline(__always)
    private static func check(first: UInt8, second: UInt8, role: WebSocketRole) throws(FrameError) {
        // RSV1 marks a compressed message. Support for an extension that uses it would start here.
        guard first & 0x70 == 0 else { throw .violation("The peer set a reserved bit of a frame without a negotiated extension.") }
        // RFC 6455 section 5.1: frames to a server are masked, frames to a client are not.
        guard (second & 0x80 != 0) == (role == .server) else {
            throw .violation(role == .server ? "The client sent an unmasked frame." : "The server sent a masked frame.")
        }
        switch first & 0x0F {
        case 0...2: return
        case 8...10:
            guard first & 0x80 != 0 else { throw .violation("The peer sent a fragmented control frame.") }
            guard second & 0x7F <= 125 else { throw .violation("The peer sent a control frame of more than 125 bytes.") }
        default: throw .violation("The peer sent a frame with the unknown opcode \(first & 0x0F).")
        }
    }

    /// RFC 6455 section 5.2: "the minimal number of bytes MUST be used".
    private static var notMinimal: FrameError { .violation("The peer encoded a frame length with more bytes than necessary.") }
}

// MARK: Close frames

extension CloseCode {
    /// Whether a close frame may carry the code (RFC 6455 section 7.4 and the IANA registry).
    ///
    /// 1004, 1005, 1006 and 1015 are reserved, the other codes below 3000 are unassigned, and codes end at 4999.
    package var mayBeSent: Bool {
        switch self.rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

extension FrameDecoder {
    /// Reads the payload of a close frame (RFC 6455 section 5.5.1).
    static func readClose(_ payload: [UInt8]) throws(FrameError) -> (CloseCode, String) {
        if payload.isEmpty { return (.noStatus, "") }
        guard payload.count >= 2 else { throw .violation("The peer sent a close frame with a truncated code.") }
        let code = CloseCode(rawValue: UInt16(payload[0]) << 8 | UInt16(payload[1]))
        guard code.mayBeSent else { throw .violation("The peer sent a close frame with the reserved code \(code).") }
        let reason = payload.withUnsafeBytes { bytes -> String? in
            let text = UnsafeRawBufferPointer(rebasing: bytes[2...])
            return UTF8Validator.isValid(text) ? String(decoding: text, as: UTF8.self) : nil
        }
        guard let reason else { throw FrameError(.invalidPayload, "The peer sent a close frame with a reason that is not UTF-8.") }
        return (code, reason)
    }
}

package import RealtimeCore

/// Which end of a WebSocket this is. A client masks what it sends, a server does not (RFC 6455 section 5.1).
package enum WebSocketRole: Sendable {
    case client, server
}

/// A frame, or a message made of frames, that ends the connection.
package struct FrameError: Error, Hashable, Sendable {
    /// The code of the close frame to send.
    package var code: CloseCode
    package var message: String

    package init(_ code: CloseCode, _ message: String) {
        self.code = code
        self.message = message
    }

    static func violation(_ message: String) -> FrameError { FrameError(.protocolError, message) }

    /// The same for the user of the connection.
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
    static let longest = 14

    /// FIN, RSV1 to RSV3 and the opcode.
    var first: UInt8
    var key: UInt32
    var length: Int

    var opcode: UInt8 { self.first & 0x0F }
    var isFinal: Bool { self.first & 0x80 != 0 }
    var isControl: Bool { self.first & 0x08 != 0 }

    /// How long the header is whose second byte this is.
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

    /// Reads a header that is there as a whole, and checks what can be told from it alone.
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

    /// The rules that the first two bytes have to keep.
    @inline(__always)
    private static func check(first: UInt8, second: UInt8, role: WebSocketRole) throws(FrameError) {
        // RSV1 marks a compressed message. When an extension that uses it has been agreed on, this is the place to let it pass.
        guard first & 0x70 == 0 else { throw .violation("The peer set a reserved bit of a frame, and no extension was agreed on.") }
        // RFC 6455 section 5.1: frames to a server are masked, frames to a client are not.
        guard (second & 0x80 != 0) == (role == .server) else {
            throw .violation(role == .server ? "The client sent a frame without a mask." : "The server sent a masked frame.")
        }
        switch first & 0x0F {
        case 0...2: return
        case 8...10:
            guard first & 0x80 != 0 else { throw .violation("The peer sent a fragmented control frame.") }
            guard second & 0x7F <= 125 else { throw .violation("The peer sent a control frame of more than 125 bytes.") }
        default: throw .violation("The peer sent a frame of an unknown kind (opcode \(first & 0x0F)).")
        }
    }

    /// RFC 6455 section 5.2: "the minimal number of bytes MUST be used".
    private static var notMinimal: FrameError { .violation("The peer wrote a frame's length with more bytes than it takes.") }
}

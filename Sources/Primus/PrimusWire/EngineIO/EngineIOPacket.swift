package import RealtimeCore
import RealtimeEncoding

/// A packet of engine.io.
///
/// Source: the protocol descriptions of engine.io, versions 3 and 4.
package struct EngineIOPacket: Hashable, Sendable {
    /// The type of a packet: its first character.
    package enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        case open, close, ping, pong, message, upgrade, noop
    }

    package var kind: Kind
    /// The rest of the packet. A binary message has bytes, and every other packet text in UTF-8.
    package var bytes: [UInt8]
    package var isBinary: Bool

    package init(_ kind: Kind, _ bytes: [UInt8] = [], isBinary: Bool = false) {
        self.kind = kind
        self.bytes = bytes
        self.isBinary = isBinary
    }

    package init(_ kind: Kind, _ text: String) { self.init(kind, Array(text.utf8)) }

    /// The packet of a message of the application.
    package init(_ message: TransportMessage) { self.init(.message, message.bytes, isBinary: message.kind == .binary) }

    /// The text of a packet that isn't binary.
    package var text: String { String(decoding: self.bytes, as: UTF8.self) }

    private static let zero = UInt8(ascii: "0")

    /// The kind of a packet whose first character is a digit; `nil` for another character.
    static func kind(_ digit: UInt8) -> Kind? { digit >= Self.zero ? Kind(rawValue: digit - Self.zero) : nil }

    /// Appends the packet as text.
    func append(to output: inout [UInt8]) {
        output.append(Self.zero + self.kind.rawValue)
        output += self.bytes
    }

    // MARK: WebSocket

    /// Returns the packet as a message of a WebSocket.
    package func transportMessage(_ version: EngineIOVersion) -> TransportMessage {
        guard self.isBinary else {
            var bytes: [UInt8] = []
            bytes.reserveCapacity(self.bytes.count + 1)
            self.append(to: &bytes)
            return TransportMessage(.text, bytes)
        }
        return TransportMessage(.binary, version == .v4 ? self.bytes : [self.kind.rawValue] + self.bytes)
    }

    /// Parses a message of a WebSocket.
    ///
    /// - Throws: ``EngineIOError`` if it isn't a packet.
    package init(_ message: TransportMessage, _ version: EngineIOVersion) throws(EngineIOError) {
        let (kind, start) = try message.bytes.withUnsafeBufferPointer { bytes throws(EngineIOError) in
            try Self.header(UnsafeRawBufferPointer(bytes), message.kind, version)
        }
        self.init(kind, Array(message.bytes[start...]), isBinary: message.kind == .binary)
    }

    /// Returns the kind of a packet in the message that a WebSocket would carry.
    ///
    /// - Throws: ``EngineIOError`` if it isn't a packet.
    package static func kind(
        ofMessage bytes: ArraySlice<UInt8>, _ messageKind: TransportMessage.Kind, _ version: EngineIOVersion
    ) throws(EngineIOError) -> Kind {
        try bytes.withUnsafeBufferPointer { bytes throws(EngineIOError) in
            try Self.header(UnsafeRawBufferPointer(bytes), messageKind, version).0
        }
    }

    /// Returns the kind of a packet in a message of a WebSocket, and the position of the rest.
    static func header(
        _ bytes: UnsafeRawBufferPointer, _ messageKind: TransportMessage.Kind, _ version: EngineIOVersion
    ) throws(EngineIOError) -> (Kind, start: Int) {
        if messageKind == .binary {
            if version == .v4 { return (.message, 0) }
            guard let first = bytes.first, let kind = Kind(rawValue: first) else { throw EngineIOError.invalidPacket(bytes) }
            return (kind, 1)
        }
        if let first = bytes.first, let kind = Self.kind(first) { return (kind, 1) }
        throw EngineIOError.invalidPacket(bytes)
    }
}

/// The body of the packet that opens a session of engine.io.
package struct EngineIOHandshake: Hashable, Sendable {
    /// The ID of the session, which is that of the spark in Primus.
    package var sid: String
    /// The transports to which the session can be moved.
    package var upgrades: [String]
    /// The interval of the pings in milliseconds.
    package var pingInterval: Int
    /// The time in milliseconds in which a ping is answered.
    package var pingTimeout: Int
    /// The maximum size of a body in bytes; `nil` before engine.io 6.
    package var maxPayload: Int?

    package init(sid: String, upgrades: [String] = [], pingInterval: Int = 25_000, pingTimeout: Int = 20_000, maxPayload: Int? = nil) {
        self.sid = sid
        self.upgrades = upgrades
        self.pingInterval = pingInterval
        self.pingTimeout = pingTimeout
        self.maxPayload = maxPayload
    }
}

/// The reason why bytes can't be read as engine.io, or a refusal of the server.
package struct EngineIOError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The codes of the server's refusals.
    package enum Refusal: Int, Hashable, Sendable, CaseIterable {
        case unknownTransport, unknownSession, badHandshakeMethod, badRequest, forbidden, unsupportedVersion

        /// The text of the server.
        package var message: String {
            switch self {
            case .unknownTransport: "Transport unknown"
            case .unknownSession: "Session ID unknown"
            case .badHandshakeMethod: "Bad handshake method"
            case .badRequest: "Bad request"
            case .forbidden: "Forbidden"
            case .unsupportedVersion: "Unsupported protocol version"
            }
        }

        /// The status of the response.
        package var status: Int { self == .forbidden ? 403 : 400 }
    }

    /// The problem, as a sentence without its full stop.
    package let problem: String
    /// The refusal, if the server refused.
    package let refusal: Refusal?

    init(_ problem: String, _ refusal: Refusal? = nil) {
        self.problem = problem
        self.refusal = refusal
    }

    package var description: String { "\(self.problem)." }

    static func invalidPacket(_ bytes: some BidirectionalCollection<UInt8>) -> Self {
        Self(
            bytes.isEmpty
                ? "A packet of engine.io is empty" : "A packet of engine.io begins with \"\(Excerpt.of(bytes: bytes, limit: 20))\"")
    }

    package static func unexpectedPacket(_ bytes: ArraySlice<UInt8>) -> Self {
        Self("A packet of engine.io wasn't expected: \"\(Excerpt.of(bytes: bytes, limit: 20))\"")
    }

    static func invalidPayload(_ problem: String) -> Self { Self("A body of engine.io isn't valid: \(problem)") }
}

/// The ways in which engine.io carries its packets.
package enum EngineIOTransport: String, Hashable, Sendable, CaseIterable {
    case websocket, polling
}

/// The versions of engine.io's protocol.
package enum EngineIOVersion: Int, Hashable, Sendable, CaseIterable, Comparable {
    case v3 = 3
    case v4 = 4

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
}

package import RealtimeCore

/// How packets travel in the messages of one WebSocket, on one side of it. A value without I/O.
package enum PrimusFraming: Hashable, Sendable {
    /// One packet in each message.
    case plain
    case engineIO(EngineIOVersion, Side)
    /// The frames of SockJS. Its raw WebSocket is ``plain``.
    case sockJS(Side)

    /// The side of the connection that uses the value.
    package enum Side: Hashable, Sendable {
        case client, server
    }

    /// A part of a received message.
    package enum Event {
        /// A packet of Primus. The memory is valid during the call.
        case packet(TransportMessage.Kind, UnsafeRawBufferPointer)
        /// The server has opened the session.
        case opened(EngineIOHandshake?)
        /// A ping of engine.io, which the receiver answers with ``PrimusFraming/pong(_:)``, or a heartbeat of SockJS, which needs no answer.
        case ping(String)
        /// The answer to a ping of engine.io.
        case pong(String)
        /// The peer ends the session.
        case closed(code: Int?, reason: String)
        /// The message isn't valid. It has no effect on other messages.
        case invalid(String)
        /// The message isn't one after which the original goes on, such as broken JSON for the server of SockJS. The connection ends.
        case fatal(code: Int, reason: String)
    }

    /// Whether the connection is open only after an event ``Event/opened(_:)``.
    package var hasHandshake: Bool {
        switch self {
        case .plain: false
        case .engineIO(_, let side), .sockJS(let side): side == .client
        }
    }

    /// Reads a message.
    ///
    /// - Parameters:
    ///   - kind: The kind of the message: text or binary.
    ///   - bytes: The message. Valid UTF-8 if it is text.
    ///   - body: Receives what the message contains, in order.
    package func read(_ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, _ body: (Event) -> Void) {
        switch self {
        case .plain: body(.packet(kind, bytes))
        case .engineIO(let version, let side): Self.readEngineIO(kind, bytes, version, side, body)
        case .sockJS(.client): Self.readSockJS(kind, bytes, body)
        case .sockJS(.server): Self.readSockJSClient(kind, bytes, body)
        }
    }

    /// Returns the packet of a message that is one packet of Primus and nothing else; `nil` for a message that ``read(_:_:_:)`` must read.
    package func packet(_ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        switch self {
        case .plain: bytes
        case .engineIO:
            kind == .text && bytes.first == UInt8(ascii: "4") ? UnsafeRawBufferPointer(rebasing: bytes[1...]) : nil
        case .sockJS: nil
        }
    }

    /// Passes on the packet of a message that is a frame of SockJS with one packet, as servers write it.
    ///
    /// - Returns: `false` for a message that ``read(_:_:_:)`` must read. Nothing is passed on then.
    package func readSinglePacket(
        _ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void
    ) -> Bool {
        guard case .sockJS(.client) = self, kind == .text, bytes.first == UInt8(ascii: "a") else { return false }
        return SockJSMessages.single(UnsafeRawBufferPointer(rebasing: bytes[1...]), body)
    }

    private static func readEngineIO(
        _ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, _ version: EngineIOVersion, _ side: Side, _ body: (Event) -> Void
    ) {
        // A peer that was asked to, or that can't send bytes, writes them as text.
        if kind == .text, bytes.first == EngineIOPayload.base64, let binary = EngineIOPayload.binary(bytes, version) {
            return binary.withUnsafeBytes { self.readEngineIO(.binary, $0, version, side, body) }
        }
        do throws(EngineIOError) {
            let (type, start) = try EngineIOPacket.header(bytes, kind, version)
            let rest = UnsafeRawBufferPointer(rebasing: bytes[start...])
            switch type {
            case .message: body(.packet(kind, rest))
            case .open where side == .client: body(.opened(try EngineIOHandshake(parsing: Array(rest))))
            case .ping: body(.ping(String(decoding: rest, as: UTF8.self)))
            case .pong: body(.pong(String(decoding: rest, as: UTF8.self)))
            // Over a WebSocket, a server of engine.io 6 ignores the packet of a client.
            case .close: if side == .client { body(.closed(code: nil, reason: "")) }
            case .open, .upgrade, .noop: break
            }
        } catch {
            // Invalid Base64 has no effect on other packets.
            if side == .server, kind == .binary || bytes.first != EngineIOPayload.base64 {
                return body(.fatal(code: Int(CloseCode.protocolError.rawValue), reason: error.description))
            }
            let text = EngineIOError(refusal: Array(bytes.prefix(200)))
            body(.invalid(text?.description ?? error.description))
        }
    }

    private static func readSockJS(_ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, _ body: (Event) -> Void) {
        guard kind == .text else { return body(.invalid(SockJSError("a frame is binary").description)) }
        do throws(SockJSError) {
            // The frame of messages is the one that counts.
            if let type = bytes.first, type == UInt8(ascii: "a") || type == UInt8(ascii: "m") {
                return try SockJSMessages.forEach(UnsafeRawBufferPointer(rebasing: bytes[1...])) { body(.packet(.text, $0)) }
            }
            switch try SockJSFrame(parsing: bytes) {
            case .open: body(.opened(nil))
            case .heartbeat: body(.ping(""))
            case .messages: break
            case .close(let code, let reason): body(.closed(code: code, reason: reason))
            }
        } catch {
            body(.invalid(error.description))
        }
    }

    private static func readSockJSClient(_ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, _ body: (Event) -> Void) {
        // The server of SockJS ignores an empty frame.
        guard !bytes.isEmpty else { return }
        do throws(SockJSError) {
            try SockJSMessages.forEach(bytes, allowsValues: true) { body(.packet(.text, $0)) }
        } catch {
            body(.fatal(code: 3000, reason: "Broken framing."))
        }
    }

    /// Returns packets as messages of the WebSocket. SockJS carries all of them in one.
    ///
    /// - Parameter packets: The packets. Over SockJS, they are text.
    package func messages(_ packets: [TransportMessage]) -> [TransportMessage] {
        switch self {
        case .plain: return packets
        case .engineIO(let version, _): return packets.map { EngineIOPacket($0).transportMessage(version) }
        case .sockJS(let side):
            guard !packets.isEmpty else { return [] }
            let texts = packets.map { String(decoding: $0.bytes, as: UTF8.self) }
            return [TransportMessage(.text, side == .server ? SockJSMessages.frame(texts) : SockJSMessages.encode(texts))]
        }
    }

    /// The message that opens a session; `nil` where none does.
    package func opening(_ handshake: EngineIOHandshake) -> TransportMessage? {
        switch self {
        case .engineIO(let version, .server): handshake.packet.transportMessage(version)
        case .sockJS(.server): TransportMessage(.text, SockJSFrame.open.bytes)
        case .plain, .engineIO, .sockJS: nil
        }
    }

    /// The message of engine.io that pings the peer; `nil` for other framings.
    package func ping(_ text: String = "") -> TransportMessage? {
        if case .engineIO(let version, _) = self { EngineIOPacket(.ping, text).transportMessage(version) } else { nil }
    }

    /// The message of engine.io that answers a ping; `nil` for other framings.
    package func pong(_ text: String) -> TransportMessage? {
        if case .engineIO(let version, _) = self { EngineIOPacket(.pong, text).transportMessage(version) } else { nil }
    }

    /// The message that ends a session on purpose, before the WebSocket is closed; `nil` where there is none.
    package var closing: TransportMessage? {
        if case .sockJS(.server) = self { TransportMessage(.text, SockJSCloseCode.normal.frame.bytes) } else { nil }
    }
}

import PrimusWire
import RealtimeCore

/// The forms of large messages that sessions over HTTP share, where a form has other bytes than the message.
struct SessionEncodings: Sendable {
    /// A frame of SockJS with the escape sequences of Server-Sent Events.
    let escapedFrame = SharedEncoding()
    private let textOfVersion3 = SharedEncoding()
    private let textOfVersion4 = SharedEncoding()

    /// Returns a packet of engine.io as text, with the bytes of a binary message in Base64.
    func text(_ packet: WebSocketMessage, _ version: EngineIOVersion) -> WebSocketMessage {
        guard packet.kind == .binary else { return packet }
        let encoding = version == .v3 ? self.textOfVersion3 : self.textOfVersion4
        return WebSocketMessage(.text, encoding.encode(packet.bytes) { _ in EngineIOPayload.text(packet, version).bytes })
    }
}

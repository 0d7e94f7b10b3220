import PrimusWire
import RealtimeCore

/// The forms of large messages that sessions over HTTP share, where a form has other bytes than the message.
struct SessionEncodings: Sendable {
    /// A frame of SockJS with the escape sequences of Server-Sent Events.
    let escapedFrames = SharedEncoding()
    /// A binary packet of engine.io 4 as text, in Base64.
    private let texts = SharedEncoding()

    /// Returns a packet of engine.io 4 as text.
    func text(_ packet: TransportMessage) -> TransportMessage {
        guard packet.kind == .binary else { return packet }
        return TransportMessage(.text, self.texts.encode(packet.bytes) { _ in EngineIOPayload.text(packet, .v4).bytes })
    }

    func removeAll() {
        self.escapedFrames.removeAll()
        self.texts.removeAll()
    }
}

package import RealtimeCore

/// Divides what a client sends together, over a WebSocket or in a request, into parts of a limited size, because it may consist of many small
/// messages. The receiver puts a message together that is in several parts.
package struct HubMessageDivider: MessageDivider {
    /// The size of a part in bytes. The smallest message has one byte.
    package static var partSize: Int { 8 << 10 }

    package init() {}

    package func divides(_ kind: TransportMessage.Kind, byteCount: Int) -> Bool {
        byteCount > Self.partSize && (kind == .text || kind == .binary)
    }

    package mutating func appendPart(
        of kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, from position: inout Int, to batch: inout MessageBatch
    ) -> CloseReason? {
        var end = min(position + Self.partSize, bytes.count)
        if end < bytes.count {
            if let separator = bytes[position..<end].lastIndex(of: HubHandshake.separator) {
                end = separator + 1
            } else if kind == .text {
                // Each part is valid text.
                end = bytes[end...].firstIndex(of: HubHandshake.separator).map { $0 + 1 } ?? bytes.count
            }
        }
        batch.append(kind, UnsafeRawBufferPointer(rebasing: bytes[position..<end]))
        position = end
        return nil
    }
}

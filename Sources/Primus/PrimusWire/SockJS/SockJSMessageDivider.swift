package import RealtimeCore
import RealtimeCoding

/// Divides the arrays that a client of SockJS sends, over a WebSocket or in a request, into smaller ones.
package struct SockJSMessageDivider: MessageDivider {
    /// The size of an array that can't have many more elements than fit into a part.
    private static var sizeOfSmallArray: Int { 2 * Self.messagesPerTurn }

    /// Whether the arrays were validated where they were received.
    private let areValid: Bool

    /// - Parameter areValid: Whether the arrays were validated where they were received, so that it isn't done twice.
    package init(areValid: Bool = false) { self.areValid = areValid }

    package func divides(_ kind: TransportMessage.Kind, byteCount: Int) -> Bool { kind == .text && byteCount > Self.sizeOfSmallArray }

    package mutating func appendPart(
        of kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, from position: inout Int, to batch: inout MessageBatch
    ) -> CloseReason? {
        if position == 0, !self.areValid, !Self.isArray(bytes) {
            // It ends the connection.
            batch.append(kind, bytes)
            position = bytes.count
            return nil
        }
        guard let part = SockJSMessages.nextPart(of: bytes, from: &position, limit: Self.messagesPerTurn) else { return nil }
        if part.count == bytes.count - 2 {
            batch.append(kind, bytes)
        } else {
            batch.append(kind, [UInt8(ascii: "[")] + bytes[part] + [UInt8(ascii: "]")])
        }
        return nil
    }

    /// Whether a whole message is valid, because one that isn't has no effect, not even with its beginning.
    private static func isArray(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.first == UInt8(ascii: "[") && (try? JSONText.validate(bytes, isUTF8: true)) != nil
    }
}

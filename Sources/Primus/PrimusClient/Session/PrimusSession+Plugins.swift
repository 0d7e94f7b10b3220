import PrimusWire
import RealtimeCore

/// The packets of plugins, and the callers and consumers of plugins.
extension PrimusSession {
    mutating func receivedByPlugin(
        _ bytes: UnsafeRawBufferPointer, _ kind: WebSocketMessage.Kind, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool { false }

    mutating func receivedByPlugin(_ value: PrimusValue, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        false
    }

    mutating func pluginsOpened(isReconnect: Bool, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {}

    mutating func pluginsLost(_ error: PrimusError, isFinal: Bool, _ effects: inout Effects<Self>) {}
}

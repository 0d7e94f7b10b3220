package import RealtimeCore
package import RealtimeTesting

/// Records the calls of a connection's owner.
package final class RecordingConnection: MessageConnection {
    package enum Call: Hashable, Sendable {
        case opening, sent(String), flushed, paused, resumed, closing(CloseCode), abandoned
    }

    package let calls: EventRecorder<Call>

    private let onFlush: @Sendable () -> Void

    /// - Parameters:
    ///   - calls: Records the calls.
    ///   - onFlush: Called with each call of `flush()`.
    package init(_ calls: EventRecorder<Call> = EventRecorder(), onFlush: @escaping @Sendable () -> Void = {}) {
        (self.calls, self.onFlush) = (calls, onFlush)
    }

    package func open() { self.calls.record(.opening) }
    package func enqueue(_ message: TransportMessage) { self.calls.record(.sent(String(decoding: message.bytes, as: UTF8.self))) }
    package func flush() {
        self.calls.record(.flushed)
        self.onFlush()
    }
    package func pauseReading() { self.calls.record(.paused) }
    package func resumeReading() { self.calls.record(.resumed) }
    package func close(_ code: CloseCode, reason: String) { self.calls.record(.closing(code)) }
    package func abandon() { self.calls.record(.abandoned) }
}

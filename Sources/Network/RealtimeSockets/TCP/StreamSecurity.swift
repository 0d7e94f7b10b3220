import RealtimeSystem

/// TLS on a connected, non-blocking descriptor.
///
/// The stream calls it from any thread, but from one at a time, and not again after `failed`. A write that returned `wantRead` or
/// `wantWrite` is repeated with the same bytes, possibly at another address and followed by more bytes. A write may move fewer bytes than
/// it was given. No call may raise SIGPIPE.
package protocol StreamSecurity: AnyObject, Sendable {
    func handshake() -> IOResult
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
    /// Sends `close_notify`. The stream makes one attempt.
    func shutdown() -> IOResult
}

/// Serializes the calls of a session, which does not allow concurrent reads and writes.
final class SecurityGate: Sendable {
    private let session: Lock<any StreamSecurity>

    init(_ session: any StreamSecurity) {
        self.session = Lock(session)
    }

    func handshake() -> IOResult { self.session.withLock { $0.handshake() } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult { self.session.withLock { $0.read(into: buffer) } }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        self.session.withLock { $0.write(bytes) }
    }

    func shutdown() -> IOResult { self.session.withLock { $0.shutdown() } }
}

import RealtimeSystem
package import RealtimeCore

/// What one attempt to move bytes came to, on a plain socket as with TLS. None of them waits.
package enum IOResult: Sendable, Equatable {
    /// So many bytes were moved; 0 for a handshake or a shutdown that is through.
    case done(Int)
    /// Nothing moved: call again when the descriptor is readable.
    case wantRead
    /// Nothing moved: call again when the descriptor is writable.
    case wantWrite
    /// The peer has said that it sends no more (with TLS, by `close_notify`): what came before it is whole.
    case closed
    /// It is over. With TLS and without a `close_notify` the code is `.closed`: what came may have been cut short.
    case failed(TransportError)
}

/// What TLS does on a connected, non-blocking descriptor.
///
/// The stream calls it from any thread, but never from two at once, and does not look at it again after `failed`.
/// A write that wanted something is repeated with the same bytes, perhaps at another address and with more
/// behind them. A write may take less than all. No call raises SIGPIPE.
package protocol StreamSecurity: AnyObject, Sendable {
    func handshake() -> IOResult
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
    /// Says that nothing more is sent. One attempt is made.
    func shutdown() -> IOResult
}

/// Makes the TLS of a descriptor that has just been connected or accepted.
package typealias StreamSecurityFactory = @Sendable (_ descriptor: Int32) throws(TransportError) -> any StreamSecurity

/// Orders the calls: a session does not bear a read and a write at the same time.
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

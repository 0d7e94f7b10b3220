package import RealtimeCore

/// What one attempt to move bytes came to, on a plain socket as with TLS.
package enum TLSOutcome: Sendable {
    /// So many bytes were moved; a handshake or a shutdown is through.
    case done(Int)
    /// Nothing more until the descriptor is readable.
    case wantRead
    /// Nothing more until the descriptor is writable.
    case wantWrite
    /// The peer has ended the stream in the proper way.
    case closed
    case failed(TransportError)
}

/// What TLS does on a connected, non-blocking descriptor.
///
/// The stream calls it from any thread, but never from two at once, and does not look at it again after `failed`.
/// A write that wanted something is repeated with the same bytes, perhaps at another address and with more
/// behind them. A write may take less than all.
package protocol StreamSecurity: AnyObject, Sendable {
    func handshake() -> TLSOutcome
    func read(into buffer: UnsafeMutableRawBufferPointer) -> TLSOutcome
    func write(_ bytes: UnsafeRawBufferPointer) -> TLSOutcome
    /// Says that nothing more is sent. One attempt is made.
    func shutdown() -> TLSOutcome
}

/// Makes the TLS of a descriptor that has just been connected or accepted.
package typealias StreamSecurityFactory = @Sendable (_ descriptor: Int32) throws(TransportError) -> any StreamSecurity

/// Orders the calls: a session does not bear a read and a write at the same time.
final class SecurityGate: Sendable {
    private let session: Lock<any StreamSecurity>

    init(_ session: any StreamSecurity) {
        self.session = Lock(session)
    }

    func handshake() -> TLSOutcome { self.session.withLock { $0.handshake() } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> TLSOutcome { self.session.withLock { $0.read(into: buffer) } }

    func write(_ bytes: UnsafeRawBufferPointer) -> TLSOutcome {
        withoutBrokenPipeSignal { self.session.withLock { $0.write(bytes) } }
    }

    func shutdown() -> TLSOutcome { withoutBrokenPipeSignal { self.session.withLock { $0.shutdown() } } }
}

import RealtimeSystem
package import RealtimeCore

/// TLS on one connected, non-blocking socket. It does not own the socket: whoever closes it lets go of this first.
///
/// `@unchecked Sendable`: an `SSL` object bears one call at a time, and ``SecurityGate``, the only one who calls it, puts
/// its calls in order. The thread may be another each time, since nothing is left behind in OpenSSL's data of a thread.
package final class TLSSession: StreamSecurity, @unchecked Sendable {
    let context: TLSContext
    let descriptor: Int32
    /// Whom to name in messages.
    let peer: String
    /// The name or address that the certificate has to have.
    let expectedHost: String
    private let ssl: OpaquePointer

    // Set by the callbacks, which run within a call of this object.
    var socketError: Int32 = 0
    var socketEnded = false
    var rejection: TransportError?

    private var isEstablished = false
    private var isWritePending = false
    private var readFailure: TransportError?
    private var writeFailure: TransportError?

    private var functions: OpenSSLFunctions { _read { yield self.context.openSSL.functions } }

    /// The client's end.
    ///
    /// - Parameter host: the endpoint's name or address: the name is sent to the server, and its certificate has to have it.
    package convenience init(client context: TLSContext, descriptor: Int32, host: String) throws(TransportError) {
        guard case .client(let configuration) = context.role else { preconditionFailure("a server's context for a client") }
        let host = try hostWithoutAdornment(configuration.serverName ?? host)
        try self.init(context, descriptor, peer: host, expectedHost: host)
        try self.expect(host, isChecked: configuration.verification == .full)
        self.functions.SSL_set_connect_state(self.ssl)
    }

    /// The server's end.
    package convenience init(server context: TLSContext, descriptor: Int32) throws(TransportError) {
        guard case .server = context.role else { preconditionFailure("a client's context for a server") }
        try self.init(context, descriptor, peer: "the client", expectedHost: "")
        self.functions.SSL_set_accept_state(self.ssl)
    }

    private init(_ context: TLSContext, _ descriptor: Int32, peer: String, expectedHost: String) throws(TransportError) {
        let functions = context.openSSL.functions
        guard let ssl = functions.SSL_new(context.pointer) else { throw .noMemoryForTLS }
        self.ssl = ssl
        self.context = context
        self.descriptor = descriptor
        self.peer = peer
        self.expectedHost = expectedHost
        guard let bio = functions.BIO_new(context.openSSL.socketMethod) else { throw .noMemoryForTLS }
        // Both are freed in deinit, so their pointers to this object are never followed after its end.
        let unowned = Unmanaged.passUnretained(self).toOpaque()
        functions.BIO_set_data(bio, unowned)
        functions.SSL_set_bio(ssl, bio, bio)
        guard functions.SSL_set_ex_data(ssl, 0, unowned) == 1 else { throw .noMemoryForTLS }
        SocketBIO.prepare(descriptor)
    }

    deinit {
        self.functions.SSL_free(self.ssl)
    }

    /// Server name indication is for names alone (RFC 6066 section 3).
    private func expect(_ host: String, isChecked: Bool) throws(TransportError) {
        let functions = self.functions
        self.context.openSSL.forgetErrors()
        var accepted = true
        if isAddress(host) {
            if isChecked { accepted = functions.X509_VERIFY_PARAM_set1_ip_asc(functions.SSL_get0_param(self.ssl), host) == 1 }
        } else {
            accepted = host.withCString {
                functions.SSL_ctrl(self.ssl, OpenSSLNumber.Control.hostName, 0, UnsafeMutableRawPointer(mutating: $0)) == 1
            }
            if isChecked, accepted {
                functions.SSL_set_hostflags(self.ssl, OpenSSLNumber.noPartialWildcards | OpenSSLNumber.neverCheckSubject)
                accepted = functions.SSL_set1_host(self.ssl, host) == 1
            }
        }
        guard accepted else {
            let words = self.context.openSSL.takeReason()?.words ?? "too long"
            throw TransportError(.invalidURL, "\"\(host)\" cannot be a host's name: \(words).")
        }
    }

    /// Goes on with the handshake. `.done(0)` is its end; reading and writing come after it.
    package func handshake() -> IOResult {
        if let failure = self.readFailure { return .failed(failure) }
        if self.isEstablished { return .done(0) }
        self.forgetErrors()
        let result = self.functions.SSL_do_handshake(self.ssl)
        if result == 1 {
            self.isEstablished = true
            return .done(0)
        }
        let outcome = self.outcome(result, .handshake)
        if case .failed(let failure) = outcome {
            self.readFailure = failure
            self.writeFailure = failure
        }
        return outcome
    }

    /// Reads what is there, up to the buffer's size.
    ///
    /// Fewer bytes than the buffer has room for mean that nothing readable is left within, so that the socket's
    /// readiness tells when to read on. When the buffer was filled, see ``hasBufferedInput``.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if let failure = self.readFailure { return .failed(failure) }
        guard let start = buffer.baseAddress, !buffer.isEmpty else { return .done(0) }
        let functions = self.functions
        var count = 0
        repeat {
            self.forgetErrors()
            let result = functions.SSL_read(self.ssl, start + count, Int32(clamping: buffer.count - count))
            if result <= 0 {
                let outcome = self.outcome(result, .reading)
                if case .failed(let failure) = outcome { self.readFailure = failure }
                // What came before the end is handed over first; the end is told by the next call.
                return count > 0 ? .done(count) : outcome
            }
            count += Int(result)
        } while count < buffer.count && functions.SSL_has_pending(self.ssl) == 1
        return .done(count)
    }

    /// Whether bytes have left the socket and were not read yet: its readiness does not tell of them.
    package var hasBufferedInput: Bool {
        self.readFailure != nil || self.functions.SSL_has_pending(self.ssl) == 1
    }

    /// Writes as much as the socket takes.
    ///
    /// When that is less than all, the next call starts with the bytes that were left, and has at least as many,
    /// as a first-in-first-out buffer does by itself: a part of them may already be encrypted.
    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if let failure = self.writeFailure { return .failed(failure) }
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return .done(0) }
        var count = 0
        while count < bytes.count {
            self.forgetErrors()
            let result = self.functions.SSL_write(self.ssl, start + count, Int32(clamping: bytes.count - count))
            if result > 0 {
                count += Int(result)
                self.isWritePending = false
                continue
            }
            let outcome = self.outcome(result, .writing)
            if case .failed(let failure) = outcome {
                self.writeFailure = failure
                return outcome
            }
            self.isWritePending = true
            return count > 0 ? .done(count) : outcome
        }
        return .done(count)
    }

    /// Says that nothing more is sent (`close_notify`); reading goes on. `.done(0)`: said, or there is nobody to say it
    /// to. `.closed`: said, and the peer has said it too. `.wantWrite`: write what is left first, or call again.
    package func shutdown() -> IOResult {
        guard self.isEstablished, self.writeFailure == nil, self.readFailure == nil else { return .done(0) }
        if self.isWritePending { return .wantWrite }
        self.forgetErrors()
        let result = self.functions.SSL_shutdown(self.ssl)
        if result >= 0 { return result == 0 ? .done(0) : .closed }
        let outcome = self.outcome(result, .writing)
        if case .failed(let failure) = outcome { self.writeFailure = failure }
        return outcome
    }

    /// The version in use, as in "TLSv1.3".
    package var version: String {
        self.functions.SSL_get_version(self.ssl).map { String(cString: $0) } ?? "unknown"
    }

    /// On a server, the name that the client asked for.
    package var requestedServerName: String? {
        self.functions.SSL_get_servername(self.ssl, 0).map { String(cString: $0) }
    }

    /// What was agreed on by ALPN.
    package var applicationProtocol: String? {
        var start: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        self.functions.SSL_get0_alpn_selected(self.ssl, &start, &count)
        guard let start, count > 0 else { return nil }
        return String(decoding: UnsafeBufferPointer(start: start, count: Int(count)), as: UTF8.self)
    }

    @inline(__always)
    private func forgetErrors() {
        self.context.openSSL.forgetErrors()
        self.socketError = 0
    }

    private func outcome(_ result: Int32, _ stage: TLSStage) -> IOResult {
        switch self.functions.SSL_get_error(self.ssl, result) {
        case OpenSSLNumber.Failure.wantRead: .wantRead
        case OpenSSLNumber.Failure.wantWrite: .wantWrite
        case OpenSSLNumber.Failure.zeroReturn where stage != .handshake: .closed
        default: .failed(self.failure(stage))
        }
    }
}

/// Without the dot of a fully qualified name and the zone of a link-local address: neither is in a certificate.
private func hostWithoutAdornment(_ given: String) throws(TransportError) -> String {
    var host = given[...]
    if host.hasSuffix(".") { host.removeLast() }
    if host.utf8.contains(UInt8(ascii: ":")), let percent = host.firstIndex(of: "%") { host = host[..<percent] }
    // An empty name would mean "any" to OpenSSL, and a zero byte would end the name.
    guard !host.isEmpty, !host.utf8.contains(0) else {
        throw TransportError(.invalidURL, "TLS needs the server's name or address, and \"\(given.filter { $0 != "\0" })\" is none.")
    }
    return String(host)
}

private func isAddress(_ host: String) -> Bool {
    var bytes = in6_addr()
    return inet_pton(AF_INET, host, &bytes) == 1 || inet_pton(AF_INET6, host, &bytes) == 1
}

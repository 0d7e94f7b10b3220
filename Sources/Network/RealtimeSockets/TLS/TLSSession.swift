import RealtimeSystem
package import RealtimeCore

/// A TLS session on a connected, non-blocking socket. It does not own the socket, and must be released before the socket is closed.
///
/// `@unchecked Sendable`: an `SSL` object must not be used concurrently, and its only user, `SecurityGate`, serializes the calls.
/// They can come from different threads, because no state remains in OpenSSL's thread-local data between calls.
package final class TLSSession: StreamSecurity, @unchecked Sendable {
    let context: TLSContext
    let descriptor: Int32
    /// The name of the peer in error messages.
    let peer: String
    /// The name or address that the certificate must match.
    let expectedHost: String
    private let ssl: OpaquePointer

    // Set by callbacks during calls of this object's methods.
    var socketError: Int32 = 0
    var socketEnded = false
    var rejection: TransportError?

    private var isEstablished = false
    private var isWritePending = false
    private var readFailure: TransportError?
    private var writeFailure: TransportError?

    private var functions: OpenSSLFunctions { _read { yield self.context.openSSL.functions } }

    /// Creates the session of a client.
    ///
    /// - Parameters:
    ///   - context: A context for clients.
    ///   - descriptor: The socket.
    ///   - host: The host name or address of the server, which its certificate must match. A name is sent to the server.
    ///   - peer: The name of the server in error messages, or `nil` for the host.
    /// - Throws: `TransportError` if the host is invalid or memory is exhausted.
    package convenience init(
        client context: TLSContext, descriptor: Int32, host: String, peer: String? = nil
    ) throws(TransportError) {
        guard case .client(let configuration) = context.role else { preconditionFailure("A client requires a client's context.") }
        let host = try certificateHost(configuration.serverName ?? host)
        try self.init(context, descriptor, peer: peer ?? host, expectedHost: host)
        try self.expect(host, isChecked: configuration.verification == .full)
        self.functions.SSL_set_connect_state(self.ssl)
    }

    /// Creates the session of a server.
    ///
    /// - Parameters:
    ///   - context: A context for servers.
    ///   - descriptor: The socket.
    /// - Throws: `TransportError` if memory is exhausted.
    package convenience init(server context: TLSContext, descriptor: Int32) throws(TransportError) {
        guard case .server = context.role else { preconditionFailure("A server requires a server's context.") }
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
        // Both are freed in `deinit`, so their unowned pointers to this object are always valid.
        let unowned = Unmanaged.passUnretained(self).toOpaque()
        functions.BIO_set_data(bio, unowned)
        functions.SSL_set_bio(ssl, bio, bio)
        guard functions.SSL_set_ex_data(ssl, 0, unowned) == 1 else { throw .noMemoryForTLS }
        SocketBIO.prepare(descriptor)
    }

    deinit {
        self.functions.SSL_free(self.ssl)
    }

    /// Sets the host that is sent to the server and that its certificate must match. Server name indication excludes IP addresses (RFC
    /// 6066 section 3).
    private func expect(_ host: String, isChecked: Bool) throws(TransportError) {
        let functions = self.functions
        self.context.openSSL.clearErrors()
        var accepted = true
        if isAddress(host) {
            if isChecked { accepted = functions.X509_VERIFY_PARAM_set1_ip_asc(functions.SSL_get0_param(self.ssl), host) == 1 }
        } else {
            accepted = host.withCString {
                functions.SSL_ctrl(self.ssl, OpenSSLConstant.Control.hostName, 0, UnsafeMutableRawPointer(mutating: $0)) == 1
            }
            if isChecked, accepted {
                functions.SSL_set_hostflags(self.ssl, OpenSSLConstant.noPartialWildcards | OpenSSLConstant.neverCheckSubject)
                accepted = functions.SSL_set1_host(self.ssl, host) == 1
            }
        }
        guard accepted else {
            let reason = self.context.openSSL.takeReason()?.text ?? "too long"
            throw TransportError(.invalidURL, "Invalid host name \"\(host)\": \(reason).")
        }
    }

    /// Continues the handshake. It is complete when this returns `.done(0)`; before that, the session must not be read or written.
    package func handshake() -> IOResult {
        if let failure = self.readFailure { return .failed(failure) }
        if self.isEstablished { return .done(0) }
        self.clearErrors()
        let code = self.functions.SSL_do_handshake(self.ssl)
        if code == 1 {
            self.isEstablished = true
            return .done(0)
        }
        let result = self.result(code, .handshake)
        if case .failed(let failure) = result {
            self.readFailure = failure
            self.writeFailure = failure
        }
        return result
    }

    /// Reads the available bytes, up to the size of the buffer.
    ///
    /// If the buffer is not filled, no more bytes are available until the socket is readable. If it is filled, more bytes may be buffered
    /// in the session, so call the method again before waiting for the socket.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if let failure = self.readFailure { return .failed(failure) }
        guard let start = buffer.baseAddress, !buffer.isEmpty else { return .done(0) }
        let functions = self.functions
        var count = 0
        repeat {
            self.clearErrors()
            let code = functions.SSL_read(self.ssl, start + count, Int32(clamping: buffer.count - count))
            if code <= 0 {
                let result = self.result(code, .reading)
                if case .failed(let failure) = result { self.readFailure = failure }
                // Bytes before the end are returned first. The next call returns the end.
                return count > 0 ? .done(count) : result
            }
            count += Int(code)
        } while count < buffer.count && functions.SSL_has_pending(self.ssl) == 1
        return .done(count)
    }

    /// Writes as many bytes as the socket accepts.
    ///
    /// If these are not all bytes, the next call must start with the remaining bytes, and must not contain fewer, because a part of them
    /// may already be encrypted. A first-in, first-out buffer satisfies this.
    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if let failure = self.writeFailure { return .failed(failure) }
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return .done(0) }
        var count = 0
        while count < bytes.count {
            self.clearErrors()
            let code = self.functions.SSL_write(self.ssl, start + count, Int32(clamping: bytes.count - count))
            if code > 0 {
                count += Int(code)
                self.isWritePending = false
                continue
            }
            let result = self.result(code, .writing)
            if case .failed(let failure) = result {
                self.writeFailure = failure
                return result
            }
            self.isWritePending = true
            return count > 0 ? .done(count) : result
        }
        return .done(count)
    }

    /// Sends a `close_notify` alert, which ends the output of this side. Reading remains possible.
    ///
    /// - Returns: `.done(0)` if the alert was sent or the connection has failed, `.closed` if it was sent and the peer's has been
    ///   received, `.wantWrite` if pending bytes must be written first or the socket is full.
    package func shutdown() -> IOResult {
        guard self.isEstablished, self.writeFailure == nil, self.readFailure == nil else { return .done(0) }
        if self.isWritePending { return .wantWrite }
        self.clearErrors()
        let code = self.functions.SSL_shutdown(self.ssl)
        if code >= 0 { return code == 0 ? .done(0) : .closed }
        let result = self.result(code, .writing)
        if case .failed(let failure) = result { self.writeFailure = failure }
        return result
    }

    /// The version that was negotiated, such as "TLSv1.3".
    package var version: String {
        self.functions.SSL_get_version(self.ssl).map { String(cString: $0) } ?? "unknown"
    }

    @inline(__always)
    private func clearErrors() {
        self.context.openSSL.clearErrors()
        self.socketError = 0
    }

    private func result(_ code: Int32, _ operation: TLSOperation) -> IOResult {
        switch self.functions.SSL_get_error(self.ssl, code) {
        case OpenSSLConstant.Failure.wantRead: .wantRead
        case OpenSSLConstant.Failure.wantWrite: .wantWrite
        case OpenSSLConstant.Failure.zeroReturn where operation != .handshake: .closed
        default: .failed(self.failure(operation))
        }
    }
}

/// The host as it appears in a certificate: without the trailing dot of a fully qualified name and the zone of a link-local address.
private func certificateHost(_ endpointHost: String) throws(TransportError) -> String {
    var host = endpointHost[...]
    if host.hasSuffix(".") { host.removeLast() }
    if host.utf8.contains(UInt8(ascii: ":")), let percent = host.firstIndex(of: "%") { host = host[..<percent] }
    let name = String(host)
    // OpenSSL accepts any certificate for an empty name, ends a name at a zero byte, and matches every subdomain for a leading dot.
    guard isAddress(name) || isHostName(name) else {
        // The invalid part can be a password.
        throw TransportError(
            .invalidURL,
            "Invalid host name for TLS: use the server's host name, such as www.example.com, or its IP address. "
                + "Encode names outside ASCII with Punycode (xn--…).")
    }
    return name
}

/// Whether the text consists of labels of letters, digits, hyphens and underscores, separated by dots (RFC 1035 section 2.3.1). Some hosts
/// have underscores in their names.
private func isHostName(_ text: String) -> Bool {
    guard text.utf8.count <= 253 else { return false }
    return text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy { label in
        (1...63).contains(label.count)
            && label.allSatisfy {
                switch $0 {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
    }
}

private func isAddress(_ host: String) -> Bool {
    var bytes = in6_addr()
    return inet_pton(AF_INET, host, &bytes) == 1 || inet_pton(AF_INET6, host, &bytes) == 1
}

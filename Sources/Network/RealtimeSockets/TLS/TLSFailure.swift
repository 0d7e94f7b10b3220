import RealtimeSystem
import RealtimeCore

/// The operation of a session that failed.
enum TLSOperation {
    case handshake, reading, writing
}

extension TransportError {
    static var noMemoryForTLS: TransportError { TransportError(.system, "Out of memory for a TLS connection.") }
}

extension TLSSession {
    /// The error for the last call.
    ///
    /// A rejected certificate takes precedence over OpenSSL's error, which takes precedence over the error of the socket, because each
    /// can be a consequence of the previous one.
    func failure(_ operation: TLSOperation) -> TransportError {
        let reason = self.context.openSSL.takeReason()
        if let rejection = self.rejection { return rejection }
        let subject = operation == .handshake ? "The TLS handshake with \(self.peer)" : "The TLS connection to \(self.peer)"
        if let reason, !reason.isSystemError, reason.number != OpenSSLConstant.Reason.unexpectedEnd {
            let hint = self.hint(reason.number).map { ": \($0)" } ?? ""
            return TransportError(.tlsFailed, "\(subject) failed (\(reason.text))\(hint).")
        }
        if self.socketError != 0 {
            let code = code(self.socketError)
            let reason = String(cString: strerror(self.socketError))
            return TransportError(code, "\(subject) failed: \(code == .reset ? "the peer reset the connection (\(reason))" : reason).")
        }
        if self.socketEnded {
            let reason =
                operation == .handshake ? "the peer closed the connection" : "the peer closed the connection without a close_notify alert"
            return TransportError(.closed, "\(subject) failed: \(reason).")
        }
        return TransportError(.tlsFailed, "\(subject) failed.")
    }

    private func hint(_ reason: UInt) -> String? {
        switch self.context.role {
        case .client(let configuration): clientHint(reason, configuration)
        case .server: serverHint(reason)
        }
    }
}

private func clientHint(_ reason: UInt, _ configuration: TLSConfiguration) -> String? {
    typealias Reason = OpenSSLConstant.Reason
    switch reason {
    case Reason.wrongVersionNumber, Reason.packetTooLong, Reason.badRecordType, Reason.unexpectedMessage:
        return "the server does not seem to use TLS on this port; for an unencrypted connection, use ws:// or http://"
    case Reason.protocolVersionAlert, Reason.unsupportedProtocol, Reason.unsupportedVersion, Reason.versionTooLow:
        return "the server does not support \(configuration.minimumVersion) or later"
    case Reason.handshakeFailureAlert, Reason.noSharedCipher:
        return
            "client and server support different ciphers, or the server does not recognize the host name or requires a client certificate"
    case Reason.unrecognizedNameAlert:
        return "the server does not recognize the host name"
    case Reason.certificateRequiredAlert:
        return certificateRequired(configuration)
    case Reason.badCertificateAlert, Reason.certificateExpiredAlert, Reason.certificateUnknownAlert, Reason.unknownAuthorityAlert:
        return configuration.identity == nil ? certificateRequired(configuration) : "the server rejected the client certificate"
    default:
        return nil
    }
}

private func certificateRequired(_ configuration: TLSConfiguration) -> String {
    "the server requires a client certificate" + (configuration.nameOfIdentity.map { "; set \($0)" } ?? "")
}

private func serverHint(_ reason: UInt) -> String? {
    typealias Reason = OpenSSLConstant.Reason
    switch reason {
    case Reason.httpRequest, Reason.wrongVersionNumber, Reason.packetTooLong, Reason.badRecordType:
        return "the client does not use TLS; it must use wss:// or https://"
    case Reason.badCertificateAlert, Reason.certificateExpiredAlert, Reason.certificateUnknownAlert, Reason.unknownAuthorityAlert:
        return "the client rejected the server's certificate"
    case Reason.noCertificate:
        return "the client did not send a certificate"
    default:
        return nil
    }
}

private func code(_ error: Int32) -> TransportError.Code {
    switch error {
    case ECONNRESET, EPIPE: .reset
    case ETIMEDOUT: .timedOut
    case EHOSTUNREACH, ENETUNREACH, ENETDOWN: .unreachable
    default: .system
    }
}

// MARK: Certificate verification

extension TLSSession {
    /// OpenSSL calls this for each certificate of the peer. It does not change the result, but records which certificate was rejected.
    static let verifyCallback: OpenSSLFunctions.VerifyCallback = { accepted, store in
        guard accepted != 1, let openSSL = OpenSSL.current else { return accepted }
        let functions = openSSL.functions
        let ssl = functions.X509_STORE_CTX_get_ex_data(store, functions.SSL_get_ex_data_X509_STORE_CTX_idx())
        guard let ssl, let session = functions.SSL_get_ex_data(OpaquePointer(ssl), 0) else { return accepted }
        Unmanaged<TLSSession>.fromOpaque(session).takeUnretainedValue().noteRejection(store)
        return accepted
    }

    private func noteRejection(_ store: OpaquePointer?) {
        let functions = self.context.openSSL.functions
        let error = functions.X509_STORE_CTX_get_error(store)
        let depth = functions.X509_STORE_CTX_get_error_depth(store)
        let certificate = functions.X509_STORE_CTX_get_current_cert(store)
        let owner =
            switch self.context.role {
            case .client: "The certificate of \(self.peer)"
            case .server: "The client certificate"
            }
        let text = functions.X509_verify_cert_error_string(Int(error)).map { String(cString: $0) } ?? "unknown error"
        var message = "\(owner) was rejected: \(self.explanation(error, certificate) ?? text)"
        if let certificate {
            let subject = self.context.openSSL.subject(of: certificate)
            let issuer = self.context.openSSL.issuer(of: certificate)
            message += " (certificate at depth \(depth), subject \(subject), issuer \(issuer); OpenSSL: \(text))"
        }
        self.rejection = TransportError(.certificateRejected, message + ".")
    }

    private func explanation(_ error: Int32, _ certificate: OpaquePointer?) -> String? {
        typealias Verify = OpenSSLConstant.Verify
        let openSSL = self.context.openSSL
        switch error {
        case Verify.expired:
            return certificate.map { "it expired on \(openSSL.end(of: $0)); if that is in the future, check the system clock" }
        case Verify.notYetValid:
            return certificate.map { "it is not valid before \(openSSL.start(of: $0)); if that is in the past, check the system clock" }
        case Verify.wrongHost, Verify.wrongAddress:
            let hosts = certificate.map { openSSL.hosts(of: $0) } ?? []
            if hosts.isEmpty { return "it has no subject alternative names; the common name is not used" }
            let names = hosts.prefix(8).joined(separator: ", ") + (hosts.count > 8 ? " and \(hosts.count - 8) more" : "")
            return "it is for \(names), not for \(self.expectedHost)"
        case Verify.selfSigned:
            return "it is self-signed; if you trust it, add it to \(self.rootsProperty)"
        case Verify.selfSignedInChain:
            return "its root certificate is not trusted; if you trust it, add it to \(self.rootsProperty)"
        case Verify.noIssuer, Verify.noLocalIssuer, Verify.leafUnverified:
            if self.context.systemRootsAreMissing {
                return "the system has no root certificates; install the package ca-certificates"
            }
            return "its issuer is unknown; add the root certificate to \(self.rootsProperty), or send the intermediate certificates"
        default:
            return nil
        }
    }

    private var rootsProperty: String {
        switch self.context.role {
        case .client(let configuration): configuration.nameOfTrustRoots
        case .server: "the roots of `TLSServerConfiguration.clientCertificates`"
        }
    }
}

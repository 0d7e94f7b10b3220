import RealtimeSystem
import RealtimeCore

enum TLSStage {
    case handshake, reading, writing
}

extension TransportError {
    static var noMemoryForTLS: TransportError { TransportError(.system, "There is no memory for another TLS connection.") }
}

extension TLSSession {
    /// Why the last call failed. The certificate comes before OpenSSL's words, and those before the socket's error:
    /// each of the later ones may be a consequence of the earlier one.
    func failure(_ stage: TLSStage) -> TransportError {
        let reason = self.context.openSSL.takeReason()
        if let rejection = self.rejection { return rejection }
        let what = stage == .handshake ? "The TLS handshake with \(self.peer)" : "The TLS connection to \(self.peer)"
        if let reason, !reason.isOfSystem, reason.number != OpenSSLNumber.Reason.unexpectedEnd {
            let hint = self.hint(reason.number).map { ": \($0)" } ?? ""
            return TransportError(.tlsFailed, "\(what) failed (\(reason.words))\(hint).")
        }
        if self.socketError != 0 {
            return TransportError(code(self.socketError), "\(what) was cut: \(String(cString: strerror(self.socketError))).")
        }
        if self.socketEnded {
            let end = stage == .handshake ? "ended before it was done" : "ended without the notice that it was complete"
            return TransportError(.closed, "\(what) \(end): the other side closed the socket.")
        }
        return TransportError(.tlsFailed, "\(what) failed.")
    }

    private func hint(_ reason: UInt) -> String? {
        switch self.context.role {
        case .client(let configuration): clientHint(reason, configuration)
        case .server: serverHint(reason)
        }
    }
}

private func clientHint(_ reason: UInt, _ configuration: TLSConfiguration) -> String? {
    typealias Reason = OpenSSLNumber.Reason
    switch reason {
    case Reason.wrongVersionNumber, Reason.packetTooLong, Reason.badRecordType, Reason.unexpectedMessage:
        return "the server does not seem to speak TLS on this port; for a plain connection use ws:// or http://"
    case Reason.protocolVersionAlert, Reason.unsupportedProtocol, Reason.unsupportedVersion, Reason.versionTooLow:
        return "the server does not speak \(configuration.minimumVersion) or newer"
    case Reason.handshakeFailureAlert, Reason.noSharedCipher:
        return "the two have no cipher in common, or the server does not know this name or wants a certificate"
    case Reason.unrecognizedNameAlert:
        return "the server does not know this name"
    case Reason.certificateRequiredAlert:
        return "the server wants a client's certificate; set the configuration's identity"
    case Reason.badCertificateAlert, Reason.certificateExpiredAlert, Reason.certificateUnknownAlert, Reason.unknownAuthorityAlert:
        return configuration.identity == nil
            ? "the server wants a client's certificate; set the configuration's identity"
            : "the server does not accept the client's certificate"
    case Reason.noApplicationProtocolAlert:
        return "the server speaks none of the application protocols that were offered"
    default:
        return nil
    }
}

private func serverHint(_ reason: UInt) -> String? {
    typealias Reason = OpenSSLNumber.Reason
    switch reason {
    case Reason.httpRequest, Reason.wrongVersionNumber, Reason.packetTooLong, Reason.badRecordType:
        return "the client does not speak TLS; it has to use wss:// or https://"
    case Reason.badCertificateAlert, Reason.certificateExpiredAlert, Reason.certificateUnknownAlert, Reason.unknownAuthorityAlert:
        return "the client does not accept this server's certificate"
    case Reason.noCertificate:
        return "the client showed no certificate"
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

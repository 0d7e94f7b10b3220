import RealtimeCore

extension TLSSession {
    /// Called by OpenSSL for each certificate of the peer. It changes no verdict; it notes which certificate failed.
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
        let whose =
            switch self.context.role {
            case .client: "The certificate of \(self.peer)"
            case .server: "The client's certificate"
            }
        let words = functions.X509_verify_cert_error_string(Int(error)).map { String(cString: $0) } ?? "unknown"
        var message = "\(whose) was rejected: \(self.explanation(error, certificate) ?? words)"
        if let certificate {
            let subject = self.context.openSSL.subject(of: certificate)
            let issuer = self.context.openSSL.issuer(of: certificate)
            message += " (certificate at depth \(depth), subject \(subject), issuer \(issuer); OpenSSL: \(words))"
        }
        self.rejection = TransportError(.certificateRejected, message + ".")
    }

    private func explanation(_ error: Int32, _ certificate: OpaquePointer?) -> String? {
        typealias Verify = OpenSSLNumber.Verify
        let openSSL = self.context.openSSL
        switch error {
        case Verify.expired:
            return certificate.map { "it expired on \(openSSL.end(of: $0)); if it did not, check this machine's clock" }
        case Verify.notYetValid:
            return certificate.map { "it is valid from \(openSSL.begin(of: $0)) on; if it should be valid now, check this machine's clock" }
        case Verify.wrongHost, Verify.wrongAddress:
            let hosts = certificate.map { openSSL.hosts(of: $0) } ?? []
            if hosts.isEmpty { return "it names no host (it has no subject alternative names; a common name does not count)" }
            let named = hosts.prefix(8).joined(separator: ", ") + (hosts.count > 8 ? " and \(hosts.count - 8) more" : "")
            return "it is for \(named), not for \(self.expectedHost)"
        case Verify.selfSigned:
            return "it is signed by itself; if you know it, add it to the \(self.placeOfRoots)"
        case Verify.selfSignedInChain:
            return "it leads to an authority that is not trusted; if you know that one, add it to the \(self.placeOfRoots)"
        case Verify.noIssuer, Verify.noLocalIssuer, Verify.leafUnverified:
            if self.context.systemRootsAreMissing {
                return "no authorities are installed on this system to check it against; install the package ca-certificates"
            }
            return "its issuer is unknown; add that authority to the \(self.placeOfRoots), or have the certificates in between sent with it"
        default:
            return nil
        }
    }

    private var placeOfRoots: String {
        switch self.context.role {
        case .client: "configuration's trustRoots"
        case .server: "configuration's roots for client certificates"
        }
    }
}

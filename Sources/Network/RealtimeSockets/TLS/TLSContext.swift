package import RealtimeCore
import RealtimeSystem

/// The state shared by all connections with the same configuration.
///
/// It contains the root certificates. Reading the system's takes several milliseconds and about a megabyte.
///
/// `@unchecked Sendable`: an `SSL_CTX` has an atomic reference count and locks its mutable state. Here it is configured in the
/// initializer and not modified afterwards.
package final class TLSContext: @unchecked Sendable {
    enum Role {
        case client(TLSConfiguration)
        case server(TLSServerConfiguration)
    }

    let openSSL: OpenSSL
    let pointer: OpaquePointer
    let role: Role
    /// Whether the configuration uses the system's root certificates, but none were found.
    private(set) var systemRootsAreMissing = false

    /// Returns a context for clients. The context of the default configuration is shared by the whole process.
    ///
    /// - Throws: `TransportError` if OpenSSL is not available or a certificate or key cannot be used.
    package static func client(_ configuration: TLSConfiguration) throws(TransportError) -> TLSContext {
        guard configuration == TLSConfiguration() else { return try TLSContext(.client(configuration)) }
        if let context = Self.defaultClient.withLock({ $0 }) { return context }
        let created = try TLSContext(.client(configuration))
        return Self.defaultClient.withLock { context in
            if context == nil { context = created }
            return context ?? created
        }
    }

    /// Creates a context for servers.
    ///
    /// - Throws: `TransportError` if OpenSSL is not available or a certificate or key cannot be used.
    package static func server(_ configuration: TLSServerConfiguration) throws(TransportError) -> TLSContext {
        try TLSContext(.server(configuration))
    }

    /// The context of the default configuration. A failure is not stored: it may be temporary.
    private static let defaultClient = Lock<TLSContext?>(nil)

    private init(_ role: Role) throws(TransportError) {
        let library: TLSLibrary
        let method: OpaquePointer?
        let versions: (minimum: TLSVersion, maximum: TLSVersion?)
        switch role {
        case .client(let configuration):
            library = configuration.library
            versions = (configuration.minimumVersion, configuration.maximumVersion)
        case .server(let configuration):
            library = configuration.library
            versions = (configuration.minimumVersion, configuration.maximumVersion)
        }
        self.openSSL = try OpenSSL.shared(library)
        let functions = self.openSSL.functions
        switch role {
        case .client: method = functions.TLS_client_method()
        case .server: method = functions.TLS_server_method()
        }
        self.openSSL.clearErrors()
        guard let pointer = functions.SSL_CTX_new(method) else {
            throw TransportError(.tlsFailed, "OpenSSL could not create a context: \(self.openSSL.takeReason()?.text ?? "out of memory").")
        }
        self.pointer = pointer
        self.role = role

        try self.setCommonOptions(versions.minimum, versions.maximum)
        switch role {
        case .client(let configuration): try self.setUp(configuration)
        case .server(let configuration): try self.setUp(configuration)
        }
    }

    deinit {
        self.openSSL.functions.SSL_CTX_free(self.pointer)
    }

    private func setCommonOptions(_ minimum: TLSVersion, _ maximum: TLSVersion?) throws(TransportError) {
        let functions = self.openSSL.functions
        let modes =
            OpenSSLConstant.partialWrite | OpenSSLConstant.movingWriteBuffer | OpenSSLConstant.autoRetry | OpenSSLConstant.releaseBuffers
        _ = functions.SSL_CTX_ctrl(self.pointer, OpenSSLConstant.Control.mode, modes, nil)
        // Reads the header and body of a record with a single call to `recv`.
        _ = functions.SSL_CTX_ctrl(self.pointer, OpenSSLConstant.Control.readAhead, 1, nil)
        // Sessions are not cached: a server's tickets contain their state, and clients do not resume sessions.
        _ = functions.SSL_CTX_ctrl(self.pointer, OpenSSLConstant.Control.sessionCacheMode, 0, nil)
        _ = functions.SSL_CTX_set_options(self.pointer, OpenSSLConstant.noCompression | OpenSSLConstant.noRenegotiation)
        guard functions.SSL_CTX_ctrl(self.pointer, OpenSSLConstant.Control.minimumVersion, minimum.number, nil) == 1,
            functions.SSL_CTX_ctrl(self.pointer, OpenSSLConstant.Control.maximumVersion, maximum?.number ?? 0, nil) == 1
        else {
            throw TransportError(
                .invalidTLSConfiguration, "Invalid TLS configuration: this version of OpenSSL does not support \(minimum).")
        }
    }

    private func setUp(_ configuration: TLSConfiguration) throws(TransportError) {
        let functions = self.openSSL.functions
        switch configuration.verification {
        case .full:
            functions.SSL_CTX_set_verify(self.pointer, OpenSSLConstant.verifyPeer, TLSSession.verifyCallback)
            switch configuration.trustRoots {
            case .system: try self.trustSystem()
            case .only(let roots): try self.trust(roots)
            case .systemAnd(let roots):
                try self.trustSystem()
                try self.trust(roots)
            }
        case .dangerouslyAcceptAnyCertificate:
            functions.SSL_CTX_set_verify(self.pointer, OpenSSLConstant.verifyNone, nil)
        }
        if let identity = configuration.identity { try self.use(identity) }
    }

    private func setUp(_ configuration: TLSServerConfiguration) throws(TransportError) {
        let functions = self.openSSL.functions
        try self.use(configuration.identity)
        // Without this identifier, a server that requests client certificates would reject all session tickets.
        let identifier = Array("realtime".utf8)
        _ = functions.SSL_CTX_set_session_id_context(self.pointer, identifier, UInt32(identifier.count))
        if case .required(let roots) = configuration.clientCertificates {
            let mode = OpenSSLConstant.verifyPeer | OpenSSLConstant.verifyFailWithoutCertificate
            functions.SSL_CTX_set_verify(self.pointer, mode, TLSSession.verifyCallback)
            try self.trust(roots)
        }
    }

    /// Loads the system's root certificates.
    ///
    /// `SSL_CTX_set_default_verify_paths` would do it too, and ignore files that cannot be read.
    private func trustSystem() throws(TransportError) {
        let functions = self.openSSL.functions
        let paths = SystemRoots.paths(functions)
        switch try SystemRoots.choose(paths) {
        case .files(let file, let directory):
            // A directory's certificates are read when they are needed.
            if let directory { _ = functions.SSL_CTX_load_verify_locations(self.pointer, nil, directory) }
            if let file { try self.trustFile(file, paths) }
        case .none: self.systemRootsAreMissing = true
        }
        self.openSSL.clearErrors()
    }

    private func trustFile(_ path: String, _ paths: SystemRoots.Paths) throws(TransportError) {
        self.openSSL.clearErrors()
        guard self.openSSL.functions.SSL_CTX_load_verify_locations(self.pointer, path, nil) != 1 else { return }
        let reason = self.openSSL.takeReason()?.text
        // OpenSSL has opened the file and may have failed for lack of descriptors or memory, which its reason doesn't tell.
        if let error = SystemRoots.openError(path) { throw SystemRoots.failure(path, error, paths) }
        throw SystemRoots.failure(path, reason ?? "it contains no certificate", paths)
    }

    private func trust(_ roots: [PEM]) throws(TransportError) {
        let functions = self.openSSL.functions
        let store = functions.SSL_CTX_get_cert_store(self.pointer)
        var isServer = false
        if case .server = self.role { isServer = true }
        _ = functions.X509_STORE_set_flags(store, OpenSSLConstant.partialChain)
        for pem in roots {
            try self.openSSL.forEachCertificate(in: pem) { _, certificate throws(TransportError) in
                guard functions.X509_STORE_add_cert(store, certificate) == 1 else {
                    throw .unusable(
                        pem, "contains a root certificate that cannot be used: \(self.openSSL.takeReason()?.text ?? "out of memory")")
                }
                if isServer { _ = functions.SSL_CTX_add_client_CA(self.pointer, certificate) }
            }
        }
    }

    private func use(_ identity: TLSIdentity) throws(TransportError) {
        let functions = self.openSSL.functions
        try self.openSSL.forEachCertificate(in: identity.certificateChain) { index, certificate throws(TransportError) in
            let accepted =
                if index == 0 {
                    functions.SSL_CTX_use_certificate(self.pointer, certificate) == 1
                } else {
                    functions.SSL_CTX_ctrl(
                        self.pointer, OpenSSLConstant.Control.chainCertificate, 1, UnsafeMutableRawPointer(certificate)) == 1
                }
            guard accepted else {
                let reason = self.openSSL.takeReason()?.text ?? "out of memory"
                throw .unusable(identity.certificateChain, "contains a certificate (number \(index + 1)) that cannot be used: \(reason)")
            }
        }
        try self.openSSL.withPrivateKey(in: identity.privateKey) { key throws(TransportError) in
            guard functions.SSL_CTX_use_PrivateKey(self.pointer, key) == 1 else {
                let reason = self.openSSL.takeReason()?.text ?? "out of memory"
                throw .unusable(identity.privateKey, "contains a private key that does not match the certificate: \(reason)")
            }
        }
    }
}

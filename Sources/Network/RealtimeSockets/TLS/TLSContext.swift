package import RealtimeCore

/// What all connections with one configuration share: made once, since the authorities are read and kept here
/// (with a bundle of a whole system about a megabyte and some milliseconds).
///
/// `@unchecked Sendable`: an `SSL_CTX` counts its references with atomics and locks what it changes; here it is
/// set up before anybody else sees it, and then only read.
package final class TLSContext: @unchecked Sendable {
    enum Role {
        case client(TLSConfiguration)
        case server(TLSServerConfiguration)
    }

    let openSSL: OpenSSL
    let pointer: OpaquePointer
    let role: Role
    /// The system's authorities were asked for and none were found.
    private(set) var systemRootsAreMissing = false
    /// ALPN names, each after its length: for a server's callback, which is given this object.
    let protocolList: [UInt8]

    /// The context for clients. The default configuration's is made once for the whole process.
    package static func client(_ configuration: TLSConfiguration) throws(TransportError) -> TLSContext {
        configuration == TLSConfiguration() ? try Self.defaultClient.get() : try TLSContext(.client(configuration))
    }

    package static func server(_ configuration: TLSServerConfiguration) throws(TransportError) -> TLSContext {
        try TLSContext(.server(configuration))
    }

    private static let defaultClient = Result { () throws(TransportError) in try TLSContext(.client(TLSConfiguration())) }

    private init(_ role: Role) throws(TransportError) {
        let library: TLSLibrary
        let method: OpaquePointer?
        let versions: (minimum: TLSVersion, maximum: TLSVersion?)
        switch role {
        case .client(let configuration):
            library = configuration.library
            self.protocolList = try encode(configuration.applicationProtocols)
            versions = (configuration.minimumVersion, configuration.maximumVersion)
        case .server(let configuration):
            library = configuration.library
            self.protocolList = try encode(configuration.applicationProtocols)
            versions = (configuration.minimumVersion, configuration.maximumVersion)
        }
        self.openSSL = try OpenSSL.shared(library)
        let functions = self.openSSL.functions
        switch role {
        case .client: method = functions.TLS_client_method()
        case .server: method = functions.TLS_server_method()
        }
        self.openSSL.forgetErrors()
        guard let pointer = functions.SSL_CTX_new(method) else {
            throw TransportError(.tlsFailed, "TLS cannot be set up: \(self.openSSL.takeReason()?.words ?? "no memory").")
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
            OpenSSLNumber.partialWrite | OpenSSLNumber.movingWriteBuffer | OpenSSLNumber.autoRetry | OpenSSLNumber.releaseBuffers
        _ = functions.SSL_CTX_ctrl(self.pointer, OpenSSLNumber.Control.mode, modes, nil)
        // One `recv` for a record's head and body.
        _ = functions.SSL_CTX_ctrl(self.pointer, OpenSSLNumber.Control.readAhead, 1, nil)
        // No session is kept for later: a server's tickets hold their own state, and clients do not resume.
        _ = functions.SSL_CTX_ctrl(self.pointer, OpenSSLNumber.Control.sessionCacheMode, 0, nil)
        _ = functions.SSL_CTX_set_options(self.pointer, OpenSSLNumber.noCompression | OpenSSLNumber.noRenegotiation)
        // Its own setting: in OpenSSL 3 the old versions want this too.
        if minimum < .tls12 { functions.SSL_CTX_set_security_level(self.pointer, 0) }
        guard functions.SSL_CTX_ctrl(self.pointer, OpenSSLNumber.Control.minimumVersion, minimum.number, nil) == 1,
            functions.SSL_CTX_ctrl(self.pointer, OpenSSLNumber.Control.maximumVersion, maximum?.number ?? 0, nil) == 1
        else { throw TransportError(.tlsFailed, "TLS cannot be set up: this OpenSSL cannot be held to \(minimum) or newer.") }
    }

    private func setUp(_ configuration: TLSConfiguration) throws(TransportError) {
        let functions = self.openSSL.functions
        switch configuration.verification {
        case .full:
            functions.SSL_CTX_set_verify(self.pointer, OpenSSLNumber.verifyPeer, TLSSession.verifyCallback)
            switch configuration.trustRoots {
            case .system: self.trustSystem()
            case .only(let roots): try self.trust(roots)
            case .systemAnd(let roots):
                self.trustSystem()
                try self.trust(roots)
            }
        case .dangerouslyAcceptAnyCertificate:
            functions.SSL_CTX_set_verify(self.pointer, OpenSSLNumber.verifyNone, nil)
        }
        if let identity = configuration.identity { try self.use(identity) }
        if !self.protocolList.isEmpty {
            _ = functions.SSL_CTX_set_alpn_protos(self.pointer, self.protocolList, UInt32(self.protocolList.count))
        }
    }

    private func setUp(_ configuration: TLSServerConfiguration) throws(TransportError) {
        let functions = self.openSSL.functions
        try self.use(configuration.identity)
        // Without a name of its own, a server that asks for certificates refuses every ticket.
        let name = Array("realtime".utf8)
        _ = functions.SSL_CTX_set_session_id_context(self.pointer, name, UInt32(name.count))
        if case .required(let roots) = configuration.clientCertificates {
            let mode = OpenSSLNumber.verifyPeer | OpenSSLNumber.verifyFailWithoutCertificate
            functions.SSL_CTX_set_verify(self.pointer, mode, TLSSession.verifyCallback)
            try self.trust(roots)
        }
        if !self.protocolList.isEmpty {
            // Every session holds its context, so this object outlives the callback's last call.
            let context = Unmanaged.passUnretained(self).toOpaque()
            functions.SSL_CTX_set_alpn_select_cb(
                self.pointer, { _, chosen, count, offer, length, context in pickProtocol(chosen, count, offer, length, context) }, context)
        }
    }

    private func trustSystem() {
        let functions = self.openSSL.functions
        _ = functions.SSL_CTX_set_default_verify_paths(self.pointer)
        switch SystemRoots.choose(SystemRoots.places(functions)) {
        case .library: break
        case .bundle(let path): _ = functions.SSL_CTX_load_verify_locations(self.pointer, path, nil)
        case .none: self.systemRootsAreMissing = true
        }
        self.openSSL.forgetErrors()
    }

    private func trust(_ roots: [PEM]) throws(TransportError) {
        let functions = self.openSSL.functions
        let store = functions.SSL_CTX_get_cert_store(self.pointer)
        var isServer = false
        if case .server = self.role { isServer = true }
        _ = functions.X509_STORE_set_flags(store, OpenSSLNumber.partialChain)
        for pem in roots {
            try self.openSSL.forEachCertificate(in: pem) { _, certificate throws(TransportError) in
                guard functions.X509_STORE_add_cert(store, certificate) == 1 else {
                    throw .unusable(pem, "has a root certificate that cannot be used: \(self.openSSL.takeReason()?.words ?? "no memory")")
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
                        self.pointer, OpenSSLNumber.Control.chainCertificate, 1, UnsafeMutableRawPointer(certificate)) == 1
                }
            guard accepted else {
                let words = self.openSSL.takeReason()?.words ?? "no memory"
                throw .unusable(identity.certificateChain, "has a certificate (number \(index + 1)) that cannot be used: \(words)")
            }
        }
        try self.openSSL.withPrivateKey(in: identity.privateKey) { key throws(TransportError) in
            guard functions.SSL_CTX_use_PrivateKey(self.pointer, key) == 1 else {
                let words = self.openSSL.takeReason()?.words ?? "no memory"
                throw .unusable(identity.privateKey, "has a private key that does not go with the certificate: \(words)")
            }
        }
    }
}

private func encode(_ protocols: [String]) throws(TransportError) -> [UInt8] {
    var list: [UInt8] = []
    for name in protocols {
        guard (1...255).contains(name.utf8.count) else {
            throw TransportError(.tlsFailed, "TLS cannot be set up: an application protocol has 1 to 255 bytes, \"\(name)\" does not.")
        }
        list.append(UInt8(name.utf8.count))
        list += Array(name.utf8)
    }
    return list
}

/// The server's favourite among what the client offers (RFC 7301 section 3.2): none is fatal.
private func pickProtocol(
    _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ count: UnsafeMutablePointer<UInt8>?, _ offer: UnsafePointer<UInt8>?,
    _ length: UInt32, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    let fatal: Int32 = 2
    guard let chosen, let count, let offer, let context else { return fatal }
    let offered = UnsafeBufferPointer(start: offer, count: Int(length))
    let wanted = Unmanaged<TLSContext>.fromOpaque(context).takeUnretainedValue().protocolList
    for own in names(in: wanted) {
        for theirs in names(in: offered) where wanted[own].elementsEqual(offered[theirs]) {
            chosen.pointee = offer + theirs.lowerBound
            count.pointee = UInt8(theirs.count)
            return 0
        }
    }
    return fatal
}

private func names<List: RandomAccessCollection>(in list: List) -> [Range<Int>] where List.Element == UInt8, List.Index == Int {
    var ranges: [Range<Int>] = []
    var start = 0
    while start < list.count, case let end = start + 1 + Int(list[start]), end <= list.count {
        ranges.append(start + 1..<end)
        start = end
    }
    return ranges
}

import RealtimeSystem
import RealtimeCore

extension OpenSSL {
    /// Calls `body` with each certificate, in order, and frees them afterwards.
    ///
    /// - Parameters:
    ///   - pem: The certificates.
    ///   - body: A closure that receives a certificate and its index.
    /// - Throws: `TransportError` if certificates are missing or cannot be read, or an error thrown by `body`.
    func forEachCertificate(
        in pem: PEM, _ body: (_ index: Int, _ certificate: OpaquePointer) throws(TransportError) -> Void
    ) throws(TransportError) {
        try self.withBIO(pem, "certificate") { bio, _ throws(TransportError) in
            var index = 0
            self.clearErrors()
            while let certificate = self.functions.PEM_read_bio_X509(bio, nil, Self.noPassword, nil) {
                defer { self.functions.X509_free(certificate) }
                try body(index, certificate)
                index += 1
            }
            let atEnd = self.isEndOfPEM
            let reason = self.takeReason()
            guard index > 0 || !atEnd else { throw .unusable(pem, "contains no certificate (\"-----BEGIN CERTIFICATE-----\")") }
            guard atEnd else {
                throw .unusable(pem, "contains a certificate (number \(index + 1)) that cannot be read: \(reason?.text ?? "unknown error")")
            }
        }
    }

    /// Calls `body` with the private key, and frees it afterwards.
    ///
    /// - Parameters:
    ///   - pem: The private key.
    ///   - body: A closure that receives the key.
    /// - Throws: `TransportError` if the key cannot be read, or an error thrown by `body`.
    func withPrivateKey(in pem: PEM, _ body: (OpaquePointer) throws(TransportError) -> Void) throws(TransportError) {
        try self.withBIO(pem, "private key") { bio, bytes throws(TransportError) in
            self.clearErrors()
            var needsPassword = false
            let key = withUnsafeMutablePointer(to: &needsPassword) {
                self.functions.PEM_read_bio_PrivateKey(bio, nil, Self.noPassword, $0)
            }
            guard let key else {
                let reason = self.takeReason()
                if needsPassword {
                    throw .unusable(pem, "contains an encrypted key. Decrypt it, for example with `openssl pkey -in … -out …`")
                }
                // The error for a missing key differs between versions of OpenSSL.
                let hasKey = String(decoding: bytes, as: UTF8.self).containsText("PRIVATE KEY-----")
                guard hasKey else { throw .unusable(pem, "contains no private key (\"-----BEGIN PRIVATE KEY-----\")") }
                throw .unusable(pem, "contains a private key that cannot be read: \(reason?.text ?? "unknown error")")
            }
            defer { self.functions.EVP_PKEY_free(key) }
            try body(key)
        }
    }

    /// Records that a password is required. Without a callback, OpenSSL would read the password from the terminal.
    private static let noPassword: OpenSSLFunctions.PasswordCallback = { _, _, _, needsPassword in
        needsPassword?.assumingMemoryBound(to: Bool.self).pointee = true
        return -1
    }

    private func withBIO(
        _ pem: PEM, _ content: String, _ body: (OpaquePointer, UnsafeBufferPointer<UInt8>) throws(TransportError) -> Void
    ) throws(TransportError) {
        let bytes: [UInt8]
        switch pem {
        case .bytes(let given): bytes = given
        case .file(let path): bytes = try readFile(path, content)
        }
        guard !bytes.isEmpty else { throw .unusable(pem, "contains no \(content): it is empty") }
        try bytes.withUnsafeBufferPointer { bytes throws(TransportError) in
            guard let bio = self.functions.BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
                throw TransportError(.system, "Out of memory while reading a \(content).")
            }
            defer { _ = self.functions.BIO_free(bio) }
            try body(bio, bytes)
        }
    }
}

extension TransportError {
    static func unusable(_ pem: PEM, _ reason: String) -> TransportError {
        TransportError(.invalidTLSConfiguration, "Invalid TLS configuration: the \(pem) \(reason).")
    }
}

private func readFile(_ path: String, _ content: String) throws(TransportError) -> [UInt8] {
    func failure() -> TransportError {
        let error = SystemError.last
        if error.isShortage { return .system(error.number, "read the \(content) in \(path)") }
        return TransportError(
            .invalidTLSConfiguration, "Invalid TLS configuration: the \(content) in \(path) cannot be read: \(error.message).")
    }
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure() }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    while true {
        let old = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: 16 << 10))
        let count = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + old, $0.count - old) }
        if count < 0, errno != EINTR { throw failure() }
        bytes.removeLast(bytes.count - old - max(count, 0))
        if count == 0 { return bytes }
        guard bytes.count <= 16 << 20 else {
            throw TransportError(.invalidTLSConfiguration, "Invalid TLS configuration: \(path) is too large for a \(content).")
        }
    }
}

import RealtimeSystem
import RealtimeCore

extension OpenSSL {
    /// Calls `body` with each certificate, in order, and throws when there is none. They are freed afterwards.
    func forEachCertificate(
        in pem: PEM, _ body: (_ index: Int, _ certificate: OpaquePointer) throws(TransportError) -> Void
    ) throws(TransportError) {
        try self.withBIO(pem, "certificate") { bio, _ throws(TransportError) in
            var index = 0
            self.forgetErrors()
            while let certificate = self.functions.PEM_read_bio_X509(bio, nil, Self.noPassword, nil) {
                defer { self.functions.X509_free(certificate) }
                try body(index, certificate)
                index += 1
            }
            let atEnd = self.endedForWantOfPEM
            let reason = self.takeReason()
            guard index > 0 || !atEnd else { throw .unusable(pem, "holds no certificate (\"-----BEGIN CERTIFICATE-----\")") }
            guard atEnd else {
                throw .unusable(pem, "has a certificate (number \(index + 1)) that cannot be read: \(reason?.words ?? "unknown")")
            }
        }
    }

    /// Calls `body` with the private key, and frees it afterwards.
    func withPrivateKey(in pem: PEM, _ body: (OpaquePointer) throws(TransportError) -> Void) throws(TransportError) {
        try self.withBIO(pem, "private key") { bio, bytes throws(TransportError) in
            self.forgetErrors()
            var wasAsked = false
            let key = withUnsafeMutablePointer(to: &wasAsked) { self.functions.PEM_read_bio_PrivateKey(bio, nil, Self.noPassword, $0) }
            guard let key else {
                let reason = self.takeReason()
                if wasAsked { throw .unusable(pem, "has a key with a password: write it without one, as `openssl pkey -in … -out …` does") }
                // OpenSSL's words for this differ from version to version.
                let hasKey = String(decoding: bytes, as: UTF8.self).contains("PRIVATE KEY-----")
                guard hasKey else { throw .unusable(pem, "holds no private key (\"-----BEGIN PRIVATE KEY-----\")") }
                throw .unusable(pem, "has a private key that cannot be read: \(reason?.words ?? "unknown")")
            }
            defer { self.functions.EVP_PKEY_free(key) }
            try body(key)
        }
    }

    /// Without this OpenSSL would ask for the password on the terminal, and wait.
    private static let noPassword: OpenSSLFunctions.PasswordCallback = { _, _, _, wasAsked in
        wasAsked?.assumingMemoryBound(to: Bool.self).pointee = true
        return -1
    }

    private func withBIO(
        _ pem: PEM, _ what: String, _ body: (OpaquePointer, UnsafeBufferPointer<UInt8>) throws(TransportError) -> Void
    ) throws(TransportError) {
        let bytes: [UInt8]
        switch pem {
        case .bytes(let given): bytes = given
        case .file(let path): bytes = try readFile(path, what)
        }
        guard !bytes.isEmpty else { throw .unusable(pem, "holds no \(what): it is empty") }
        try bytes.withUnsafeBufferPointer { bytes throws(TransportError) in
            guard let bio = self.functions.BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
                throw TransportError(.system, "There is no memory to read a \(what).")
            }
            defer { _ = self.functions.BIO_free(bio) }
            try body(bio, bytes)
        }
    }
}

extension TransportError {
    static func unusable(_ pem: PEM, _ why: String) -> TransportError {
        TransportError(.tlsFailed, "TLS cannot be set up: the \(pem) \(why).")
    }
}

private func readFile(_ path: String, _ what: String) throws(TransportError) -> [UInt8] {
    func failure() -> TransportError {
        TransportError(.tlsFailed, "TLS cannot be set up: the \(what) in \(path) cannot be read: \(String(cString: strerror(errno))).")
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
            throw TransportError(.tlsFailed, "TLS cannot be set up: \(path) is larger than any \(what).")
        }
    }
}

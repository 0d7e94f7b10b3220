import RealtimeSystem

/// Where a system keeps the authorities that it trusts.
///
/// OpenSSL was told when it was built, but a library from another place (an own prefix, another distribution's
/// image) may have been told of a place that is empty here.
enum SystemRoots {
    enum Source: Equatable {
        /// OpenSSL's own places, or those that the environment names.
        case library
        case bundle(String)
        case none
    }

    struct Places {
        var file: String?
        var directory: String?
        /// The user named them, so nothing else is trusted in their stead.
        var areChosen: Bool
    }

    static let usualBundles = [
        "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Arch, Alpine
        "/etc/pki/tls/certs/ca-bundle.crt",  // Fedora, RHEL, Amazon Linux
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/ca-bundle.pem",  // SUSE
        "/etc/ssl/cert.pem",  // Alpine, macOS
    ]

    static func choose(_ places: Places, bundles: [String] = Self.usualBundles) -> Source {
        if places.areChosen || places.file.map(isFilled) == true || places.directory.map(holdsHashedCertificate) == true { return .library }
        return bundles.first(where: isFilled).map { .bundle($0) } ?? .none
    }

    static func places(_ functions: OpenSSLFunctions) -> Places {
        func text(_ pointer: UnsafePointer<CChar>?) -> String? { pointer.map { String(cString: $0) } }
        return Places(
            file: text(functions.X509_get_default_cert_file()), directory: text(functions.X509_get_default_cert_dir()),
            areChosen: getenv("SSL_CERT_FILE") != nil || getenv("SSL_CERT_DIR") != nil)
    }

    private static func isFilled(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_size > 0 && access(path, R_OK) == 0
    }

    /// OpenSSL finds a certificate in a directory by the hash of its name, as in `5f15c80c.0`.
    private static func holdsHashedCertificate(_ path: String) -> Bool {
        guard let directory = opendir(path) else { return false }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            // The name in place: an entry is only as long as its name, and a copy of the whole field would read past it.
            guard let offset = MemoryLayout<dirent>.offset(of: \dirent.d_name) else { return false }
            let name = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
            let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name))
            let isHash = bytes.count == 10 && bytes[8] == UInt8(ascii: ".") && bytes[9] == UInt8(ascii: "0")
            if isHash { return true }
        }
        return false
    }
}

import RealtimeSystem

/// The location of the system's trusted root certificates.
///
/// The location is compiled into OpenSSL. A library from another source, such as a custom prefix or an image of another distribution,
/// may contain a path that does not exist on this system.
enum SystemRoots {
    enum Source: Equatable {
        /// The paths that OpenSSL uses by default, or those in the environment.
        case library
        /// A file with root certificates.
        case bundle(String)
        /// No root certificates were found.
        case none
    }

    /// The paths that OpenSSL uses by default.
    struct Paths {
        var file: String?
        var directory: String?
        /// Whether the environment sets paths, so that no others may be used instead.
        var areFromEnvironment: Bool
    }

    static let knownBundles = [
        "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Arch, Alpine
        "/etc/pki/tls/certs/ca-bundle.crt",  // Fedora, RHEL, Amazon Linux
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/ca-bundle.pem",  // SUSE
        "/etc/ssl/cert.pem",  // Alpine, macOS
    ]

    /// Returns OpenSSL's paths if there is a certificate, and otherwise the first bundle that exists.
    static func choose(_ paths: Paths, bundles: [String] = Self.knownBundles) -> Source {
        if paths.areFromEnvironment || paths.file.map(isReadableFile) == true || paths.directory.map(containsCertificate) == true {
            return .library
        }
        return bundles.first(where: isReadableFile).map { .bundle($0) } ?? .none
    }

    static func paths(_ functions: OpenSSLFunctions) -> Paths {
        func text(_ pointer: UnsafePointer<CChar>?) -> String? { pointer.map { String(cString: $0) } }
        return Paths(
            file: text(functions.X509_get_default_cert_file()), directory: text(functions.X509_get_default_cert_dir()),
            areFromEnvironment: getenv("SSL_CERT_FILE") != nil || getenv("SSL_CERT_DIR") != nil)
    }

    private static func isReadableFile(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_size > 0 && access(path, R_OK) == 0
    }

    /// Whether the directory contains a certificate under the hash of its subject, such as `5f15c80c.0`, by which OpenSSL finds it.
    private static func containsCertificate(_ path: String) -> Bool {
        guard let directory = opendir(path) else { return false }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            // The name must not be copied: an entry is only as long as its name, so a copy of the whole field would read past its end.
            guard let offset = MemoryLayout<dirent>.offset(of: \dirent.d_name) else { return false }
            let name = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
            let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name))
            let isHash = bytes.count == 10 && bytes[8] == UInt8(ascii: ".") && bytes[9] == UInt8(ascii: "0")
            if isHash { return true }
        }
        return false
    }
}

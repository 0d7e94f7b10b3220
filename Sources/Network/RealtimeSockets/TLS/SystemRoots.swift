import RealtimeCore
import RealtimeSystem

/// The location of the system's trusted root certificates.
///
/// The location is compiled into OpenSSL. A library from another source, such as a custom prefix or an image of another distribution,
/// may contain a path that does not exist on this system.
enum SystemRoots {
    enum Source: Equatable {
        /// A file with root certificates, a directory of such files, or both.
        case files(String?, directory: String?)
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
    ///
    /// - Throws: `TransportError` with the code `invalidTLSConfiguration` if the environment sets paths without certificates, or `system` if a directory
    ///   cannot be read because the process is out of descriptors or memory.
    static func choose(_ paths: Paths, bundles: [String] = Self.knownBundles) throws(TransportError) -> Source {
        let directory = try paths.directory.map { path throws(TransportError) in try Self.containsCertificate(path, paths) } == true
        let file = paths.file.map(isReadableFile) == true
        if file || directory { return .files(file ? paths.file : nil, directory: directory ? paths.directory : nil) }
        if paths.areFromEnvironment {
            let path = paths.file ?? paths.directory ?? "its path"
            throw Self.failure(path, Self.openError(path)?.message ?? "it contains no certificate", paths)
        }
        return bundles.first(where: isReadableFile).map { .files($0, directory: nil) } ?? .none
    }

    /// The reason why a file cannot be opened, or `nil` if it can be opened.
    static func openError(_ path: String) -> SystemError? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return .last }
        close(descriptor)
        return nil
    }

    static func failure(_ path: String, _ error: SystemError, _ paths: Paths) -> TransportError {
        if error.isShortage { return .system(error.number, "read the system's root certificates in \(path)") }
        return Self.failure(path, error.message, paths)
    }

    static func failure(_ path: String, _ reason: String, _ paths: Paths) -> TransportError {
        let advice =
            paths.areFromEnvironment
            ? "Correct the environment variables SSL_CERT_FILE and SSL_CERT_DIR"
            : "Install the package ca-certificates, or set the environment variable SSL_CERT_FILE"
        // A package that installs the certificates may be in the middle of replacing them.
        let code = paths.areFromEnvironment ? TransportError.Code.invalidTLSConfiguration : .tlsFailed
        return TransportError(code, "Cannot load the system's root certificates from \(path): \(reason). \(advice).")
    }

    static func paths(_ functions: OpenSSLFunctions) -> Paths {
        func text(_ pointer: UnsafePointer<CChar>?) -> String? { pointer.map { String(cString: $0) } }
        let (file, directory) = (text(getenv("SSL_CERT_FILE")), text(getenv("SSL_CERT_DIR")))
        return Paths(
            file: file ?? text(functions.X509_get_default_cert_file()), directory: directory ?? text(functions.X509_get_default_cert_dir()),
            areFromEnvironment: file != nil || directory != nil)
    }

    private static func isReadableFile(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_size > 0 && access(path, R_OK) == 0
    }

    /// Whether the directory contains a certificate under the hash of its subject, such as `5f15c80c.0`, by which OpenSSL finds it.
    ///
    /// `SSL_CERT_DIR` can be a list of directories, which is not examined.
    private static func containsCertificate(_ path: String, _ paths: Paths) throws(TransportError) -> Bool {
        if path.utf8.contains(UInt8(ascii: ":")) { return true }
        guard let directory = opendir(path) else {
            let error = SystemError.last
            if error.isShortage { throw Self.failure(path, error, paths) }
            return false
        }
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

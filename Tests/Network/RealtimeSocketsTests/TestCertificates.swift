import RealtimeSockets
import TestSupport

/// What `dev/certificates` made; Tests/Vectors/certificates/README.md says what each one is.
enum TestCertificates {
    static func path(_ name: String) -> String { Vectors.path("certificates/\(name).pem") }

    static func pem(_ name: String) -> PEM { .file(Self.path(name)) }

    /// For localhost, 127.0.0.1 and ::1.
    static let server = Self.identity("server")
    static let client = TLSIdentity(certificateChain: Self.pem("client"), privateKey: Self.pem("client-key"))

    /// One of the certificates that have the server's key.
    static func identity(_ name: String) -> TLSIdentity {
        TLSIdentity(certificateChain: Self.pem(name), privateKey: Self.pem("server-key"))
    }
}

extension TLSConfiguration {
    /// A client that trusts the tests' root and no other.
    static var trustingTestRoot: TLSConfiguration {
        var configuration = TLSConfiguration()
        configuration.trustRoots = .only([TestCertificates.pem("root")])
        return configuration
    }
}

extension TLSServerConfiguration {
    static var test: TLSServerConfiguration { TLSServerConfiguration(TestCertificates.server) }
}

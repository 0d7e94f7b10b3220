import RealtimeSockets
import TestSupport

/// The certificates created by `dev/certificates`, which are described in Tests/Vectors/certificates/README.md.
enum TestCertificates {
    static func path(_ name: String) -> String { Vectors.path("certificates/\(name).pem") }

    static func pem(_ name: String) -> PEM { .file(Self.path(name)) }

    /// The certificate for localhost, 127.0.0.1 and ::1.
    static let server = Self.identity("server")
    static let client = TLSIdentity(certificateChain: Self.pem("client"), privateKey: Self.pem("client-key"))

    /// A certificate with the server's key.
    static func identity(_ name: String) -> TLSIdentity {
        TLSIdentity(certificateChain: Self.pem(name), privateKey: Self.pem("server-key"))
    }
}

extension TLSConfiguration {
    /// The configuration of a client that trusts only the root certificate of the tests.
    static var trustingTestRoot: TLSConfiguration {
        var configuration = TLSConfiguration()
        configuration.trustRoots = .only([TestCertificates.pem("root")])
        return configuration
    }
}

extension TLSServerConfiguration {
    static var test: TLSServerConfiguration { TLSServerConfiguration(TestCertificates.server) }
}

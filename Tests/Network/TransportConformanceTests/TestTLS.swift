import RealtimeCore
import RealtimeSockets
import TestSupport

/// Certificates of our own, made by `dev/certificates`.
enum TestTLS {
    private static func file(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name)")) }

    static let isAvailable: Bool = {
        do throws(TransportError) {
            _ = try TLSContext.client(TLSConfiguration())
            return true
        } catch {
            return error.code != .tlsUnavailable
        }
    }()

    static var client: TLSConfiguration {
        var configuration = TLSConfiguration()
        configuration.trustRoots = .only([self.file("root.pem")])
        return configuration
    }

    static func server() throws -> TLSServerConfiguration {
        TLSServerConfiguration(TLSIdentity(certificateChain: self.file("server.pem"), privateKey: self.file("server-key.pem")))
    }
}

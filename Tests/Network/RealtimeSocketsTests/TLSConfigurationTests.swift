import Foundation
import RealtimeCore
import Testing

@testable import RealtimeSockets

@Suite struct TLSWithoutOpenSSLTests {
    @Test func `without OpenSSL the error names the package`() throws {
        var client = TLSConfiguration()
        client.library = .absent
        let error = try #require(throws: TransportError.self) { try TLSContext.client(client) }
        #expect(error.code == .tlsUnavailable)
        #if os(Linux)
        for name in ["libssl.so.3", "libssl3", "openssl-libs"] { #expect(error.message.contains(name)) }
        #endif

        var server = TLSServerConfiguration.test
        server.library = .absent
        #expect(throws: error) { try TLSContext.server(server) }
    }

    @Test func `a library that is not there is named`() throws {
        let error = try #require(throws: TransportError.self) { try OpenSSL(names: ["libnowhere.so.9", "/nowhere/libssl.so"]) }
        #expect(error.code == .tlsUnavailable)
        #expect(error.message.contains("none of libnowhere.so.9, /nowhere/libssl.so could be loaded"))
    }

    #if os(Linux)
    @Test func `a library that is not OpenSSL is named`() throws {
        let error = try #require(throws: TransportError.self) { try OpenSSL(names: ["libm.so.6"]) }
        #expect(error.code == .tlsUnavailable)
        #expect(error.message.hasPrefix("libm.so.6 has no "))
    }
    #endif

    @Test func `a printed identity does not show its key`() {
        let identity = TLSIdentity(certificateChain: .file("/a.pem"), privateKey: .text("secret words"))
        var server = TLSServerConfiguration(identity)
        server.applicationProtocols = ["x"]
        var dumped = ""
        dump(server, to: &dumped)
        for text in ["\(identity)", "\(server)", String(reflecting: server), dumped] {
            #expect(!text.contains("secret") && !text.contains("115"), "\(text)")
        }
        #expect("\(identity.privateKey)" == "PEM of 12 bytes")
    }
}

@Suite(.needsOpenSSL) struct TLSConfigurationTests {
    static func identity(_ certificate: PEM, _ key: PEM) -> TLSServerConfiguration {
        TLSServerConfiguration(TLSIdentity(certificateChain: certificate, privateKey: key))
    }

    @Test(arguments: [
        (PEM.file("/nowhere/a.pem"), TestCertificates.pem("server-key"), "the certificate in /nowhere/a.pem cannot be read: No such file"),
        (.file("/"), TestCertificates.pem("server-key"), "cannot be read: Is a directory"),
        (.text(""), TestCertificates.pem("server-key"), "holds no certificate: it is empty"),
        (.text("words"), TestCertificates.pem("server-key"), "the PEM of 5 bytes holds no certificate"),
        (
            .text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), TestCertificates.pem("server-key"),
            "a certificate (number 1) that cannot be read"
        ),
        (TestCertificates.pem("server-key"), TestCertificates.pem("server-key"), "holds no certificate"),
        (TestCertificates.pem("server"), TestCertificates.pem("server"), "holds no private key"),
        (TestCertificates.pem("server"), TestCertificates.pem("client-key"), "does not go with the certificate"),
        (TestCertificates.pem("server"), TestCertificates.pem("server-key-encrypted"), "has a key with a password"),
    ])
    func `an identity that cannot be used says why`(certificate: PEM, key: PEM, words: String) throws {
        let error = try #require(throws: TransportError.self) { try TLSContext.server(Self.identity(certificate, key)) }
        #expect(error.code == .tlsFailed)
        #expect(error.message.contains(words), "\(error.message)")
    }

    @Test func `roots that cannot be read are refused`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .systemAnd([TestCertificates.pem("root"), .text("nothing")])
        #expect(throws: TransportError.self) { try TLSContext.client(client) }
    }

    @Test(arguments: ["", String(repeating: "x", count: 256)])
    func `a protocol name of an impossible length is refused`(name: String) {
        var client = TLSConfiguration()
        client.applicationProtocols = ["http/1.1", name]
        #expect(throws: TransportError.self) { try TLSContext.client(client) }
    }

    @Test func `the default context is shared`() throws {
        #expect(try TLSContext.client(TLSConfiguration()) === TLSContext.client(TLSConfiguration()))
        #expect(try TLSContext.client(.trustingTestRoot) !== TLSContext.client(.trustingTestRoot))
    }

    @Test func `certificates may be given as text`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .only([.text(try String(contentsOfFile: TestCertificates.path("root"), encoding: .utf8))])
        #expect(try TLSPair.connected(client).client.version == "TLSv1.3")
    }
}

@Suite struct SystemRootsTests {
    typealias Places = SystemRoots.Places

    static let filled = TestCertificates.path("root")
    static let folder = TestCertificates.path("x").dropLast(6)

    @Test(arguments: [
        (Places(file: Self.filled, directory: nil, areChosen: false), SystemRoots.Source.library),
        (Places(file: "/nowhere.pem", directory: "/nowhere", areChosen: true), .library),
        (Places(file: "/nowhere.pem", directory: "/nowhere", areChosen: false), .bundle(Self.filled)),
        (Places(file: "/dev/null", directory: String(Self.folder), areChosen: false), .bundle(Self.filled)),
        (Places(file: nil, directory: nil, areChosen: false), .bundle(Self.filled)),
    ])
    func `a usual bundle stands in where the library finds nothing`(places: Places, source: SystemRoots.Source) {
        #expect(SystemRoots.choose(places, bundles: ["/nowhere/else.pem", Self.filled]) == source)
    }

    @Test func `no bundle anywhere is known`() {
        #expect(SystemRoots.choose(Places(file: nil, directory: "/", areChosen: false), bundles: ["/nowhere", "/"]) == .none)
    }
}

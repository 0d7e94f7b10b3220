import Foundation
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite struct TLSWithoutOpenSSLTests {
    @Test func `the error for a missing OpenSSL names the package to install`() throws {
        var client = TLSConfiguration()
        client.library = .absent
        let error = try #require(throws: TransportError.self) { try TLSContext.client(client) }
        expectEqual(error.code, .tlsUnavailable)
        #if os(Linux)
        for name in ["libssl.so.3", "libssl3", "openssl-libs"] { expect(error.message.contains(name)) }
        #endif

        var server = TLSServerConfiguration.test
        server.library = .absent
        #expect(throws: error) { try TLSContext.server(server) }
    }

    @Test func `the error for missing libraries names them`() throws {
        let error = try #require(throws: TransportError.self) { try OpenSSL(names: ["libnowhere.so.9", "/nowhere/libssl.so"]) }
        expectEqual(error.code, .tlsUnavailable)
        expect(error.message.contains("none of the OpenSSL libraries libnowhere.so.9, /nowhere/libssl.so could be loaded"))
    }

    #if os(Linux)
    @Test func `the error for a library that is not OpenSSL names it`() throws {
        let error = try #require(throws: TransportError.self) { try OpenSSL(names: ["libm.so.6"]) }
        expectEqual(error.code, .tlsUnavailable)
        expect(error.message.contains("libm.so.6 has no symbol "))
    }
    #endif

    @Test func `the description of an identity does not contain its key`() {
        let identity = TLSIdentity(certificateChain: .file("/a.pem"), privateKey: .text("secret words"))
        let server = TLSServerConfiguration(identity)
        var dumped = ""
        dump(server, to: &dumped)
        for text in ["\(identity)", "\(server)", String(reflecting: server), dumped] {
            expect(!text.contains("secret") && !text.contains("115"), "\(text)")
        }
        expectEqual("\(identity.privateKey)", "PEM of 12 bytes")
    }
}

@Suite(.requires(.openSSL)) struct TLSConfigurationTests {
    static func identity(_ certificate: PEM, _ key: PEM) -> TLSServerConfiguration {
        TLSServerConfiguration(TLSIdentity(certificateChain: certificate, privateKey: key))
    }

    @Test(arguments: [
        (PEM.file("/nowhere/a.pem"), TestCertificates.pem("server-key"), "the certificate in /nowhere/a.pem cannot be read: No such file"),
        (.file("/"), TestCertificates.pem("server-key"), "cannot be read: Is a directory"),
        (.text(""), TestCertificates.pem("server-key"), "contains no certificate: it is empty"),
        (.text("words"), TestCertificates.pem("server-key"), "the PEM of 5 bytes contains no certificate"),
        (
            .text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), TestCertificates.pem("server-key"),
            "a certificate (number 1) that cannot be read"
        ),
        (TestCertificates.pem("server-key"), TestCertificates.pem("server-key"), "contains no certificate"),
        (TestCertificates.pem("server"), TestCertificates.pem("server"), "contains no private key"),
        (TestCertificates.pem("server"), TestCertificates.pem("client-key"), "does not match the certificate"),
        (TestCertificates.pem("server"), TestCertificates.pem("server-key-encrypted"), "contains an encrypted key"),
    ])
    func `an identity that cannot be used is rejected with the reason`(certificate: PEM, key: PEM, text: String) throws {
        let error = try #require(throws: TransportError.self) { try TLSContext.server(Self.identity(certificate, key)) }
        expectEqual(error.code, .invalidTLSConfiguration)
        expect(error.message.contains(text), "\(error.message)")
    }

    @Test func `root certificates that cannot be read are rejected`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .systemAnd([TestCertificates.pem("root"), .text("nothing")])
        #expect(throws: TransportError.self) { try TLSContext.client(client) }
    }

    @Test func `the context of the default configuration is shared`() throws {
        try expect(TLSContext.client(TLSConfiguration()) === TLSContext.client(TLSConfiguration()))
        try expect(TLSContext.client(.trustingTestRoot) !== TLSContext.client(.trustingTestRoot))
    }

    @Test func `certificates can be passed as text`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .only([.text(try String(contentsOfFile: TestCertificates.path("root"), encoding: .utf8))])
        try expectEqual(TLSPair.connected(client).client.version, "TLSv1.3")
    }
}

@Suite struct SystemRootsTests {
    typealias Paths = SystemRoots.Paths

    static let bundle = TestCertificates.path("root")
    static let folder = TestCertificates.path("x").dropLast(6)

    @Test(arguments: [
        (Paths(file: Self.bundle, directory: nil, areFromEnvironment: false), SystemRoots.Source.files(Self.bundle, directory: nil)),
        (Paths(file: Self.bundle, directory: "/nowhere", areFromEnvironment: true), .files(Self.bundle, directory: nil)),
        (Paths(file: "/nowhere.pem", directory: "/nowhere", areFromEnvironment: false), .files(Self.bundle, directory: nil)),
        (Paths(file: "/dev/null", directory: String(Self.folder), areFromEnvironment: false), .files(Self.bundle, directory: nil)),
        (Paths(file: nil, directory: nil, areFromEnvironment: false), .files(Self.bundle, directory: nil)),
        (Paths(file: "/nowhere.pem", directory: "/a:/b", areFromEnvironment: true), .files(nil, directory: "/a:/b")),
    ])
    func `a known bundle is used if the library's paths contain no certificates`(paths: Paths, source: SystemRoots.Source) throws {
        try expectEqual(SystemRoots.choose(paths, bundles: ["/nowhere/else.pem", Self.bundle]), source)
    }

    @Test func `a system without root certificates is detected`() throws {
        try expectEqual(SystemRoots.choose(Paths(file: nil, directory: "/", areFromEnvironment: false), bundles: ["/nowhere", "/"]), .none)
    }

    @Test func `paths in the environment without certificates are an error`() throws {
        let paths = Paths(file: "/nowhere.pem", directory: "/nowhere", areFromEnvironment: true)
        let error = try #require(throws: TransportError.self) { try SystemRoots.choose(paths, bundles: [Self.bundle]) }
        expectEqual(error.code, .invalidTLSConfiguration)
        expect(error.message.contains("from /nowhere.pem: No such file or directory."), "\(error.message)")
    }
}

import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .requires(.openSSL)) struct TLSCertificateTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var certificate: String
        var host = "localhost"
        /// Parts of the error message, or `nil` if the certificate is accepted.
        var rejection: [String]?
        var testDescription: String { "\(self.certificate) for \(self.host)" }
    }

    @Test(arguments: [
        Case(certificate: "server"),
        Case(certificate: "server", host: "LOCALHOST"),
        Case(certificate: "server", host: "127.0.0.1"),
        Case(certificate: "server", host: "::1"),
        Case(certificate: "server", host: "::1%lo"),
        Case(certificate: "server", host: "0:0:0:0:0:0:0:1"),
        Case(certificate: "chain"),
        Case(certificate: "other-host", host: "a.wild.example"),
        Case(certificate: "server", host: "127.0.0.2", rejection: ["it is for localhost, 127.0.0.1, ::1, not for 127.0.0.2"]),
        Case(certificate: "server", host: "::2", rejection: ["not for ::2", "certificate at depth 0"]),
        Case(certificate: "server", host: "xlocalhost", rejection: ["not for xlocalhost"]),
        Case(
            certificate: "other-host", rejection: ["The certificate of localhost", "it is for other.example, *.wild.example, 192.0.2.1,"]),
        Case(certificate: "other-host", host: "a.b.wild.example", rejection: ["not for a.b.wild.example"]),
        Case(certificate: "other-host", host: "wild.example", rejection: ["not for wild.example"]),
        Case(certificate: "no-names", rejection: ["it has no subject alternative names", "the common name is not used"]),
        Case(certificate: "expired", rejection: ["it expired on 2020-01-01 00:00:00 UTC", "subject CN = localhost", "CN = Test root"]),
        Case(certificate: "not-yet-valid", rejection: ["it is not valid before 2125-01-01 00:00:00 UTC"]),
        Case(certificate: "self-signed", rejection: ["it is self-signed", "trustRoots", "Bücher", #"\"& Söhne\""#]),
        Case(certificate: "below-intermediate", rejection: ["its issuer is unknown", "issuer CN = Test intermediate"]),
    ])
    func `a certificate is accepted, or rejected with the reason`(_ example: Case) throws {
        let pair = try TLSPair(
            .trustingTestRoot, TLSServerConfiguration(TestCertificates.identity(example.certificate)), host: example.host)
        let result = pair.handshake()
        guard let rejection = example.rejection else {
            expectEqual(result.client, .done(0))
            expectEqual(result.server, .done(0))
            return
        }
        let failure = try #require(result.client.failure)
        expectEqual(failure.code, .certificateRejected)
        for text in rejection { expect(failure.message.contains(text), "\(failure.message)") }
        expectEqual(result.server.failure?.code, .tlsFailed)
    }

    @Test func `an unknown authority is rejected and the server is notified`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .only([TestCertificates.pem("other-root")])
        let result = try TLSPair(client).handshake()
        expectEqual(result.client.failure?.code, .certificateRejected)
        let text = "its issuer is unknown; add the root certificate to `TLSConfiguration.trustRoots` of the transports"
        expectEqual(result.client.failure?.message.contains(text), true, "\(result)")
        expectEqual(result.server.failure?.message.contains("the client rejected the server's certificate"), true, "\(result)")
    }

    @Test func `a rejection names the setting in the words of the application`() throws {
        var client = TLSConfiguration()
        client.nameOfTrustRoots = "the file of --ca"
        let unknown = try TLSPair(client).handshake().client.failure?.message ?? ""
        expect(unknown.contains("add the root certificate to the file of --ca, or send"), "\(unknown)")
        let server = TLSServerConfiguration(TestCertificates.identity("self-signed"))
        let selfSigned = try TLSPair(client, server).handshake().client.failure?.message ?? ""
        expect(selfSigned.contains("it is self-signed; if you trust it, add it to the file of --ca"), "\(selfSigned)")
    }

    @Test func `the default configuration rejects the test root`() throws {
        try expectEqual(TLSPair(TLSConfiguration()).handshake().client.failure?.code, .certificateRejected)
    }

    @Test(arguments: [
        TLSConfiguration.TrustRoots.systemAnd([TestCertificates.pem("root")]),
        .only([TestCertificates.pem("other-root"), TestCertificates.pem("root")]),
        .only([TestCertificates.pem("server")]),
    ])
    func `certificates in the configuration are trusted`(roots: TLSConfiguration.TrustRoots) throws {
        var client = TLSConfiguration()
        client.trustRoots = roots
        try expectEqual(TLSPair(client).handshake().client, .done(0))
    }

    @Test func `a self-signed certificate is trusted if it is one of the roots`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .only([TestCertificates.pem("self-signed")])
        try expectEqual(TLSPair(client, TLSServerConfiguration(TestCertificates.identity("self-signed"))).handshake().client, .done(0))
    }

    @Test(arguments: ["expired", "self-signed", "other-host"])
    func `without verification every certificate is accepted`(certificate: String) throws {
        var client = TLSConfiguration()
        client.verification = .dangerouslyAcceptAnyCertificate
        let pair = try TLSPair(client, TLSServerConfiguration(TestCertificates.identity(certificate)))
        #expect(pair.handshake() == (.done(0), .done(0)))
    }
}

@Suite(.usesSockets, .requires(.openSSL)) struct TLSClientCertificateTests {
    static var requiringCertificates: TLSServerConfiguration {
        var server = TLSServerConfiguration.test
        server.clientCertificates = .required(roots: [TestCertificates.pem("root")])
        return server
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `a client with a trusted certificate is accepted`(version: TLSVersion) throws {
        var client = TLSConfiguration.trustingTestRoot
        client.identity = TestCertificates.client
        client.maximumVersion = version
        let pair = try TLSPair.connected(client, Self.requiringCertificates)
        expectEqual(pair.server.write([1, 2, 3]), .done(3))
        expectEqual(pair.client.read().bytes, [1, 2, 3])
    }

    /// In TLS 1.3, the client's handshake is complete before the server verifies the client's certificate.
    @Test(arguments: [true, false])
    func `a client without a certificate is rejected`(_ canSetIdentity: Bool) throws {
        var client = TLSConfiguration.trustingTestRoot
        if !canSetIdentity { client.nameOfIdentity = nil }
        let pair = try TLSPair(client, Self.requiringCertificates)
        let result = pair.handshake()
        expectEqual(result.client, .done(0))
        expectEqual(result.server.failure?.message.contains("the client did not send a certificate"), true, "\(result)")
        let failure = pair.client.read().result.failure
        expectEqual(failure?.code, .tlsFailed)
        let advice = canSetIdentity ? "; set `TLSConfiguration.identity` of the transports" : ""
        let text = "the server requires a client certificate\(advice)."
        expectEqual(failure?.message.hasSuffix(text), true, "\(String(describing: failure))")
    }

    @Test func `a client with a certificate of an unknown authority is rejected`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.identity = TLSIdentity(certificateChain: TestCertificates.pem("stranger"), privateKey: TestCertificates.pem("client-key"))
        let pair = try TLSPair(client, Self.requiringCertificates)
        let failure = pair.handshake().server.failure
        expectEqual(failure?.code, .certificateRejected)
        expectEqual(failure?.message.contains("The client certificate was rejected: its issuer is unknown"), true)
        expectEqual(failure?.message.contains("subject CN = Stranger"), true)
        expectEqual(pair.client.read().result.failure?.message.contains("the server rejected the client certificate"), true)
    }
}

import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .needsOpenSSL) struct TLSCertificateTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var certificate: String
        var host = "localhost"
        /// What the message says; `nil` where the certificate is accepted.
        var refusal: [String]?
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
        Case(certificate: "server", host: "127.0.0.2", refusal: ["it is for localhost, 127.0.0.1, ::1, not for 127.0.0.2"]),
        Case(certificate: "server", host: "::2", refusal: ["not for ::2", "certificate at depth 0"]),
        Case(certificate: "server", host: "xlocalhost", refusal: ["not for xlocalhost"]),
        Case(certificate: "other-host", refusal: ["The certificate of localhost", "it is for other.example, *.wild.example, 192.0.2.1,"]),
        Case(certificate: "other-host", host: "a.b.wild.example", refusal: ["not for a.b.wild.example"]),
        Case(certificate: "other-host", host: "wild.example", refusal: ["not for wild.example"]),
        Case(certificate: "no-names", refusal: ["it names no host", "common name does not count"]),
        Case(certificate: "expired", refusal: ["it expired on 2020-01-01 00:00:00 UTC", "subject CN = localhost", "CN = Test root"]),
        Case(certificate: "not-yet-valid", refusal: ["it is valid from 2125-01-01 00:00:00 UTC on"]),
        Case(certificate: "self-signed", refusal: ["it is signed by itself", "trustRoots", "Bücher", #"\"& Söhne\""#]),
        Case(certificate: "below-intermediate", refusal: ["its issuer is unknown", "issuer CN = Test intermediate"]),
    ])
    func `a certificate is accepted or refused with the reason`(_ example: Case) throws {
        let pair = try TLSPair(
            .trustingTestRoot, TLSServerConfiguration(TestCertificates.identity(example.certificate)), host: example.host)
        let outcome = pair.handshake()
        guard let refusal = example.refusal else {
            #expect(outcome.client == .done(0))
            #expect(outcome.server == .done(0))
            return
        }
        let failure = try #require(outcome.client.failure)
        #expect(failure.code == .certificateRejected)
        for words in refusal { #expect(failure.message.contains(words), "\(failure.message)") }
        #expect(outcome.server.failure?.code == .tlsFailed)
    }

    @Test func `an unknown authority is refused and the server learns it`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .only([TestCertificates.pem("other-root")])
        let outcome = try TLSPair(client).handshake()
        #expect(outcome.client.failure?.code == .certificateRejected)
        let words = "its issuer is unknown; add that authority to the configuration's trustRoots"
        #expect(outcome.client.failure?.message.contains(words) == true, "\(outcome)")
        #expect(outcome.server.failure?.message.contains("the client does not accept this server's certificate") == true, "\(outcome)")
    }

    @Test func `the system does not trust the test root`() throws {
        #expect(try TLSPair(TLSConfiguration()).handshake().client.failure?.code == .certificateRejected)
    }

    @Test(arguments: [
        TLSConfiguration.TrustRoots.systemAnd([TestCertificates.pem("root")]),
        .only([TestCertificates.pem("other-root"), TestCertificates.pem("root")]),
        .only([TestCertificates.pem("server")]),
    ])
    func `an own root is trusted`(roots: TLSConfiguration.TrustRoots) throws {
        var client = TLSConfiguration()
        client.trustRoots = roots
        #expect(try TLSPair(client).handshake().client == .done(0))
    }

    @Test func `a self signed certificate is trusted when it is a root`() throws {
        var client = TLSConfiguration()
        client.trustRoots = .only([TestCertificates.pem("self-signed")])
        #expect(try TLSPair(client, TLSServerConfiguration(TestCertificates.identity("self-signed"))).handshake().client == .done(0))
    }

    @Test(arguments: ["expired", "self-signed", "other-host"])
    func `without verification anything is accepted`(certificate: String) throws {
        var client = TLSConfiguration()
        client.verification = .dangerouslyAcceptAnyCertificate
        let pair = try TLSPair.connected(client, TLSServerConfiguration(TestCertificates.identity(certificate)))
        #expect(pair.server.requestedServerName == "localhost")
    }
}

@Suite(.usesSockets, .needsOpenSSL) struct TLSClientCertificateTests {
    static var asking: TLSServerConfiguration {
        var server = TLSServerConfiguration.test
        server.clientCertificates = .required(roots: [TestCertificates.pem("root")])
        return server
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `a client with a certificate is accepted`(version: TLSVersion) throws {
        var client = TLSConfiguration.trustingTestRoot
        client.identity = TestCertificates.client
        client.maximumVersion = version
        let pair = try TLSPair.connected(client, Self.asking)
        #expect(pair.server.write([1, 2, 3]) == .done(3))
        #expect(pair.client.read().bytes == [1, 2, 3])
    }

    /// In TLS 1.3 the client has finished its handshake when the server looks at its certificate.
    @Test func `a client without a certificate is refused`() throws {
        let pair = try TLSPair(.trustingTestRoot, Self.asking)
        let outcome = pair.handshake()
        #expect(outcome.client == .done(0))
        #expect(outcome.server.failure?.message.contains("the client showed no certificate") == true, "\(outcome)")
        let failure = pair.client.read().outcome.failure
        #expect(failure?.code == .tlsFailed)
        #expect(failure?.message.contains("the server wants a client's certificate") == true, "\(String(describing: failure))")
    }

    @Test func `a client with a certificate of a stranger is refused`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.identity = TLSIdentity(certificateChain: TestCertificates.pem("stranger"), privateKey: TestCertificates.pem("client-key"))
        let pair = try TLSPair(client, Self.asking)
        let failure = pair.handshake().server.failure
        #expect(failure?.code == .certificateRejected)
        #expect(failure?.message.contains("The client's certificate was rejected: its issuer is unknown") == true)
        #expect(failure?.message.contains("subject CN = Stranger") == true)
        #expect(pair.client.read().outcome.failure?.message.contains("does not accept the client's certificate") == true)
    }
}

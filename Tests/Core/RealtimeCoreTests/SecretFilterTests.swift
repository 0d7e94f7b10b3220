import RealtimeCore
import TestSupport
import Testing

@Suite struct SecretFilterTests {
    private let endpoint = Endpoint(scheme: "wss", host: "host", port: 443, target: "/hub?token=hunter2")

    @Test func `every occurrence of every secret is replaced`() {
        let filter = SecretFilter(["secret-one", "secret-two"])
        expectEqual(filter.redacted("secret-one, secret-two and secret-one"), "…, … and …")
        expectEqual(filter.redacted("nothing to hide"), "nothing to hide")
        expectEqual(SecretFilter(["secret-one"], replacement: "<redacted>").redacted("a secret-one"), "a <redacted>")
    }

    @Test func `of secrets that contain each other, nothing remains`() {
        for secrets in [["abcdef", "abcdef-ghijkl"], ["abcdef-ghijkl", "abcdef"]] {
            expectEqual(SecretFilter(secrets).redacted("token abcdef-ghijkl"), "token …")
        }
    }

    @Test func `texts with fewer than six bytes aren't removed`() {
        expectEqual(SecretFilter(["short", ""]).redacted("a short text"), "a short text")
        expectEqual(SecretFilter(["longer"]).redacted("a longer text"), "a … text")
        // Bytes count, not characters.
        expectEqual(SecretFilter(["äöü"]).redacted("äöü"), "…")
    }

    @Test func `a limit cuts the text after the secrets are removed`() {
        let filter = SecretFilter(["secret-text"])
        expectEqual(filter.redacted("0123456 secret-text", limit: 11), "0123456 …")
        expectEqual(filter.redacted("01234567890 secret-text", limit: 11), "01234567890…")
    }

    @Test func `only the texts of a peer change in a reason`() {
        let error = TransportError(.upgradeRejected, "Rejected: secret-text", status: 403)
        let filter = SecretFilter(["secret-text"])
        let redacted = { (reason: CloseReason) in reason.mapText { filter.redacted($0) } }
        expectEqual(redacted(.peer(.goingAway, "Bye, secret-text")), .peer(.goingAway, "Bye, …"))
        expectEqual(redacted(.transport(error)).transportError?.message, "Rejected: …")
        expectEqual(redacted(.transport(error)).transportError?.status, 403)
        for reason: CloseReason in [.requested, .openTimeout, .heartbeatTimeout] { expectEqual(redacted(reason), reason) }
    }

    @Test func `a loss is a sentence with the server and the reason`() {
        let reset = CloseReason.transport(TransportError(.reset, "The peer closed the connection."))
        expectEqual(
            reset.lossMessage(at: self.endpoint, wasConnected: true), "Connection to wss://host lost: The peer closed the connection.")
        expectEqual(
            CloseReason.openTimeout.lossMessage(at: self.endpoint, wasConnected: false),
            "Failed to connect to wss://host: the server did not complete the handshake in time.")
        let named = CloseReason.transport(TransportError(.refused, "host refused the connection."))
        expectEqual(named.lossMessage(at: self.endpoint, wasConnected: false), "Failed to connect: host refused the connection.")
        expectEqual(named.lossMessage(at: self.endpoint, wasConnected: true), "Connection to wss://host lost: host refused the connection.")
    }

    @Test func `a stored error keeps the start of a large response`() {
        let large = HTTPResponse(status: 500, text: String(repeating: "x", count: 5000))
        let stored = TransportError(.requestRejected, "Rejected.", response: large).forStorage
        expect(stored.response?.body.count == 1024 && stored.status == 500 && stored.message == "Rejected.")
        let small = TransportError(.requestRejected, "Rejected.", response: HTTPResponse(status: 500, text: "no"))
        expectEqual(small.forStorage, small)
    }

    @Test func `a long message is shortened in a trace, with its size`() {
        expectEqual(TracedFrame.excerpt(of: "{}", byteCount: 2), "{}")
        let long = TracedFrame.excerpt(of: String(repeating: "x", count: 5000), byteCount: 5001)
        expectEqual(long, String(repeating: "x", count: 4096) + "… (5001 bytes)")
    }
}

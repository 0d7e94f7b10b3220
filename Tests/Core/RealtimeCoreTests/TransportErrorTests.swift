import RealtimeCore
import TestSupport
import Testing

@Suite struct TransportErrorTests {
    @Test func `an error carries the response with at most 64 KiB of its body`() {
        let head = HTTPResponseHead(status: 403, headers: ["X": "y"])
        let error = TransportError(.upgradeRejected, "no", response: HTTPResponse(head, body: [UInt8](repeating: 7, count: 70_000)))
        expect(error.status == 403 && error.response?.head == head && error.response?.body == [UInt8](repeating: 7, count: 64 << 10))
        expectEqual(TransportError(.upgradeRejected, "no", status: 403).status, 403)
        expect(TransportError(.upgradeRejected, "no", status: 403).response == nil && TransportError(.reset, "no").status == nil)
    }

    @Test func `descriptions contain nothing of the response`() {
        let head = HTTPResponseHead(status: 403, reason: "secret", headers: ["Set-Cookie": "secret"])
        let error = TransportError(.upgradeRejected, "no", response: HTTPResponse(head, body: Array("secret".utf8)))
        var dumped = ""
        dump(error, to: &dumped)
        for text in ["\(error)", String(reflecting: error), dumped] {
            // The first byte of the body would be a line of the dump. Other numbers can contain 115, such as the address in a type's name.
            expect(text.contains("no") && !text.contains("secret") && !text.contains("- 115\n"), "\(text)")
        }
    }

    private static let long = "Start " + String(repeating: "é", count: 32 << 10) + " end."

    @Test func `the middle of a message above 1,000 bytes is left out`() {
        for count in [0, 1, 999, 1_000] {
            let text = String(repeating: "x", count: count)
            expectEqual(Excerpt.message(text), text)
        }
        for prefix in ["", "x"] {
            let message = Excerpt.message(prefix + Self.long)
            expect((990...1_000).contains(message.utf8.count) && !message.contains("\u{FFFD}"))
            expect(message.hasPrefix(prefix + "Start éé") && message.contains("é…é") && message.hasSuffix("éé end."))
        }
    }

    @Test func `the message of an error has at most 1,000 bytes`() {
        let response = HTTPResponse(HTTPResponseHead(status: 403, reason: Self.long), body: Array(Self.long.utf8))
        let errors = [
            TransportError(.reset, Self.long), TransportError(.reset, Self.long, response: response),
            TransportError(.reset, Self.long, cause: CancellationError()), TransportError(.reset, "").withMessage(Self.long),
        ]
        for error in errors {
            expect(error.message.utf8.count <= 1_000 && error.message.hasPrefix("Start") && error.message.hasSuffix("end."))
        }
        expect(response.summary.count < 500 && response.statusSummary.count < 300)
        let reason = CloseReason.transport(errors[0])
        expect(reason.lossMessage(at: Endpoint(scheme: "ws", host: "a", port: 1), wasConnected: true).hasSuffix("end."))
    }

    @Test(arguments: [
        ("it failed", "it failed."), ("It failed.", "It failed."), ("Really?", "Really?"), ("No!", "No!"), ("and so on…", "and so on…"),
        ("", "."),
    ])
    func `a sentence ends with one mark`(text: String, sentence: String) {
        expectEqual(Excerpt.sentence(text), sentence)
    }
}

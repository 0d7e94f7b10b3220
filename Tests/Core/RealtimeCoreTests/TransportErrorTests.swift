import RealtimeCore
import Testing

@Suite struct TransportErrorTests {
    @Test func `an error carries the response with at most 64 KiB of its body`() {
        let head = HTTPResponseHead(status: 403, headers: ["X": "y"])
        let error = TransportError(.upgradeRejected, "no", response: HTTPResponse(head, body: [UInt8](repeating: 7, count: 70_000)))
        #expect(error.status == 403 && error.response?.head == head && error.response?.body == [UInt8](repeating: 7, count: 64 << 10))
        #expect(TransportError(.upgradeRejected, "no", status: 403).status == 403)
        #expect(TransportError(.upgradeRejected, "no", status: 403).response == nil && TransportError(.reset, "no").status == nil)
    }

    @Test func `descriptions contain nothing of the response`() {
        let head = HTTPResponseHead(status: 403, reason: "secret", headers: ["Set-Cookie": "secret"])
        let error = TransportError(.upgradeRejected, "no", response: HTTPResponse(head, body: Array("secret".utf8)))
        var dumped = ""
        dump(error, to: &dumped)
        for text in ["\(error)", String(reflecting: error), dumped] {
            // The first byte of the body would be a line of the dump. Other numbers can contain 115, such as the address in a type's name.
            #expect(text.contains("no") && !text.contains("secret") && !text.contains("- 115\n"), "\(text)")
        }
    }
}

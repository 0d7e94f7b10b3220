import RealtimeCore
import RealtimeSockets
import Testing

@Suite struct HTTPRequestDecoderTests {
    static let streams = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET /path?query=%20&x HTTP/1.1\r\nHost: [::1]:8080\r\nX-Empty:\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: a\r\n\r\nDELETE /c HTTP/1.1\r\nHost: b\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.0\r\n\r\n",
    ]

    @Test(arguments: streams) func `requests are read however they are cut`(_ stream: String) {
        let whole = requests(stream, ends: true)
        #expect(whole.error == nil)
        #expect(!whole.requests.isEmpty)
        #expect(whole.requests.allSatisfy { $0.isComplete })
        for pieces in everySplit(Array(stream.utf8)) {
            let cut = requests(pieces, ends: true)
            #expect(cut.requests == whole.requests)
            #expect(cut.error == nil)
        }
    }

    @Test func `several requests come one after the other`() {
        let found = requests(Self.streams[2]).requests
        #expect(found.map(\.method) == ["POST", "GET", "DELETE"])
        #expect(found.map(\.target) == ["/a", "/b", "/c"])
        #expect(found.map { String(decoding: $0.body, as: UTF8.self) } == ["hello", "", ""])
    }

    @Test func `an i pv 6 host is kept as it is`() {
        #expect(requests(Self.streams[1]).requests.first?.headers["host"] == "[::1]:8080")
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var status: Int

        init(_ name: String, _ text: String, _ status: Int = 400) {
            (self.testDescription, self.bytes, self.status) = (name, Array(text.utf8), status)
        }
    }

    static let bad = [
        Bad("no version", "GET /\r\n\r\n"), Bad("no target", "GET  HTTP/1.1\r\n\r\n"),
        Bad("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Bad("a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), Bad("a tab", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        Bad("a space behind the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        Bad("a method of signs", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Bad("letters outside ASCII in the target", "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n"),
        Bad("a NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), Bad("HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        Bad("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), Bad("HTTP/0.9", "GET / HTTP/0.9\r\n\r\n", 505),
        Bad("a TLS hello", "\u{16}\u{3}\u{1}\n"), Bad("many empty lines", "\r\n\r\n\r\n\r\n\r\n"),
        Bad("no Host", "GET / HTTP/1.1\r\n\r\n"), Bad("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        Bad("a fold", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"), Bad("a fold at once", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        Bad("a space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello"),
        Bad("a bare line feed", "GET / HTTP/1.1\nHost: a\n\n"), Bad("a bare carriage return", "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"),
        Bad("a NUL in a value", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"),
        Bad("both lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        Bad("both lengths, the other way round", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        Bad("two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
        Bad("a length that is none", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: five\r\n\r\n"),
        Bad("another coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        Bad("chunked that is not last", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 501),
        Bad("a coding that only looks like chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{0B}chunked\r\n\r\n"),
        Bad("chunked with HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Bad("another expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\nContent-Length: 1\r\n\r\n", 417),
        Bad("a large body by its length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", 413),
        Bad(
            "a large body in chunks",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n\(String(repeating: "a", count: 64))\r\n40\r\n\(String(repeating: "a", count: 64))\r\n",
            413),
        Bad("a long line", "GET /\(String(repeating: "a", count: 300)) HTTP/1.1\r\n", 414),
        Bad("many fields", "GET / HTTP/1.1\r\n\(String(repeating: "A: b\r\n", count: 20))\r\n", 431),
    ]

    @Test(arguments: bad) func `what could be read in two ways is refused`(_ bad: Bad) {
        let limits = HTTPLimits(lineBytes: 256, headBytes: 512, fields: 16)
        let whole = requests([bad.bytes], limits: limits, bodyLimit: 100)
        #expect(whole.error?.status == bad.status)
        for pieces in everySplit(bad.bytes) {
            let cut = requests(pieces, limits: limits, bodyLimit: 100)
            #expect(cut.error == whole.error)
            #expect(cut.requests.map(\.target) == whole.requests.map(\.target))
        }
    }

    @Test func `nothing is read after an error`() {
        let found = requests("GET / HTTP/1.1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(found.requests.isEmpty)
        #expect(found.error?.status == 400)
    }

    @Test func `an expectation is reported`() {
        func ask(_ text: String) -> Asked? { requests(text).requests.first }
        #expect(ask("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n")?.expectsContinue == true)
        #expect(ask("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")?.expectsContinue == false)
        #expect(ask("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")?.expectsContinue == false)
    }

    @Test func `whether the connection stays is reported`() {
        func stays(_ text: String) -> Bool? { requests(text).requests.first?.keepsAlive }
        #expect(stays("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == true)
        #expect(stays("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") == false)
        #expect(stays("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: x, CLOSE\r\n\r\n") == false)
        #expect(stays("GET / HTTP/1.0\r\n\r\n") == false)
        #expect(stays("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n") == true)
    }

    @Test func `the end between requests is fine and within one is not`() {
        #expect(requests("", ends: true).error == nil)
        #expect(requests("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ends: true).error == nil)
        #expect(requests("GET", ends: true).error?.code == .closed)
        #expect(requests("GET / HTTP/1.1\r\n", ends: true).error?.code == .closed)
        #expect(requests("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx", ends: true).error?.code == .closed)
    }
}

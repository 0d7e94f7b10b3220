import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite struct HTTPRequestDecoderTests {
    static let streams = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET /path?query=%20&x HTTP/1.1\r\nHost: [::1]:8080\r\nX-Empty:\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: a\r\n\r\nDELETE /c HTTP/1.1\r\nHost: b\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.0\r\n\r\n",
    ]

    @Test(arguments: streams) func `requests are decoded independently of how the input is split`(_ stream: String) {
        let whole = decodeRequests(stream, ends: true)
        expectNil(whole.error)
        expect(!whole.requests.isEmpty)
        expect(whole.requests.allSatisfy { $0.isComplete })
        for pieces in everySplit(Array(stream.utf8)) {
            let split = decodeRequests(pieces, ends: true)
            expectEqual(split.requests, whole.requests)
            expectNil(split.error)
        }
    }

    @Test func `pipelined requests are decoded in order`() {
        let found = decodeRequests(Self.streams[2]).requests
        expectEqual(found.map(\.method), ["POST", "GET", "DELETE"])
        expectEqual(found.map(\.target), ["/a", "/b", "/c"])
        expectEqual(found.map { String(decoding: $0.body, as: UTF8.self) }, ["hello", "", ""])
    }

    @Test func `an IPv6 host is kept unchanged`() {
        expectEqual(decodeRequests(Self.streams[1]).requests.first?.headers["host"], "[::1]:8080")
    }

    struct Invalid: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var status: Int

        init(_ name: String, _ text: String, _ status: Int = 400) {
            (self.testDescription, self.bytes, self.status) = (name, Array(text.utf8), status)
        }
    }

    static let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    static let invalid = [
        Invalid("no version", "GET /\r\n\r\n"), Invalid("no target", "GET  HTTP/1.1\r\n\r\n"),
        Invalid("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Invalid("a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), Invalid("a tab", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        Invalid("a space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        Invalid("an invalid method", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Invalid("non-ASCII characters in the target", "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n"),
        Invalid("a NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), Invalid("HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        Invalid("the connection preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        Invalid("HTTP/0.9", "GET / HTTP/0.9\r\n\r\n", 505),
        Invalid("a TLS ClientHello", "\u{16}\u{3}\u{1}\n"), Invalid("too many empty lines", "\r\n\r\n\r\n\r\n\r\n"),
        Invalid("no Host", "GET / HTTP/1.1\r\n\r\n"), Invalid("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        Invalid("a Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        Invalid("a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        Invalid("a Host with a user name", "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n"),
        Invalid("a Host with characters outside ASCII", "GET / HTTP/1.1\r\nHost: ä\r\n\r\n"),
        Invalid("a Host with an invalid escape", "GET / HTTP/1.1\r\nHost: a%2\r\n\r\n"),
        Invalid("a Host with a port that is not a number", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
        Invalid("a Host with a port above 65535", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"),
        Invalid("a Host with two ports", "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n"),
        Invalid("a Host with an incomplete IPv6 address", "GET / HTTP/1.1\r\nHost: fe80:1:2:3\r\n\r\n"),
        Invalid("a Host with an IPv6 address and a port that is not a number", "GET / HTTP/1.1\r\nHost: ::1:x\r\n\r\n"),
        Invalid("a Host with an IPv6 address without a closing bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
        Invalid("a Host with text after the closing bracket", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n"),
        Invalid("a Host with a name in brackets", "GET / HTTP/1.1\r\nHost: [a.example]\r\n\r\n"),
        Invalid("an invalid Host with HTTP/1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n"),
        Invalid("a folded field", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"),
        Invalid("a folded first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        Invalid("a space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello"),
        Invalid("a bare line feed", "GET / HTTP/1.1\nHost: a\n\n"),
        Invalid("a bare carriage return", "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"),
        Invalid("a NUL in a value", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"),
        Invalid(
            "Content-Length before Transfer-Encoding",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        Invalid(
            "Transfer-Encoding before Content-Length",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        Invalid("conflicting lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
        Invalid("an invalid length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: five\r\n\r\n"),
        Invalid("an unsupported transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        Invalid("chunked as the first of two codings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 501),
        Invalid("chunked after a control character", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{0B}chunked\r\n\r\n"),
        Invalid("chunked with HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Invalid("an unsupported expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n", 417),
        Invalid("a length above the limit", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", 413),
        Invalid(
            "chunks above the limit",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n\(String(repeating: "a", count: 64))\r\n40\r\n\(String(repeating: "a", count: 64))\r\n",
            413),
        Invalid("a space after a chunk size", Self.chunked + "1 \r\nx\r\n0\r\n\r\n"),
        Invalid("a tab after a chunk size", Self.chunked + "1\t\r\nx\r\n0\r\n\r\n"),
        Invalid("a space before a chunk extension", Self.chunked + "1 ;a=b\r\nx\r\n0\r\n\r\n"),
        Invalid("an announced chunk above the limit", Self.chunked + "65\r\n", 413),
        Invalid(
            "an announced chunk above the rest of the limit",
            Self.chunked + "60\r\n\(String(repeating: "a", count: 96))\r\n5\r\n", 413),
        Invalid("a chunk size with too many digits", Self.chunked + "FFFFFFFFFFFFFFFFFF\r\n", 413),
        Invalid("a target above the limit", "GET /\(String(repeating: "a", count: 300)) HTTP/1.1\r\n", 414),
        Invalid("too many fields", "GET / HTTP/1.1\r\n\(String(repeating: "A: b\r\n", count: 20))\r\n", 431),
    ]

    @Test(arguments: invalid) func `an invalid or ambiguous request is rejected`(_ invalid: Invalid) {
        let limits = HTTPLimits(lineBytes: 256, headBytes: 512, fields: 16)
        let whole = decodeRequests([invalid.bytes], limits: limits, bodyLimit: 100)
        expectEqual(whole.error?.status, invalid.status)
        for pieces in everySplit(invalid.bytes) {
            let split = decodeRequests(pieces, limits: limits, bodyLimit: 100)
            expectEqual(split.error, whole.error)
            expectEqual(split.requests.map(\.target), whole.requests.map(\.target))
        }
    }

    @Test(arguments: [
        "a", "A.example", "a.example.", "a_b", "xn--bcher-kva.example", "127.0.0.1", "a:80", "a:", "[::1]", "[::ffff:127.0.0.1]:8080",
        "%61", "", "::1", "::1:4801", "fe80::1:2", "1:2:3:4:5:6:7:8:80", "::ffff:127.0.0.1:80",
    ])
    func `a valid Host is accepted`(_ host: String) {
        let found = decodeRequests("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n")
        expect(found.error == nil && found.requests.first?.headers["Host"] == host)
    }

    @Test func `no request is decoded after an error`() {
        let found = decodeRequests("GET / HTTP/1.1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(found.requests.isEmpty)
        expectEqual(found.error?.status, 400)
    }

    @Test func `an expectation of 100 Continue is reported if there is a body`() {
        func decode(_ text: String) -> DecodedRequest? { decodeRequests(text).requests.first }
        expectEqual(decode("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n")?.expectsContinue, true)
        expectEqual(decode("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")?.expectsContinue, false)
        expectEqual(decode("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")?.expectsContinue, false)
    }

    @Test func `the decoder reports whether the client keeps the connection open`() {
        func keepsAlive(_ text: String) -> Bool? { decodeRequests(text).requests.first?.keepsAlive }
        expectEqual(keepsAlive("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true)
        expectEqual(keepsAlive("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), false)
        expectEqual(keepsAlive("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: x, CLOSE\r\n\r\n"), false)
        expectEqual(keepsAlive("GET / HTTP/1.0\r\n\r\n"), false)
        expectEqual(keepsAlive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), true)
    }

    @Test func `the end of the connection is an error during a request but not between requests`() {
        expectNil(decodeRequests("", ends: true).error)
        expectNil(decodeRequests("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ends: true).error)
        expectEqual(decodeRequests("GET", ends: true).error?.code, .closed)
        expectEqual(decodeRequests("GET / HTTP/1.1\r\n", ends: true).error?.code, .closed)
        expectEqual(decodeRequests("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx", ends: true).error?.code, .closed)
    }
}

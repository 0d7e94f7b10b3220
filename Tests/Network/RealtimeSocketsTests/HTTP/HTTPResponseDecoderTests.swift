import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite struct HTTPResponseDecoderTests {
    struct Valid: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var status: Int
        var body: String
        var method: String
        var ends: Bool
        var mayReuse: Bool
        var leftover: String

        init(
            _ name: String, _ text: String, _ status: Int = 200, _ body: String = "", method: String = "GET", ends: Bool = false,
            mayReuse: Bool = true, leftover: String = ""
        ) {
            (self.testDescription, self.bytes, self.status, self.body) = (name, Array(text.utf8), status, body)
            (self.method, self.ends, self.mayReuse, self.leftover) = (method, ends, mayReuse, leftover)
        }
    }

    static let valid = [
        Valid("a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
        Valid("a length of zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        Valid("the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length: 2\r\n\r\nhi", 200, "hi"),
        Valid(
            "chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, "abc0123456789"),
        Valid(
            "chunks with trailers",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Checksum: 12\r\nExpires: never\r\n\r\n", 200, "hi"),
        Valid(
            "chunks with extensions",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;name=value;\"q\"\r\nhi\r\n1 ; x\r\n!\r\n000;last\r\n\r\n", 200, "hi!"),
        Valid("a body until the connection closes", "HTTP/1.1 200 OK\r\n\r\nall of it", 200, "all of it", ends: true, mayReuse: false),
        Valid("an empty body until the connection closes", "HTTP/1.1 200 OK\r\n\r\n", 200, "", ends: true, mayReuse: false),
        Valid("HTTP/1.0", "HTTP/1.0 200 OK\r\nServer: old\r\n\r\nold", 200, "old", ends: true, mayReuse: false),
        Valid("HTTP/1.0 with a length", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", 200, "old", mayReuse: false),
        Valid("HTTP/1.0 kept alive", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nold", 200, "old"),
        Valid(
            "HTTP/1.0 that both keeps and closes", "HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 3\r\n\r\nold", 200,
            "old", mayReuse: false),
        Valid("no reason phrase", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, "x"),
        Valid("an empty reason phrase", "HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", 200, "x"),
        Valid("an unknown status", "HTTP/1.1 999 What?\r\nContent-Length: 0\r\n\r\n", 999),
        Valid("204", "HTTP/1.1 204 No Content\r\n\r\n", 204),
        Valid("304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304),
        Valid("a body behind 204", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nno", 204, leftover: "no"),
        Valid("chunks behind 204", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 204, leftover: "0\r\n\r\n"),
        Valid("a body behind 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nno", 304, leftover: "no"),
        Valid("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", method: "HEAD"),
        Valid("HEAD with chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", method: "HEAD"),
        Valid(
            "1xx before the final response",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            200, "ok"),
        Valid("Connection: close", "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", mayReuse: false),
        Valid(
            "Transfer-Encoding takes precedence over Content-Length, and the connection is not reused",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 200, "x", mayReuse: false),
        Valid("folded fields", "HTTP/1.1 200 OK\r\nX-Long: one\r\n\t two\r\nContent-Length: 0\r\n\r\n"),
        Valid("bytes after the response", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1", 200, "ok", leftover: "HTTP/1.1"),
        Valid(
            "401 with Basic",
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno", 401, "no"),
        Valid("a redirect", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n", 307),
    ]

    @Test(arguments: valid) func `responses are decoded independently of how the input is split`(_ valid: Valid) {
        let whole = decodeResponse([valid.bytes], method: valid.method, ends: valid.ends)
        expectNil(whole.error)
        expect(whole.isComplete)
        expectEqual(whole.head?.status, valid.status)
        expectEqual(String(decoding: whole.body, as: UTF8.self), valid.body)
        expectEqual(whole.mayReuse, valid.mayReuse)
        expectEqual(String(decoding: whole.leftover, as: UTF8.self), valid.leftover)
        for pieces in everySplit(valid.bytes) { expectEqual(decodeResponse(pieces, method: valid.method, ends: valid.ends), whole) }
    }

    @Test(arguments: valid) func `whole reads are decoded with the same result`(_ valid: Valid) {
        var expected = decodeResponse([valid.bytes], method: valid.method, ends: valid.ends)
        expected.leftover = []
        for pieces in everySplit(valid.bytes) { expectEqual(decodeReads(pieces, method: valid.method, ends: valid.ends), expected) }
    }

    @Test func `many chunks are decoded independently of how the input is split`() {
        let texts = (1...40).map { String(repeating: "x", count: $0 * 7 % 37 + 1) }
        let chunks = texts.map { "\(String($0.utf8.count, radix: 16, uppercase: true))\r\n\($0)\r\n" }
        // A chunk with an extension and one with leading zeros are decoded in another way than those around them.
        let body = chunks[..<20].joined() + "3;a=b\r\nabc\r\n" + "000000000003\r\ndef\r\n" + chunks[20...].joined() + "0\r\n\r\n"
        let bytes = Array((Self.chunked + body).utf8)
        for pieces in everySplit(bytes) {
            let response = decodeReads(pieces)
            expectEqual(String(decoding: response.body, as: UTF8.self), texts[..<20].joined() + "abcdef" + texts[20...].joined())
            expect(response.isComplete)
        }
    }

    @Test func `fields keep their order and spelling, and repeated fields are kept`() {
        let head = decodeResponse("HTTP/1.1 200 Fine  words\r\nSet-Cookie: a=1\r\nx-B:\t two words \t\r\nSET-COOKIE: b=2\r\nEmpty:\r\n\r\n")
            .head
        expectEqual(head?.reason, "Fine  words")
        expectEqual(head?.headers.fields.map(\.name), ["Set-Cookie", "x-B", "SET-COOKIE", "Empty"])
        expectEqual(head?.headers.values("set-cookie"), ["a=1", "b=2"])
        expectEqual(head?.headers["X-b"], "two words")
        expectEqual(head?.headers["Empty"], "")
    }

    @Test func `field values can be UTF-8 or Latin-1`() {
        expectEqual(decodeResponse("HTTP/1.1 200 Grüße\r\nX-City: Köln\r\n\r\n").head?.headers["X-City"], "Köln")
        let latin = Array("HTTP/1.1 200 OK\r\nX-City: K".utf8) + [0xF6] + Array("ln\r\n\r\n".utf8)
        expectEqual(decodeResponse([latin]).head?.headers["X-City"], "Köln")
    }

    @Test func `the lines of a folded field are joined`() {
        let head = decodeResponse("HTTP/1.1 200 OK\r\nX-Long: one\r\n  two\r\n\tthree\r\n \r\nX-Other: 1\r\n\r\n").head
        expectEqual(head?.headers["X-Long"], "one two three")
        expectEqual(head?.headers["X-Other"], "1")
    }

    @Test func `two thousand fields are accepted`() {
        let fields = (0..<2000).map { "X-\($0): \($0)\r\n" }.joined()
        expectEqual(decodeResponse("HTTP/1.1 200 OK\r\n\(fields)\r\n").head?.headers.fields.count, 2000)
    }

    @Test func `the bytes after a protocol switch are left to the caller`() {
        let bytes =
            Array("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".utf8) + [0x81, 0x00]
        for pieces in everySplit(bytes) { expectEqual(decodeResponse(pieces).leftover, [0x81, 0x00]) }
    }

    struct Invalid: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var code: TransportError.Code
        var ends: Bool

        init(_ name: String, _ text: String, _ code: TransportError.Code = .protocolViolation, ends: Bool = false) {
            (self.testDescription, self.bytes, self.code, self.ends) = (name, Array(text.utf8), code, ends)
        }
    }

    static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    static let invalid = [
        Invalid("the connection closes before the response", "", .closed, ends: true),
        Invalid("… within the status line", "HTTP/1.1 20", .closed, ends: true),
        Invalid("… after the status line", "HTTP/1.1 200 OK\r\n", .closed, ends: true),
        Invalid("… within a field", "HTTP/1.1 200 OK\r\nContent-Le", .closed, ends: true),
        Invalid("… before the empty line", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", .closed, ends: true),
        Invalid("… after 100 Continue", "HTTP/1.1 100 Continue\r\n\r\n", .closed, ends: true),
        Invalid("… after 100 Continue and a status line", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", .closed, ends: true),
        Invalid("… within the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", .closed, ends: true),
        Invalid("… before the first chunk", chunked, .closed, ends: true),
        Invalid("… within a chunk's size", chunked + "1", .closed, ends: true),
        Invalid("… within a chunk", chunked + "5\r\nhel", .closed, ends: true),
        Invalid("… after a chunk", chunked + "5\r\nhello\r\n", .closed, ends: true),
        Invalid("… within the trailers", chunked + "0\r\nX-Sum: 1\r\n", .closed, ends: true),
        Invalid("… before the last empty line", chunked + "0\r\n", .closed, ends: true),
        Invalid("another protocol", "SSH-2.0-server\r\n"), Invalid("another protocol name", "ICY 200 OK\r\n\r\n"),
        Invalid("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"),
        Invalid("no minor version", "HTTP/1 200 OK\r\n\r\n"), Invalid("lower case", "http/1.1 200 OK\r\n\r\n"),
        Invalid("a version with letters", "HTTP/1.x 200 OK\r\n\r\n"), Invalid("no status", "HTTP/1.1\r\n\r\n"),
        Invalid("an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n"), Invalid("a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"),
        Invalid("a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"), Invalid("a status with letters", "HTTP/1.1 2x0 OK\r\n\r\n"),
        Invalid("a status below 100", "HTTP/1.1 099 OK\r\n\r\n"), Invalid("two spaces", "HTTP/1.1  200 OK\r\n\r\n"),
        Invalid("no space after the status", "HTTP/1.1 200OK\r\n\r\n"), Invalid("a negative status", "HTTP/1.1 -20 OK\r\n\r\n"),
        Invalid("a field without a colon", "HTTP/1.1 200 OK\r\nNonsense\r\n\r\n"),
        Invalid("an empty name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n"),
        Invalid("a space in a name", "HTTP/1.1 200 OK\r\nX Y: x\r\n\r\n"),
        Invalid("a space before the colon", "HTTP/1.1 200 OK\r\nX : x\r\n\r\n"),
        Invalid("a NUL in a value", "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"), Invalid("a NUL in a name", "HTTP/1.1 200 OK\r\nX\0: a\r\n\r\n"),
        Invalid("a carriage return in a value", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n"),
        Invalid("a bare line feed", "HTTP/1.1 200 OK\nX: a\n\n"),
        Invalid("a bare line feed in the fields", "HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n"),
        Invalid("a fold without a field", "HTTP/1.1 200 OK\r\n folded\r\n\r\n"),
        Invalid("a control character", "HTTP/1.1 200 OK\r\nX: \u{1}\r\n\r\n"),
        Invalid("a DEL", "HTTP/1.1 200 OK\r\nX: \u{7F}\r\n\r\n"),
        Invalid("conflicting lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        Invalid("conflicting lengths in one field", "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n"),
        Invalid("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        Invalid("a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n"),
        Invalid("a hexadecimal length", "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n"),
        Invalid("a length with an exponent", "HTTP/1.1 200 OK\r\nContent-Length: 1e2\r\n\r\n"),
        Invalid("a length with a fraction", "HTTP/1.1 200 OK\r\nContent-Length: 1.0\r\n\r\n"),
        Invalid("a length with a space", "HTTP/1.1 200 OK\r\nContent-Length: 1 0\r\n\r\n"),
        Invalid("a length of 2^63", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n"),
        Invalid("a length of 2^64", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n"),
        Invalid("an empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"),
        Invalid("a length followed by a comma", "HTTP/1.1 200 OK\r\nContent-Length: 1,\r\n\r\n"),
        Invalid("a length that is too large", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        Invalid("an unsupported transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        Invalid("a transfer coding twice in one field", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"),
        Invalid("a transfer coding behind chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"),
        Invalid("a transfer coding that resembles chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n"),
        Invalid("a transfer coding with a parameter", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;q=1\r\n\r\n"),
        Invalid("a transfer coding in quotes", "HTTP/1.1 200 OK\r\nTransfer-Encoding: \"chunked\"\r\n\r\n"),
        Invalid("chunked after a control character", "HTTP/1.1 200 OK\r\nTransfer-Encoding: \u{0B}chunked\r\n\r\n"),
        Invalid("HTTP/0.9", "<html>hello</html>\r\n"),
        Invalid("a repeated transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Invalid("an empty chunk size", chunked + "\r\n"), Invalid("an invalid chunk size", chunked + "xyz\r\n"),
        Invalid("a chunk size with a prefix", chunked + "0x5\r\n"), Invalid("a negative chunk size", chunked + "-5\r\n"),
        Invalid("a chunk size after a space", chunked + " 5\r\n"), Invalid("two chunk sizes", chunked + "5 5\r\n"),
        Invalid("a chunk size that is too large", chunked + "8000000000000000\r\n"),
        Invalid("a chunk size with too many digits", chunked + "FFFFFFFFFFFFFFFFFF\r\n"),
        Invalid("a chunk longer than its size", chunked + "2\r\nabc\r\n"),
        Invalid("a chunk followed by a line feed", chunked + "2\r\nab\n"),
        Invalid("a chunk size followed by a line feed", chunked + "2\nab"),
        Invalid("an extension with a line feed", chunked + "2;a\nb\r\nab"),
        Invalid("a trailer without a colon", chunked + "0\r\nnonsense\r\n\r\n"),
        Invalid("too many 1xx responses", String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 17)),
    ]

    @Test(arguments: invalid) func `an invalid response is an error`(_ invalid: Invalid) {
        let whole = decodeResponse([invalid.bytes], ends: invalid.ends)
        expectEqual(whole.error?.code, invalid.code)
        expectNil(whole.error?.status)
        expect(!whole.mayReuse)
        for pieces in everySplit(invalid.bytes) {
            expectEqual(decodeResponse(pieces, ends: invalid.ends), whole)
            expectEqual(decodeReads(pieces, ends: invalid.ends), whole)
        }
    }

    @Test func `a chunk size can have leading zeros`() {
        expectEqual(decodeResponse(Self.chunked + "0000000000000000000000001\r\nx\r\n0\r\n\r\n").body, [0x78])
    }

    @Test func `the limits on the head and trailers are enforced`() {
        let limits = HTTPLimits(lineBytes: 40, headBytes: 100, fields: 3, chunkLineBytes: 8, informational: 1)
        func code(_ text: String) -> TransportError.Code? {
            let whole = decodeResponse(text, limits: limits)
            for pieces in everySplit(Array(text.utf8)) {
                expectEqual(decodeResponse(pieces, limits: limits), whole)
                expectEqual(decodeReads(pieces, limits: limits), whole)
            }
            return whole.error?.code
        }
        let start = "HTTP/1.1 200 OK\r\n"
        expectNil(code(start + "X: " + String(repeating: "a", count: 37) + "\r\n\r\n"))
        expectEqual(code(start + "X: " + String(repeating: "a", count: 38) + "\r\n\r\n"), .tooLarge)
        expectEqual(code("HTTP/1.1 200 " + String(repeating: "O", count: 28) + "\r\n\r\n"), .tooLarge)
        expectNil(code(start + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n"))
        expectEqual(code(start + "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n"), .tooLarge)
        let field = "X: " + String(repeating: "a", count: 35) + "\r\n"
        expectNil(code(start + field + "Y: " + String(repeating: "a", count: 36) + "\r\n\r\n"))
        expectEqual(code(start + field + "Y: " + String(repeating: "a", count: 37) + "\r\n\r\n"), .tooLarge)
        let chunked = start + "Transfer-Encoding: chunked\r\n\r\n"
        expectNil(code(chunked + "1;ext=ab\r\nx\r\n0\r\n\r\n"))
        expectEqual(code(chunked + "1;ext=abc\r\nx\r\n0\r\n\r\n"), .tooLarge)
        expectNil(code(chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n"))
        expectEqual(code(chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n"), .tooLarge)
    }

    @Test func `a line that does not end fails at the limit`() {
        var decoder = HTTPResponseDecoder(method: "GET")
        let piece = [UInt8](repeating: 0x61, count: 1000)
        #expect(throws: TransportError.self) {
            for _ in 0..<100 {
                try piece.withUnsafeBytes { bytes in
                    var input = bytes
                    _ = try decoder.next(&input)
                }
            }
        }
    }

    @Test func `calls after an error throw the same error`() {
        var decoder = HTTPResponseDecoder(method: "GET")
        for text in ["nonsense\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            let error = #expect(throws: TransportError.self) {
                try Array(text.utf8).withUnsafeBytes { bytes in
                    var input = bytes
                    _ = try decoder.next(&input)
                }
            }
            expectEqual(error?.code, .protocolViolation)
        }
        #expect(throws: TransportError.self) { try decoder.endOfStream() }
    }

    @Test func `a response has started once its first byte has arrived`() {
        var decoder = HTTPResponseDecoder(method: "GET")
        expect(!decoder.hasStarted)
        [UInt8](arrayLiteral: 0x48).withUnsafeBytes { bytes in
            var input = bytes
            _ = try? decoder.next(&input)
        }
        expect(decoder.hasStarted)
    }
}

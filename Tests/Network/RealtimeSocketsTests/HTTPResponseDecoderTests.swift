import RealtimeCore
import RealtimeSockets
import Testing

@Suite struct HTTPResponseDecoderTests {
    struct Good: Sendable, CustomTestStringConvertible {
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

    static let good = [
        Good("a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
        Good("a length of zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        Good("the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length: 2\r\n\r\nhi", 200, "hi"),
        Good(
            "chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, "abc0123456789"),
        Good(
            "chunks with trailers",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Checksum: 12\r\nExpires: never\r\n\r\n", 200, "hi"),
        Good(
            "chunks with extensions",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;name=value;\"q\"\r\nhi\r\n1 ; x\r\n!\r\n000;last\r\n\r\n", 200, "hi!"),
        Good("until the end", "HTTP/1.1 200 OK\r\n\r\nall of it", 200, "all of it", ends: true, mayReuse: false),
        Good("nothing until the end", "HTTP/1.1 200 OK\r\n\r\n", 200, "", ends: true, mayReuse: false),
        Good("HTTP/1.0", "HTTP/1.0 200 OK\r\nServer: old\r\n\r\nold", 200, "old", ends: true, mayReuse: false),
        Good("HTTP/1.0 with a length", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", 200, "old", mayReuse: false),
        Good("HTTP/1.0 kept alive", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nold", 200, "old"),
        Good("no words after the status", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, "x"),
        Good("no words but a space", "HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", 200, "x"),
        Good("a status of its own", "HTTP/1.1 999 What?\r\nContent-Length: 0\r\n\r\n", 999),
        Good("204", "HTTP/1.1 204 No Content\r\n\r\n", 204),
        Good("304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304),
        Good("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", method: "HEAD"),
        Good("HEAD with chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", method: "HEAD"),
        Good(
            "1xx before it",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            200, "ok"),
        Good("a close", "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", mayReuse: false),
        Good(
            "both lengths: the chunks count, and the connection is not used again",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 200, "x", mayReuse: false),
        Good("folded fields", "HTTP/1.1 200 OK\r\nX-Long: one\r\n\t two\r\nContent-Length: 0\r\n\r\n"),
        Good("another answer behind it", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1", 200, "ok", leftover: "HTTP/1.1"),
        Good(
            "401 with Basic",
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno", 401, "no"),
        Good("a redirect", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n", 307),
    ]

    @Test(arguments: good) func `answers are read however they are cut`(_ good: Good) {
        let whole = answer([good.bytes], method: good.method, ends: good.ends)
        #expect(whole.error == nil)
        #expect(whole.isComplete)
        #expect(whole.head?.status == good.status)
        #expect(String(decoding: whole.body, as: UTF8.self) == good.body)
        #expect(whole.mayReuse == good.mayReuse)
        #expect(String(decoding: whole.leftover, as: UTF8.self) == good.leftover)
        for pieces in everySplit(good.bytes) { #expect(answer(pieces, method: good.method, ends: good.ends) == whole) }
    }

    @Test func `fields keep their order their spelling and their repetitions`() {
        let head = answer("HTTP/1.1 200 Fine  words\r\nSet-Cookie: a=1\r\nx-B:\t two words \t\r\nSET-COOKIE: b=2\r\nEmpty:\r\n\r\n").head
        #expect(head?.reason == "Fine  words")
        #expect(head?.headers.fields.map(\.name) == ["Set-Cookie", "x-B", "SET-COOKIE", "Empty"])
        #expect(head?.headers.values("set-cookie") == ["a=1", "b=2"])
        #expect(head?.headers["X-b"] == "two words")
        #expect(head?.headers["Empty"] == "")
    }

    @Test func `values may be UTF-8 or latin 1`() {
        #expect(answer("HTTP/1.1 200 Grüße\r\nX-City: Köln\r\n\r\n").head?.headers["X-City"] == "Köln")
        let latin = Array("HTTP/1.1 200 OK\r\nX-City: K".utf8) + [0xF6] + Array("ln\r\n\r\n".utf8)
        #expect(answer([latin]).head?.headers["X-City"] == "Köln")
    }

    @Test func `folded fields are one value`() {
        let head = answer("HTTP/1.1 200 OK\r\nX-Long: one\r\n  two\r\n\tthree\r\n \r\nX-Other: 1\r\n\r\n").head
        #expect(head?.headers["X-Long"] == "one two three")
        #expect(head?.headers["X-Other"] == "1")
    }

    @Test func `two thousand fields are fine`() {
        let fields = (0..<2000).map { "X-\($0): \($0)\r\n" }.joined()
        #expect(answer("HTTP/1.1 200 OK\r\n\(fields)\r\n").head?.headers.fields.count == 2000)
    }

    @Test func `the bytes behind a switch of protocols are handed back`() {
        let bytes =
            Array("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".utf8) + [0x81, 0x00]
        for pieces in everySplit(bytes) { #expect(answer(pieces).leftover == [0x81, 0x00]) }
        #expect(answer("HTTP/1.1 200 Connection established\r\n\r\nrest", method: "CONNECT").leftover == Array("rest".utf8))
        #expect(answer("HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno", method: "CONNECT").body == Array("no".utf8))
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var code: TransportError.Code
        var ends: Bool

        init(_ name: String, _ text: String, _ code: TransportError.Code = .protocolViolation, ends: Bool = false) {
            (self.testDescription, self.bytes, self.code, self.ends) = (name, Array(text.utf8), code, ends)
        }
    }

    static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    static let bad = [
        Bad("the connection ends before a byte", "", .closed, ends: true),
        Bad("… within the status line", "HTTP/1.1 20", .closed, ends: true),
        Bad("… after the status line", "HTTP/1.1 200 OK\r\n", .closed, ends: true),
        Bad("… within a field", "HTTP/1.1 200 OK\r\nContent-Le", .closed, ends: true),
        Bad("… before the empty line", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", .closed, ends: true),
        Bad("… after 100 Continue", "HTTP/1.1 100 Continue\r\n\r\n", .closed, ends: true),
        Bad("… after 100 Continue and a status line", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", .closed, ends: true),
        Bad("… within the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", .closed, ends: true),
        Bad("… before the first chunk", chunked, .closed, ends: true),
        Bad("… within a chunk's size", chunked + "1", .closed, ends: true),
        Bad("… within a chunk", chunked + "5\r\nhel", .closed, ends: true),
        Bad("… after a chunk", chunked + "5\r\nhello\r\n", .closed, ends: true),
        Bad("… within the trailers", chunked + "0\r\nX-Sum: 1\r\n", .closed, ends: true),
        Bad("… before the last empty line", chunked + "0\r\n", .closed, ends: true),
        Bad("no HTTP", "SSH-2.0-server\r\n"), Bad("another word", "ICY 200 OK\r\n\r\n"), Bad("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"),
        Bad("no minor version", "HTTP/1 200 OK\r\n\r\n"), Bad("lower case", "http/1.1 200 OK\r\n\r\n"),
        Bad("a version of letters", "HTTP/1.x 200 OK\r\n\r\n"), Bad("no status", "HTTP/1.1\r\n\r\n"),
        Bad("an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n"), Bad("a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"),
        Bad("a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"), Bad("a status of letters", "HTTP/1.1 2x0 OK\r\n\r\n"),
        Bad("a status below 100", "HTTP/1.1 099 OK\r\n\r\n"), Bad("two spaces", "HTTP/1.1  200 OK\r\n\r\n"),
        Bad("no space after the status", "HTTP/1.1 200OK\r\n\r\n"), Bad("a negative status", "HTTP/1.1 -20 OK\r\n\r\n"),
        Bad("a field without a colon", "HTTP/1.1 200 OK\r\nNonsense\r\n\r\n"), Bad("an empty name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n"),
        Bad("a space in a name", "HTTP/1.1 200 OK\r\nX Y: x\r\n\r\n"), Bad("a space before the colon", "HTTP/1.1 200 OK\r\nX : x\r\n\r\n"),
        Bad("a NUL in a value", "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"), Bad("a NUL in a name", "HTTP/1.1 200 OK\r\nX\0: a\r\n\r\n"),
        Bad("a carriage return in a value", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n"), Bad("a bare line feed", "HTTP/1.1 200 OK\nX: a\n\n"),
        Bad("a bare line feed in the fields", "HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n"),
        Bad("a fold without a field", "HTTP/1.1 200 OK\r\n folded\r\n\r\n"),
        Bad("a control character", "HTTP/1.1 200 OK\r\nX: \u{1}\r\n\r\n"),
        Bad("a DEL", "HTTP/1.1 200 OK\r\nX: \u{7F}\r\n\r\n"),
        Bad("lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        Bad("lengths that differ in one field", "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n"),
        Bad("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        Bad("a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n"),
        Bad("a length of letters", "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n"),
        Bad("an empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"),
        Bad("a length with a comma behind it", "HTTP/1.1 200 OK\r\nContent-Length: 1,\r\n\r\n"),
        Bad("a length that does not fit", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        Bad("another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        Bad("a coding twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Bad("an empty chunk size", chunked + "\r\n"), Bad("a chunk size of letters", chunked + "xyz\r\n"),
        Bad("a chunk size with a prefix", chunked + "0x5\r\n"), Bad("a negative chunk size", chunked + "-5\r\n"),
        Bad("a chunk size after a space", chunked + " 5\r\n"), Bad("two chunk sizes", chunked + "5 5\r\n"),
        Bad("a chunk size that does not fit", chunked + "8000000000000000\r\n"),
        Bad("a chunk size of many digits", chunked + "FFFFFFFFFFFFFFFFFF\r\n"),
        Bad("a chunk longer than it said", chunked + "2\r\nabc\r\n"), Bad("a chunk ended by a line feed", chunked + "2\r\nab\n"),
        Bad("a size ended by a line feed", chunked + "2\nab"), Bad("an extension with a line feed", chunked + "2;a\nb\r\nab"),
        Bad("a trailer without a colon", chunked + "0\r\nnonsense\r\n\r\n"),
        Bad("too many 1xx", String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 17)),
    ]

    @Test(arguments: bad) func `what is no answer is an error`(_ bad: Bad) {
        let whole = answer([bad.bytes], ends: bad.ends)
        #expect(whole.error?.code == bad.code)
        #expect(whole.error?.status == nil)
        #expect(!whole.mayReuse)
        for pieces in everySplit(bad.bytes) { #expect(answer(pieces, ends: bad.ends) == whole) }
    }

    @Test func `a chunk size with leading zeros is a number like any other`() {
        #expect(answer(Self.chunked + "0000000000000000000000001\r\nx\r\n0\r\n\r\n").body == [0x78])
    }

    @Test func `limits of the head are kept`() {
        let limits = HTTPLimits(lineBytes: 40, headBytes: 100, fields: 3, chunkLineBytes: 8, informational: 1)
        func code(_ text: String) -> TransportError.Code? {
            let whole = answer(text, limits: limits)
            for pieces in everySplit(Array(text.utf8)) { #expect(answer(pieces, limits: limits) == whole) }
            return whole.error?.code
        }
        let start = "HTTP/1.1 200 OK\r\n"
        #expect(code(start + "X: " + String(repeating: "a", count: 37) + "\r\n\r\n") == nil)
        #expect(code(start + "X: " + String(repeating: "a", count: 38) + "\r\n\r\n") == .tooLarge)
        #expect(code("HTTP/1.1 200 " + String(repeating: "O", count: 28) + "\r\n\r\n") == .tooLarge)
        #expect(code(start + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n") == nil)
        #expect(code(start + "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n") == .tooLarge)
        let field = "X: " + String(repeating: "a", count: 35) + "\r\n"
        #expect(code(start + field + "Y: " + String(repeating: "a", count: 36) + "\r\n\r\n") == nil)
        #expect(code(start + field + "Y: " + String(repeating: "a", count: 37) + "\r\n\r\n") == .tooLarge)
        let chunked = start + "Transfer-Encoding: chunked\r\n\r\n"
        #expect(code(chunked + "1;ext=ab\r\nx\r\n0\r\n\r\n") == nil)
        #expect(code(chunked + "1;ext=abc\r\nx\r\n0\r\n\r\n") == .tooLarge)
        #expect(code(chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n") == nil)
        #expect(code(chunked + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n") == .tooLarge)
    }

    @Test func `an endless line is given up at its limit`() {
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

    @Test func `an error stays`() {
        var decoder = HTTPResponseDecoder(method: "GET")
        for text in ["nonsense\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            let error = #expect(throws: TransportError.self) {
                try Array(text.utf8).withUnsafeBytes { bytes in
                    var input = bytes
                    _ = try decoder.next(&input)
                }
            }
            #expect(error?.code == .protocolViolation)
        }
        #expect(throws: TransportError.self) { try decoder.endOfStream() }
    }

    @Test func `a stale connection is known by having answered nothing`() {
        var decoder = HTTPResponseDecoder(method: "GET")
        #expect(!decoder.hasStarted)
        [UInt8](arrayLiteral: 0x48).withUnsafeBytes { bytes in
            var input = bytes
            _ = try? decoder.next(&input)
        }
        #expect(decoder.hasStarted)
    }
}

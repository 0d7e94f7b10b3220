import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite struct HTTPEncoderTests {
    private func text(_ encode: (inout [UInt8]) throws(TransportError) -> Void) throws -> String {
        var output: [UInt8] = []
        try encode(&output)
        return String(decoding: output, as: UTF8.self)
    }

    @Test func `a request head is encoded as given`() throws {
        let head = HTTPRequestHead(method: "GET", target: "/a?b=c", headers: ["Host": "[::1]:8080", "X-City": "Köln"])
        let written = try self.text { output throws(TransportError) in try HTTPEncoder.append(head, to: &output) }
        expectEqual(written, "GET /a?b=c HTTP/1.1\r\nHost: [::1]:8080\r\nX-City: Köln\r\n\r\n")
        let read = decodeRequests(written).requests.first
        expectEqual(read?.target, "/a?b=c")
        expectEqual(read?.headers, head.headers)
    }

    @Test func `a response head survives encoding and decoding`() throws {
        var head = HTTPResponseHead(status: 404, headers: ["Content-Length": "0", "X": ""])
        let written = try self.text { output throws(TransportError) in try HTTPEncoder.append(head, to: &output) }
        expectEqual(written, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nX: \r\n\r\n")
        head.reason = "Not Found"
        expectEqual(decodeResponse(written).head, head)
        let unknown = try self.text { output throws(TransportError) in
            try HTTPEncoder.append(HTTPResponseHead(status: 799), to: &output)
        }
        expectEqual(unknown, "HTTP/1.1 799 \r\n\r\n")
    }

    @Test(arguments: [
        ("X\r\nEvil", "1"), ("X: 1\r\nEvil", "1"), ("", "1"), ("X Y", "1"), ("X:", "1"), ("Ä", "1"), ("X", "1\r\nEvil: 2"), ("X", "1\n2"),
        ("X", "1\r"), ("X", "1\0"), ("X", "\u{7F}"),
    ])
    func `a field that would inject another field is an error and leaves the output unchanged`(_ name: String, _ value: String) {
        var headers = HTTPHeaders()
        headers.add("Fine", "1")
        headers.add(name, value)
        var output: [UInt8] = [1]
        #expect(throws: TransportError.self) {
            try HTTPEncoder.append(HTTPRequestHead(method: "GET", target: "/", headers: headers), to: &output)
        }
        #expect(throws: TransportError.self) { try HTTPEncoder.append(HTTPResponseHead(status: 200, headers: headers), to: &output) }
        expectEqual(output, [1])
    }

    @Test func `the error for an invalid field value does not contain the value`() {
        var output: [UInt8] = []
        let error = #expect(throws: TransportError.self) {
            try HTTPEncoder.append(HTTPResponseHead(status: 200, headers: ["Authorization": "secret\n"]), to: &output)
        }
        expectEqual(error?.message.contains("Authorization"), true)
        expectEqual(error?.message.contains("secret"), false)
    }

    @Test(arguments: [("path", "/path"), ("?a=b", "/?a=b"), ("", "/"), ("/a#b", "/a"), ("*", "*")])
    func `the target of a request starts with a slash and has no fragment`(target: String, sent: String) throws {
        let endpoint = Endpoint(scheme: "http", host: "h", port: 80, target: target)
        var output: [UInt8] = []
        try HTTPEncoder.append(HTTPRequest("OPTIONS", endpoint), keepsAlive: true, to: &output)
        expect(String(decoding: output, as: UTF8.self).hasPrefix("OPTIONS \(sent) HTTP/1.1\r\n"))
        var handshake: [UInt8] = []
        _ = try ClientHandshake(WebSocketRequest(endpoint), output: &handshake)
        expect(String(decoding: handshake, as: UTF8.self).hasPrefix("GET \(sent) HTTP/1.1\r\n"))
    }

    @Test func `the method, target, status and reason phrase are validated`() {
        var output: [UInt8] = []
        for (method, target) in [
            ("GET /", "/"), ("", "/"), ("G\r\nX", "/"), ("GET", ""), ("GET", "/a b"), ("GET", "/\r\nX: 1"), ("GET", "/ä"),
        ] {
            #expect(throws: TransportError.self) { try HTTPEncoder.append(HTTPRequestHead(method: method, target: target), to: &output) }
        }
        for (status, reason) in [(99, ""), (1000, ""), (200, "OK\r\nX: 1"), (200, "\0")] {
            #expect(throws: TransportError.self) { try HTTPEncoder.append(HTTPResponseHead(status: status, reason: reason), to: &output) }
        }
        expect(output.isEmpty)
    }

    @Test func `the transport's fields replace those of a client's request`() throws {
        var request = HTTPRequest(
            "POST", try Endpoint("http://[::1]:8080/auth?x=1"),
            headers: ["host": "elsewhere", "Content-length": "99", "Authorization": "Bearer t", "connection": "upgrade"],
            body: Array("hello".utf8))
        func write(keepsAlive: Bool = false) throws -> String {
            try self.text { output throws(TransportError) in try HTTPEncoder.append(request, keepsAlive: keepsAlive, to: &output) }
        }
        try expectEqual(
            write(),
            "POST /auth?x=1 HTTP/1.1\r\nHost: [::1]:8080\r\nAuthorization: Bearer t\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
        request = HTTPRequest("POST", try Endpoint("http://example.com"))
        try expectEqual(write(), "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        request = HTTPRequest("GET", try Endpoint("http://example.com:8080"))
        try expectEqual(write(), "GET / HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n")
        try expectEqual(write(keepsAlive: true), "GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n")
        request.headers = ["Transfer-Encoding": "chunked"]
        #expect(throws: TransportError.self) { try write() }
    }

    @Test func `chunks survive encoding and decoding`() throws {
        var output: [UInt8] = []
        try HTTPEncoder.append(HTTPResponseHead(status: 200, headers: ["Transfer-Encoding": "chunked"]), to: &output)
        HTTPEncoder.appendChunk(Array("hello".utf8), to: &output)
        HTTPEncoder.appendChunk([], to: &output)
        HTTPEncoder.appendChunk([UInt8](repeating: 0x61, count: 300), to: &output)
        HTTPEncoder.appendLastChunk(to: &output)
        let read = decodeResponse([output])
        expect(read.isComplete)
        expectEqual(read.body, Array("hello".utf8) + [UInt8](repeating: 0x61, count: 300))
    }

    @Test(arguments: [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
        (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ])
    func `dates have the format of the standard`(_ second: Int, _ text: String) {
        expectEqual(HTTPDate.text(second), text)
    }
}

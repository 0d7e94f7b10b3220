import RealtimeCore
import RealtimeSockets
import Testing

@Suite struct HTTPEncoderTests {
    private func text(_ encode: (inout [UInt8]) throws(TransportError) -> Void) throws -> String {
        var output: [UInt8] = []
        try encode(&output)
        return String(decoding: output, as: UTF8.self)
    }

    @Test func `a request head is written as it is`() throws {
        let head = HTTPRequestHead(method: "GET", target: "/a?b=c", headers: ["Host": "[::1]:8080", "X-City": "Köln"])
        let written = try self.text { output throws(TransportError) in try HTTPEncoder.append(head, to: &output) }
        #expect(written == "GET /a?b=c HTTP/1.1\r\nHost: [::1]:8080\r\nX-City: Köln\r\n\r\n")
        let read = requests(written).requests.first
        #expect(read?.target == "/a?b=c")
        #expect(read?.headers == head.headers)
    }

    @Test func `a response head is written and read again`() throws {
        var head = HTTPResponseHead(status: 404, headers: ["Content-Length": "0", "X": ""])
        let written = try self.text { output throws(TransportError) in try HTTPEncoder.append(head, to: &output) }
        #expect(written == "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nX: \r\n\r\n")
        head.reason = "Not Found"
        #expect(answer(written).head == head)
        let own = try self.text { output throws(TransportError) in
            try HTTPEncoder.append(HTTPResponseHead(status: 799), to: &output)
        }
        #expect(own == "HTTP/1.1 799 \r\n\r\n")
    }

    @Test(arguments: [
        ("X\r\nEvil", "1"), ("X: 1\r\nEvil", "1"), ("", "1"), ("X Y", "1"), ("X:", "1"), ("Ä", "1"), ("X", "1\r\nEvil: 2"), ("X", "1\n2"),
        ("X", "1\r"), ("X", "1\0"), ("X", "\u{7F}"),
    ])
    func `a field that would inject another is an error and nothing is written`(_ name: String, _ value: String) {
        var headers = HTTPHeaders()
        headers.add("Fine", "1")
        headers.add(name, value)
        var output: [UInt8] = [1]
        #expect(throws: TransportError.self) {
            try HTTPEncoder.append(HTTPRequestHead(method: "GET", target: "/", headers: headers), to: &output)
        }
        #expect(throws: TransportError.self) { try HTTPEncoder.append(HTTPResponseHead(status: 200, headers: headers), to: &output) }
        #expect(output == [1])
    }

    @Test func `an error about a value does not show it`() {
        var output: [UInt8] = []
        let error = #expect(throws: TransportError.self) {
            try HTTPEncoder.append(HTTPResponseHead(status: 200, headers: ["Authorization": "secret\n"]), to: &output)
        }
        #expect(error?.message.contains("Authorization") == true)
        #expect(error?.message.contains("secret") == false)
    }

    @Test func `method target status and reason are checked too`() {
        var output: [UInt8] = []
        for (method, target) in [
            ("GET /", "/"), ("", "/"), ("G\r\nX", "/"), ("GET", ""), ("GET", "/a b"), ("GET", "/\r\nX: 1"), ("GET", "/ä"),
        ] {
            #expect(throws: TransportError.self) { try HTTPEncoder.append(HTTPRequestHead(method: method, target: target), to: &output) }
        }
        for (status, reason) in [(99, ""), (1000, ""), (200, "OK\r\nX: 1"), (200, "\0")] {
            #expect(throws: TransportError.self) { try HTTPEncoder.append(HTTPResponseHead(status: status, reason: reason), to: &output) }
        }
        #expect(output.isEmpty)
    }

    @Test func `a clients request has the fields of the transport`() throws {
        var request = HTTPRequest(
            "POST", try Endpoint("http://[::1]:8080/auth?x=1"),
            headers: ["host": "elsewhere", "Content-length": "99", "Authorization": "Bearer t", "connection": "upgrade"],
            body: Array("hello".utf8))
        func write(_ keepAlive: Bool) throws -> String {
            try self.text { output throws(TransportError) in try HTTPEncoder.append(request, keepAlive: keepAlive, to: &output) }
        }
        #expect(
            try write(true)
                == "POST /auth?x=1 HTTP/1.1\r\nHost: [::1]:8080\r\nAuthorization: Bearer t\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n"
        )
        request = HTTPRequest("POST", try Endpoint("http://example.com"))
        #expect(try write(false) == "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        request = HTTPRequest("GET", try Endpoint("http://example.com:8080"))
        #expect(try write(false) == "GET / HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n")
        request.headers = ["Transfer-Encoding": "chunked"]
        #expect(throws: TransportError.self) { try write(false) }
    }

    @Test func `chunks are read again`() throws {
        var output: [UInt8] = []
        try HTTPEncoder.append(HTTPResponseHead(status: 200, headers: ["Transfer-Encoding": "chunked"]), to: &output)
        HTTPEncoder.appendChunk(Array("hello".utf8), to: &output)
        HTTPEncoder.appendChunk([], to: &output)
        HTTPEncoder.appendChunk([UInt8](repeating: 0x61, count: 300), to: &output)
        HTTPEncoder.appendLastChunk(to: &output)
        let read = answer([output])
        #expect(read.isComplete)
        #expect(read.body == Array("hello".utf8) + [UInt8](repeating: 0x61, count: 300))
    }
}

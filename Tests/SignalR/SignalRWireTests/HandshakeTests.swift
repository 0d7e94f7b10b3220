import SignalRWire
import TestSupport
import Testing

@Suite struct HandshakeTests {
    @Test func `requests and responses have their texts`() {
        expectEqual(HubHandshake.request(.json, version: 1), bytes("{\"protocol\":\"json\",\"version\":1}\u{1E}"))
        expectEqual(HubHandshake.request(.messagePack, version: 2), bytes("{\"protocol\":\"messagepack\",\"version\":2}\u{1E}"))
        expectEqual(HubHandshake.response(error: nil), bytes("{}\u{1E}"))
        expectEqual(HubHandshake.response(error: "no \"x\""), bytes("{\"error\":\"no \\\"x\\\"\"}\u{1E}"))
    }

    private func response(_ text: String) throws -> (error: String?, consumed: Int)? {
        try bytes(text).withUnsafeBytes { try HubHandshake.parseResponse($0) }
    }

    private func request(_ text: String) throws -> (protocolName: String, version: Int, consumed: Int)? {
        try bytes(text).withUnsafeBytes { try HubHandshake.parseRequest($0) }
    }

    @Test(arguments: [
        ("{}", nil), (#"{"error":"no"}"#, "no"), (#"{"error":null}"#, nil), (#"{"minorVersion":0,"x":[]}"#, nil), (#"{"error":""}"#, ""),
    ])
    func `a response is read, and the bytes after it are left`(text: String, error: String?) throws {
        for rest in ["", "{\"type\":6}\u{1E}", "\u{1E}", "\u{2}\u{91}"] {
            let parsed = try #require(try self.response("\(text)\u{1E}\(rest)"))
            expect(parsed.error == error && parsed.consumed == text.utf8.count + 1)
        }
        for end in 0...text.utf8.count { try expectNil(self.response(String(text.prefix(end)))) }
    }

    @Test(arguments: [
        ("", "unexpected end"), ("x", "unexpected character"), ("[]", "expected an object"),
        (#"{"error":5}"#, #""error" must be a string"#),
        (#"{"type":6}"#, "received a hub message"), (#"{"type":"x","error":"e"}"#, "received a hub message"),
    ])
    func `an invalid response is an error`(text: String, problem: String) {
        let error = #expect(throws: HubMessageError.self) { try self.response("\(text)\u{1E}") }
        expectEqual(error?.problem.contains(problem), true)
        expectEqual(error?.type, (text == #"{"type":6}"# ? 6 : nil))
    }

    @Test(arguments: [
        (#"{"protocol":"json","version":1}"#, "json", 1), (#"{"version":2,"protocol":"messagepack","more":{}}"#, "messagepack", 2),
        (#"{"protocol":"","version":-5}"#, "", -5), (#"{"protocol":"other","version":1.0}"#, "other", 1),
    ])
    func `a request is read, and the bytes after it are left`(text: String, name: String, version: Int) throws {
        for rest in ["", "{\"type\":6}\u{1E}"] {
            let parsed = try #require(try self.request("\(text)\u{1E}\(rest)"))
            expect(parsed.protocolName == name && parsed.version == version && parsed.consumed == text.utf8.count + 1)
        }
        for end in 0...text.utf8.count { try expectNil(self.request(String(text.prefix(end)))) }
    }

    @Test(arguments: [
        ("", "unexpected end"), ("GET / HTTP/1.1", "unexpected character"), ("{}", #""protocol" must be a string"#),
        (#"{"protocol":1,"version":1}"#, #""protocol" must be a string"#), (#"{"protocol":"json"}"#, #""version" must be an integer"#),
        (#"{"protocol":"json","version":"1"}"#, #""version" must be an integer"#),
        (#"{"protocol":"json","version":1.5}"#, #""version" must be an integer"#),
        (#"{"type":1,"protocol":"json","version":1}"#, "received a hub message"),
    ])
    func `an invalid request is an error`(text: String, problem: String) {
        let error = #expect(throws: HubMessageError.self) { try self.request("\(text)\u{1E}") }
        expectEqual(error?.problem.contains(problem), true)
    }

    @Test func `a handshake without an end is limited`() throws {
        let long = String(repeating: " ", count: HubHandshake.sizeLimit - 1)
        try expectNil(self.response(long))
        #expect(throws: HubMessageError.self) { try self.response(long + " ") }
        #expect(throws: HubMessageError.self) { try self.request(long + "   ") }
        #expect(throws: HubMessageError.self) { try self.request(long + " \u{1E}") }
    }

    @Test func `a handshake may arrive in any parts, and what follows it is left`() throws {
        let text = bytes("{}\u{1E}{\"type\":6}\u{1E}")
        for first in 0...text.count {
            var buffer = HubHandshake.Buffer()
            var consumed: Int?
            for part in [text[..<first], text[first...]] where consumed == nil {
                consumed = try Array(part).withUnsafeBytes { try buffer.append($0) }
                if let consumed { expectEqual(part.startIndex + consumed, 3) }
            }
            expectEqual(buffer.bytes, bytes("{}\u{1E}"))
        }
    }

    @Test func `a handshake that never ends is limited, and its bytes are kept once`() throws {
        var buffer = HubHandshake.Buffer()
        for _ in 1..<HubHandshake.sizeLimit { try expectNil(bytes(" ").withUnsafeBytes { try buffer.append($0) }) }
        #expect(throws: HubMessageError.self) { try bytes(" ").withUnsafeBytes { try buffer.append($0) } }
        #expect(throws: HubMessageError.self) { try bytes("\u{1E}").withUnsafeBytes { try buffer.append($0) } }
        expectEqual(buffer.bytes.count, HubHandshake.sizeLimit)
        var other = HubHandshake.Buffer()
        #expect(throws: HubMessageError.self) {
            try Array(repeating: UInt8(0x20), count: 1 << 20).withUnsafeBytes { try other.append($0) }
        }
        expectEqual(other.bytes.count, HubHandshake.sizeLimit)
    }

    @Test func `formats have names`() {
        for format in HubFormat.allCases { expectEqual(HubFormat(protocolName: format.protocolName), format) }
        expectEqual(HubFormat(protocolName: "MessagePack"), .messagePack)
        expect(HubFormat(protocolName: "xml") == nil && HubFormat(protocolName: "") == nil)
    }
}

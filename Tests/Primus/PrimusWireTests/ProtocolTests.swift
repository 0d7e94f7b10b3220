import PrimusWire
import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

@Suite struct ProtocolMessageTests {
    static let messages: [(String, PrimusProtocolMessage)] = [
        ("primus::server::close", .serverClose), ("primus::id::", .idRequest), ("primus::id::a::b", .id("a::b")),
        ("primus::ping::1700000000000", .ping("1700000000000")), ("primus::pong::1.5", .pong("1.5")), ("primus::ping::", .ping("")),
        ("primus::", .unknown("primus::")), ("primus::later::x", .unknown("primus::later::x")),
        ("primus::server::closed", .unknown("primus::server::closed")),
    ]

    @Test(arguments: ParserTests.codings)
    func `messages of Primus are recognized in packets of every parser`(coding: PrimusCoding) throws {
        for (text, message) in Self.messages {
            let packet = try coding.message(.string(text))
            expectEqual(packet.bytes.withUnsafeBytes { PrimusProtocolMessage($0, packet.kind, coding) }, message)
            try expectEqual(message.message(coding), packet)
        }
    }

    @Test(arguments: ParserTests.codings)
    func `packets of the application aren't messages of Primus`(coding: PrimusCoding) throws {
        let values: [PrimusValue] = ["primus:", "Primus::id::", "", "x", 1, ["primus::id::"], ["primus::id::": 1], " primus::id::"]
        for value in values {
            let packet = try coding.message(value)
            expectNil(packet.bytes.withUnsafeBytes { PrimusProtocolMessage($0, packet.kind, coding) })
        }
        expectNil([UInt8]().withUnsafeBytes { PrimusProtocolMessage($0, .text, coding) })
        expectNil([UInt8]().withUnsafeBytes { PrimusProtocolMessage($0, .binary, coding) })
    }

    @Test func `a message of Primus may have white space around it in JSON, and escapes in it`() {
        func read(_ text: String) -> PrimusProtocolMessage? {
            Array(text.utf8).withUnsafeBytes { PrimusProtocolMessage($0, .text, .json) }
        }
        expectEqual(read(" \t\n\"primus::id::a\\u0062\" "), .id("ab"))
        // Invalid text is reported where packets are decoded.
        expectNil(read("\"primus::id::a"))
        expectNil(read("\"primus::id::\" x"))
    }

    @Test func `a binary message in JSON is never one of Primus`() {
        expectNil(Array("\"primus::id::\"".utf8).withUnsafeBytes { PrimusProtocolMessage($0, .binary, .json) })
    }

    @Test func `a long ID is recognized in each form of a string`() throws {
        for count in [1, 20, 100, 300, 70_000] {
            let id = String(repeating: "i", count: count)
            for coding in ParserTests.codings {
                let packet = try PrimusProtocolMessage.id(id).message(coding)
                expectEqual(packet.bytes.withUnsafeBytes { PrimusProtocolMessage($0, packet.kind, coding) }, .id(id))
            }
        }
    }
}

@Suite struct SpecTests {
    private func spec(_ text: String) throws(PrimusSpecError) -> PrimusSpec { try PrimusSpec(parsing: Array(text.utf8)) }

    @Test(arguments: [
        (#""pingInterval":30000,"version":"8.0.9""#, PrimusSpec.Heartbeat.serverPings(interval: 30_000)),
        (#""pingInterval":false,"version":"8.0.9""#, .serverPings(interval: nil)),
        (#""pingInterval":0,"version":"8.0.9""#, .serverPings(interval: nil)), (#""version":"7.0.0""#, .serverPings(interval: nil)),
        (#""timeout":35000,"version":"6.1.0""#, .clientPings(timeout: 35_000)),
        (#""timeout":false,"version":"6.1.0""#, .clientPings(timeout: nil)),
        (#""version":"2.4.1""#, .clientPings(timeout: nil)), (#""version":"1.4.0""#, .clientPings(timeout: nil)),
        (#""version":"1.3.9""#, .none), (#""version":"0.9""#, .none), (#""version":"x""#, .serverPings(interval: nil)),
    ])
    func `the heartbeat follows the members of the specification, or the version`(members: String, heartbeat: PrimusSpec.Heartbeat) throws {
        let spec = try self.spec(#"{\#(members),"pathname":"/primus","parser":"json","transformer":"websockets"}"#)
        expectEqual(spec.heartbeat, heartbeat)
    }

    @Test(arguments: [
        (#""pingInterval":"5""#, "\"pingInterval\" is neither a number nor false", PrimusSpec.Heartbeat.serverPings(interval: nil)),
        (#""pingInterval":-5"#, "isn't a time", .serverPings(interval: nil)),
        (#""timeout":1e99"#, "isn't a time", .clientPings(timeout: nil)), (#""timeout":-1"#, "isn't a time", .clientPings(timeout: nil)),
        (#""timeout":[]"#, "\"timeout\" is neither a number nor false", .clientPings(timeout: nil)),
        (#""pingInterval":true"#, "\"pingInterval\" is neither a number nor false", .serverPings(interval: nil)),
        (#""pingInterval":1e300"#, "isn't a time", .serverPings(interval: nil)),
        (#""pathname":["/x"],"pingInterval":7"#, "\"pathname\" isn't a string", .serverPings(interval: 7)),
        (#""pathname":5,"pingInterval":7"#, "\"pathname\" isn't a string", .serverPings(interval: 7)),
        (#""version":5,"pingInterval":7"#, "\"version\" isn't a string", .serverPings(interval: 7)),
    ])
    func `a member that the client can do without is ignored if it isn't valid, and reported`(
        members: String, problem: String, heartbeat: PrimusSpec.Heartbeat
    ) throws {
        var problems: [String] = []
        let text = #"{\#(members),"parser":"ejson","transformer":"sockjs"}"#
        let spec = try PrimusSpec(parsing: Array(text.utf8)) { problems.append($0.problem) }
        expect(spec.parser == .ejson && spec.transformer == .sockjs && spec.heartbeat == heartbeat && spec.pathname == "/primus")
        expect(problems.count == 1 && problems[0].contains(problem), "\(problems)")
    }

    @Test func `the silence that a client allows is one and a half intervals`() {
        expectEqual(PrimusSpec(version: "8", heartbeat: .serverPings(interval: 30_000)).silenceLimit, 45_000)
        expectEqual(PrimusSpec(version: "8", heartbeat: .serverPings(interval: 60_000)).silenceLimit, 90_000)
        expectNil(PrimusSpec(version: "8", heartbeat: .serverPings(interval: nil)).silenceLimit)
        expectNil(PrimusSpec(version: "6", heartbeat: .clientPings(timeout: 35_000)).silenceLimit)
    }

    @Test(arguments: [
        ("", "isn't JSON"), ("[]", "isn't an object"), ("{}", "are missing"),
        (#"{"parser":1,"transformer":"x"}"#, "\"parser\" isn't a string"),
        (#"{"parser":"json","transformer":[]}"#, "\"transformer\" isn't a string"), ("<html>", "isn't JSON"), ("null", "isn't an object"),
        (#"{"parser":"json","transformer":"sockjs"}x"#, "isn't JSON"),
        ("{\"parser\":\"json\",\"transformer\":" + String(repeating: "{\"a\":", count: 100_000), "isn't JSON"),
        (String(repeating: "[", count: 100_000), "isn't JSON"),
    ])
    func `an invalid specification is an error that says what is wrong`(text: String, problem: String) {
        let error = #expect(throws: PrimusSpecError.self) { try self.spec(text) }
        expectEqual(error?.description.contains(problem), true, "\(error?.description ?? "")")
    }

    @Test func `parsers and transformers that Primus doesn't contain keep their names`() throws {
        let spec = try self.spec(#"{"version":"8.0.9","parser":"custom","transformer":"mine","x":[1]}"#)
        expect(spec.parser == .custom("custom") && spec.transformer == .custom("mine") && spec.pathname == "/primus")
    }

    @Test func `a specification is written as by the original`() throws {
        for line in Vectors.lines("primus/sessions-8.0.9-6.1.0.txt") where line.hasPrefix("GET /primus/spec -> 200 application/json ") {
            let body = line.dropFirst("GET /primus/spec -> 200 application/json ".count)
            let spec = try self.spec(String(body))
            #expect(spec.json.description == body)
        }
    }
}

@Suite struct AddressTests {
    @Test(arguments: [
        ("http://h", "ws://h:80", "/primus"), ("https://h/", "wss://h:443", "/primus"), ("wss://h/primus/", "wss://h:443", "/primus"),
        ("ws://h:9090/app/primus?a=1&a=2&x", "ws://h:9090", "/app/primus?a=1&a=2&x"),
        ("http://h?token=%20", "ws://h:80", "/primus?token=%20"),
        ("http://[::1]:9090/p", "ws://[::1]:9090", "/p"),
    ])
    func `an address has a path, and keeps the query as it is`(url: String, origin: String, target: String) throws {
        let plain = PrimusAddress(try Endpoint(url)).plain
        expectEqual(plain.target, target)
        expectEqual("\(plain.scheme)://\(plain.host.contains(":") ? "[\(plain.host)]" : plain.host):\(plain.port)", origin)
    }

    @Test func `each request has its path`() throws {
        let address = PrimusAddress(try Endpoint("wss://h/primus?token=1"))
        expect(address.spec.scheme == "https" && address.spec.target == "/primus/spec?token=1")
        expect(address.sockJSInfo.target == "/primus/info?token=1" && address.sockJSRaw.target == "/primus/websocket?token=1")
        expect(address.sockJSRaw.scheme == "wss" && address.sockJSInfo.scheme == "https")
        let framed = address.sockJSSession(.websocket, server: 7, session: "abc")
        expect(framed.target == "/primus/007/abc/websocket?token=1" && framed.scheme == "wss")
        let polling = address.sockJSSession(.xhrStreaming, server: 999, session: "abc")
        expect(polling.target == "/primus/999/abc/xhr_streaming?token=1" && polling.scheme == "https")
    }

    @Test func `engine io has a slash after the path, and its own query after the application's`() throws {
        let address = PrimusAddress(try Endpoint("http://h?token=1"))
        expectEqual(address.engineIO(.v4, .websocket).target, "/primus/?token=1&EIO=4&transport=websocket")
        expectEqual(address.engineIO(.v3, .polling, sid: "a b").target, "/primus/?token=1&EIO=3&transport=polling&sid=a%20b")
        expect(address.engineIO(.v4, .websocket).scheme == "ws" && address.engineIO(.v4, .polling).scheme == "http")
        expectEqual(PrimusAddress(try Endpoint("http://h")).engineIO(.v4, .polling).target, "/primus/?EIO=4&transport=polling")
    }

    @Test func `IDs of sessions of SockJS are letters and digits, and differ`() {
        var random = SystemRandomNumberGenerator()
        let ids = Set((0..<100).map { _ in PrimusAddress.sockJSSessionID(using: &random) })
        expectEqual(ids.count, 100)
        expect(ids.allSatisfy { $0.count == 8 && $0.allSatisfy { ("a"..."z").contains($0) || ("0"..."5").contains($0) } })
    }

    @Test(arguments: [(0, "0"), (63, "_"), (64, "10"), (1_439_816_226_601, "KxzHEsf"), (1_700_000_000_000, "OlEgQO0")])
    func `a key against caches is the time in sixty-four digits`(milliseconds: Int64, key: String) {
        let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")
        let text = PrimusAddress.cacheKey(milliseconds: milliseconds)
        expectEqual(text.reduce(Int64(0)) { $0 * 64 + Int64(digits.firstIndex(of: $1) ?? 0) }, milliseconds)
        if milliseconds <= 64 { expectEqual(text, key) }
    }
}

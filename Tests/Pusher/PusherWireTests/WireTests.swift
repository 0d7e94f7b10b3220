import RealtimeEncoding
import RealtimeCoding
import Foundation
import PusherWire
import RealtimeCore
import TestSupport
import Testing

@Suite struct ResponseBodyTests {
    @Test func `a byte order mark isn't part of the JSON`() throws {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        try expectEqual(ResponseBody(mark + Array(#"{"auth":"a"}"#.utf8)).json(), ["auth": "a"])
        expectNil(ResponseBody(mark + Array(#"{"auth":"a"}"#.utf8)).problem(strings: ["auth"]))
        expectEqual(ResponseBody(mark).problem(strings: ["auth"]), "it is empty")
        expect(ResponseBody(mark + Array(" <html>".utf8)).isPage)
    }
}

/// The members of a presence channel in the forms of several servers.
@Suite struct PresenceListTests {
    @Test(arguments: [
        #"{"ids":["0","1"],"hash":[{"n":1},{"n":2}]}"#, #"{"ids":[0,1],"hash":{"0":{"n":1},"1":{"n":2}}}"#, #"{"hash":[{"n":1},{"n":2}]}"#,
        #"{"ids":{"0":0,"2":1},"hash":[{"n":1},{"n":2}]}"#,
    ])
    func `a list in place of an object, and the other way around, loses no information`(json: String) throws {
        let users = try PresenceUser.list(["presence": try JSONValue(parsing: json)])
        expectEqual(users.map(\.id), ["0", "1"])
        expectEqual(users.map(\.info), [["n": 1], ["n": 2]])
    }
}

@Suite struct WireTests {
    private static func vectors(_ name: String) throws -> [JSONValue] {
        let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: Vectors.path("pusher/\(name).json"))))
        return try #require(try JSONValue(parsing: bytes).array)
    }

    // MARK: Signatures

    @Test func `the signatures match the vectors`() throws {
        let vectors = try Self.vectors("signatures")
        expectEqual(vectors.count, 6)
        for vector in vectors {
            let (secret, text, hex) = (
                try #require(vector["secret"]?.string), try #require(vector["text"]?.string), try #require(vector["hex"]?.string)
            )
            expectEqual(ChannelSignature.hex(of: text, secret: secret), hex, "\(text)")
            guard let socket = vector["socket"]?.string, let channel = vector["channel"]?.string else { continue }
            let token = ChannelSignature.token(
                key: "key", secret: secret, socketID: socket, channel: channel, channelData: vector["data"]?.string)
            expectEqual(token, "key:\(hex)")
        }
    }

    @Test func `a signed request matches the documentation`() {
        let body = Array(#"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#.utf8)
        let (key, secret) = ("278d425bdf160c739803", "7ad3773142a6692b25b8")
        let target = RequestSignature.sign(
            method: "POST", path: "/apps/3/events", body: body, key: key, secret: secret, unixTime: 1_353_088_179)
        expectEqual(
            target,
            "/apps/3/events?auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0"
                + "&body_md5=ec365a775a4cd0599faeb73354201b6f&auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c"
        )
        let error = RequestSignature.validationError(
            method: "POST", target: target, body: body, key: key, secret: secret, unixTime: 1_353_088_179)
        expectNil(error)
    }

    @Test func `the signature of a request without a body has no body hash`() {
        let target = RequestSignature.sign(method: "GET", path: "/apps/3/channels", body: [], key: "k", secret: "s", unixTime: 1)
        expect(!target.contains("body_md5"))
        func error(_ body: [UInt8]) -> String? {
            RequestSignature.validationError(method: "GET", target: target, body: body, key: "k", secret: "s", unixTime: 1)
        }
        expect(error([]) == nil && error([1]) != nil)
    }

    /// The letter K and the kelvin sign are canonically equivalent.
    @Test func `a request is signed and verified by bytes`() {
        let fields = "auth_key=K&auth_timestamp=1&auth_version=1.0&e\u{301}=1&f=2"
        let signature = ChannelSignature.hex(of: "GET\n/apps/1/channels\n\(fields)", secret: "s")
        let query = "f=2&e%CC%81=1&auth_key=K&auth_timestamp=1&auth_version=1.0&auth_signature=\(signature)"
        func error(_ key: String) -> String? {
            RequestSignature.validationError(
                method: "GET", target: "/apps/1/channels?\(query)", body: [], key: key, secret: "s", unixTime: 1)
        }
        expectNil(error("K"))
        expectEqual(error("\u{212A}")?.contains("auth_key"), true)
    }

    @Test func `the kind of a channel follows from the bytes of its name`() {
        expectEqual(ChannelName.kind(of: "private-\u{301}"), .private)
        expectEqual(ChannelName.kind(of: "presence-\u{301}"), .presence)
        expectEqual(ChannelName.kind(of: "private-encrypted-\u{301}"), .encrypted)
        expect(ChannelName.kind(of: "private") == .public && ChannelName.kind(of: "private-encrypted") == .private)
    }

    // MARK: Percent-encoding

    @Test(arguments: [
        ("", ""), ("aZ09-._~", "aZ09-._~"), ("a b", "a%20b"), ("a+b&c=d", "a%2Bb%26c%3Dd"), ("ä😀", "%C3%A4%F0%9F%98%80"), ("%", "%25"),
        ("/?#[]@!$'()*,;:", "%2F%3F%23%5B%5D%40%21%24%27%28%29%2A%2C%3B%3A"),
        ("\u{0}\r\n\u{7F}", "%00%0D%0A%7F"),
    ])
    func `all but unreserved characters are percent-encoded and decode to the same text`(text: String, encoded: String) {
        expectEqual(PercentEncoding.encode(text), encoded)
        expectEqual(PercentEncoding.decode(encoded), text)
    }

    @Test(arguments: [
        ("a%2fb", "a/b"), ("a+b", "a+b"), ("%", nil), ("%2", nil), ("%2g", nil), ("%g2", nil), ("a%", nil), ("%C3", nil), ("%FF", nil),
        ("ä", "ä"), ("%25%32%30", "%20"),
    ])
    func `an invalid percent-encoding is not decoded`(text: String, decoded: String?) {
        expectEqual(PercentEncoding.decode(text), decoded)
    }

    @Test(
        arguments: [
            ("", []), ("a=b", ["a", "b"]), ("a=b&c=d", ["a", "b", "c", "d"]), ("a", ["a", ""]), ("a=", ["a", ""]), ("=b", ["", "b"]),
            ("a=b=c", ["a", "b=c"]),
            ("&&a=1&", ["a", "1"]), ("a=1&a=2", ["a", "1", "a", "2"]), ("a%3D=%26", ["a=", "&"]), ("a=%", nil), ("%=a", nil),
            ("a=1&b=%", nil), ("a=1&%61=2", ["a", "1", "a", "2"]), ("%61=%62&a=c", ["a", "b", "a", "c"]),
            ("a\u{301}=1&\u{301}=2&a=\u{301}", ["a\u{301}", "1", "\u{301}", "2", "a", "\u{301}"]),
        ] as [(String, [String]?)])
    func `a query is split into decoded fields`(query: String, expected: [String]?) {
        let fields = PercentEncoding.fields(query)
        expectEqual(fields?.flatMap { [$0.name, $0.value] }, expected)
        for name in ["a", "b", "a=", "", "\u{301}", "missing"] {
            let value = fields?.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
            expectEqual(PercentEncoding.value(of: name, in: query), value)
        }
    }

    @Test func `a plus sign is a space only in forms`() {
        expectEqual(PercentEncoding.fields("a+b=c+d", plusIsSpace: true)?.first?.name, "a b")
        expect(PercentEncoding.decode("a+b", plusIsSpace: true) == "a b" && PercentEncoding.decode("%2B", plusIsSpace: true) == "+")
    }

    // MARK: Names

    @Test(arguments: [
        ("news", PusherChannelKind.public), ("private", .public), ("privateX", .public), ("Private-x", .public), ("presence", .public),
        ("cache", .public), ("x-private-y", .public), ("x-cache-y", .public), ("cache-x", .cache), ("cache-private-x", .cache),
        ("private-x", .private), ("private-", .private), ("private-encrypted", .private), ("private-cache", .private),
        ("private-cache-x", .privateCache), ("private-cache-encrypted-x", .privateCache), ("private-encrypted-x", .encrypted),
        ("private-encrypted-cache", .encrypted), ("private-encrypted-cache-x", .encryptedCache), ("presence-x", .presence),
        ("presence-cache", .presence), ("presence-cache-x", .presenceCache), ("presence-encrypted-x", .presence),
    ])
    func `the prefix of a channel name determines its kind`(name: String, kind: PusherChannelKind) {
        expectEqual(ChannelName.kind(of: name), kind)
        expectEqual(kind.needsAuthorization, ![.public, .cache].contains(kind))
        expectEqual(kind.allowsClientEvents, [.private, .presence, .privateCache, .presenceCache].contains(kind))
        expectEqual(kind.isPresence, [.presence, .presenceCache].contains(kind))
        expectEqual(kind.isEncrypted, [.encrypted, .encryptedCache].contains(kind))
        expectEqual(kind.isCache, [.cache, .privateCache, .presenceCache, .encryptedCache].contains(kind))
    }

    @Test(arguments: [
        ("a", true), ("aZ09_-=@,.;", true), (String(repeating: "x", count: 200), true), (String(repeating: "x", count: 201), false),
        ("", false), (" ", false),
        ("a b", false), ("#a", false), ("a/b", false), ("a:b", false), ("ä", false), ("a\u{0}", false), ("a\n", false), ("\"", false),
    ])
    func `a channel name is valid if it has 1 to 200 allowed characters`(name: String, isValid: Bool) {
        expectEqual((ChannelName.validationError(name) == nil), isValid)
    }

    @Test(arguments: [
        ("a", true), ("any name, ä 😀", true), ("client-a", true), ("pusher", true), ("pusher-x", true), ("Pusher:x", true), ("", false),
        ("pusher:x", false),
        ("pusher_internal:x", false), (String(repeating: "x", count: 200), true), (String(repeating: "x", count: 201), false),
        (String(repeating: "ä", count: 101), false),
    ])
    func `an event name is valid unless it is empty or too long or reserved`(name: String, isValid: Bool) {
        expectEqual((EventName.validationError(name) == nil), isValid)
    }

    @Test(arguments: [
        ("no to private-a", true), ("private-a", true), ("of 1.2:private-a, but", true), ("\"private-a\" no", true), ("private-a.", true),
        ("private-a...", true),
        ("private-ab", false), ("private-a-b", false), ("private-a.b", false), ("my-private-a", false), ("xprivate-a", false),
        ("private-", false), ("", false),
        ("private-ab and private-a", true), ("private-a;private-b", false), ("(private-a)", true),
    ])
    func `a channel name is found in text only as a whole word`(text: String, isNamed: Bool) {
        expectEqual(ChannelName.isNamed("private-a", in: text), isNamed)
    }

    // MARK: Close codes

    @Test func `every close code causes the expected reaction`() throws {
        for row in try Self.vectors("close-codes") {
            let expected: PusherCloseCode.Reaction? =
                switch row["reaction"]?.string {
                case "use TLS": .useTLS
                case "fail": .fail
                case "reconnect after a second": .reconnect(.afterBackoff(atLeast: .seconds(1)))
                case "reconnect immediately": .reconnect(.immediately)
                case "back off": .reconnect(.afterBackoff())
                default: nil
                }
            for code in try #require(row["codes"]?.array).compactMap(\.int) {
                expectEqual(PusherCloseCode.reaction(to: CloseCode(rawValue: UInt16(code))), expected, "\(code)")
            }
        }
    }

    // MARK: Frames

    @Test func `client frames match the vectors byte for byte`() throws {
        for vector in try Self.vectors("client-frames") {
            let (channel, data) = (vector["channel"]?.string ?? "", vector["data"]?.string)
            let message: TransportMessage? =
                switch vector["what"]?.string {
                case "ping": PusherFrames.ping
                case "pong": PusherFrames.pong
                case "subscribe": PusherFrames.subscribe(channel, auth: vector["auth"]?.string, channelData: data)
                case "unsubscribe": PusherFrames.unsubscribe(channel)
                case "client event":
                    PusherFrames.clientEvent(vector["event"]?.string ?? "", channel: channel, data: Array((data ?? "").utf8))
                default: nil
                }
            expectEqual(message, .text(try #require(vector["frame"]?.string)))
        }
    }

    @Test func `server frames are encoded byte for byte`() {
        func text(_ message: TransportMessage) -> String { String(decoding: message.bytes, as: UTF8.self) }
        expectEqual(
            text(PusherFrames.connectionEstablished(socketID: "1.2", activityTimeout: 30)),
            #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\",\"activity_timeout\":30}"}"#)
        expectEqual(text(PusherFrames.error(nil, "a \"b\"")), #"{"event":"pusher:error","data":{"code":null,"message":"a \"b\""}}"#)
        expectEqual(
            text(PusherFrames.error(4301, "a", channel: "c")), #"{"event":"pusher:error","channel":"c","data":{"code":4301,"message":"a"}}"#
        )
        expectEqual(
            text(PusherFrames.subscriptionSucceeded("c")), #"{"event":"pusher_internal:subscription_succeeded","channel":"c","data":"{}"}"#)
        expectEqual(
            text(PusherFrames.subscriptionSucceeded("presence-c", members: [("1", ["n": "A"]), ("2", nil)])),
            #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-c","data":"{\"presence\":{\"ids\":[\"1\",\"2\"],\"hash\":{\"1\":{\"n\":\"A\"},\"2\":null},\"count\":2}}"}"#
        )
        expectEqual(
            text(PusherFrames.memberAdded("c", id: "1", info: nil)),
            #"{"event":"pusher_internal:member_added","channel":"c","data":"{\"user_id\":\"1\"}"}"#)
        expectEqual(
            text(PusherFrames.memberRemoved("c", id: "ä\"")),
            #"{"event":"pusher_internal:member_removed","channel":"c","data":"{\"user_id\":\"ä\\\"\"}"}"#)
        expectEqual(
            text(PusherFrames.event("e", channel: "c", data: "\n\\", userID: "7")),
            #"{"event":"e","channel":"c","data":"\n\\","user_id":"7"}"#)
    }

    @Test func `server frames of the vectors are parsed`() throws {
        for vector in try Self.vectors("server-frames") {
            let bytes = Array(try #require(vector["frame"]?.string).utf8)
            try bytes.withUnsafeBytes { bytes in
                let frame = try PusherFrame(scanning: bytes)
                expect(frame.eventName == vector["event"]?.string && frame.channelName == vector["channel"]?.string)
                expect(frame.isReserved == vector["reserved"]?.bool && frame.user == vector["user"]?.string)
                try expectEqual(frame.dataValue(), vector["data"])
                if let text = vector["text"]?.string { expect(frame.dataText == text && frame.dataBytes == Array(text.utf8)) }
            }
        }
    }

    @Test(arguments: [
        (
            "Invalid signature: Expected HMAC SHA256 hex digest of 1.2:presence-x:{\"user_id\":\"7\"}, but got 6aae8814fabd5285245422096705abbed64ea59614648814ffb0bf2dc5d19168",
            "Invalid signature: Expected HMAC SHA256 hex digest of 1.2:presence-x:{…}, but got …"
        ),
        ("plain text", "plain text"), ("}{", "}{"), ("{", "{"), ("deadbeef", "deadbeef"), ("ä {a} b {c} ü", "ä {…} ü"), ("", ""),
    ])
    func `signatures and user data in a server error are redacted`(text: String, expected: String) {
        expectEqual(ServerError.redacted(text), expected)
    }
}

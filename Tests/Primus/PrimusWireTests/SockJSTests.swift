import PrimusWire
import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

@Suite struct SockJSTests {
    private static let client = PrimusFraming.sockJS(.client)
    private static let server = PrimusFraming.sockJS(.server)

    @Test(arguments: [
        ("o", ["opened -"]), ("h", ["ping "]), (#"a["\"primus::id::a\""]"#, [#"packet "primus::id::a""#]), ("a[]", []),
        (#"a["1","{\"a\":\"\\u00e4\"}","ä😀"]"#, ["packet 1", #"packet {"a":"\u00e4"}"#, "packet ä😀"]), (#"m"x""#, ["packet x"]),
        (#"a [ "1" , "2" ] "#, ["packet 1", "packet 2"]), (#"m"a\\b\ud83d\ude00""#, ["packet a\\b😀"]),
        (#"c[1000,"Normal closure"]"#, ["closed 1000 Normal closure"]), (#"c[3000,"Go away!"]"#, ["closed 3000 Go away!"]),
        (#"c[0,""]"#, ["closed 0 "]), (#"c[-1,"x"]"#, ["closed -1 x"]), (#"c[70000,"x"]"#, ["closed 70000 x"]),
        (#"c[3000,"\r\n<b>"]"#, ["closed 3000 \r\n<b>"]),
        (#"a["\ud800"]"#, ["packet \u{FFFD}"]),
    ])
    func `a client reads each frame`(frame: String, lines: [String]) {
        expectEqual(Self.client.lines(frame), lines)
    }

    /// Escape sequences, at each place in a text and in texts of each length up to a few words.
    @Test(arguments: [#"\""#, #"\\"#, #"\/"#, #"\b\f"#, #"\n\r\t"#, #"\u00e4"#, #"\ud83d\ude00"#, "ä", "😀", ""])
    func `a frame with one text is read as one with spaces is`(sequence: String) {
        for length in 0..<20 {
            for position in 0...length {
                let text = String(repeating: "x", count: position) + sequence + String(repeating: "y", count: length - position)
                let lines = Self.client.lines(#"a["\#(text)"]"#)
                expect(lines == Self.client.lines(#"a [ "\#(text)" ]"#) && lines.count == 1 && lines[0].hasPrefix("packet"))
            }
        }
    }

    @Test(arguments: ["\\x", "\\", "\u{1}", "\"", "\",", "\n", "\\u12"])
    func `a frame whose only text isn't valid is reported`(sequence: String) {
        for length in 0..<20 {
            let text = String(repeating: "x", count: length) + sequence
            let lines = Self.client.lines(#"a["\#(text)"]"#)
            expect(lines.count == 1 && lines[0].hasPrefix("invalid A message of SockJS isn't valid"), "\(lines)")
        }
    }

    @Test(arguments: [
        "c[1e300,\"x\"]", "c[1.5,\"x\"]", "c[null,\"x\"]", "c{}", "c[1000,null]", "C[1000,\"x\"]", "O", "A[\"1\"]", "a[\"1\"]a[\"2\"]",
        "a" + String(repeating: "[", count: 100_000), "a[" + String(repeating: "{\"a\":", count: 100_000), "m{}", "c[3000,\"x\",5]",
        "", "x", "a", "a[", "a{}", "a[1]", #"a["1",2]"#, #"a["1"]x"#, "a[[\"1\"]]", "c", "c[]", "c[1000]", #"c["1000","x"]"#, "c[1000,5]",
        "m5", "m", "a[null]",
        #"a["1""#, "a\"",
    ])
    func `an invalid frame is reported, and none of its messages arrives`(frame: String) {
        let lines = Self.client.lines(frame)
        expect(lines.count == 1 && lines[0].hasPrefix("invalid A message of SockJS isn't valid"), "\(lines)")
    }

    @Test func `a binary frame is invalid`() {
        expectEqual(Self.client.lines(.binary([0x6F])), ["invalid A message of SockJS isn't valid: a frame is binary."])
    }

    @Test(arguments: [
        (#"["1","2"]"#, ["packet 1", "packet 2"]), (#""{\"b\":2}""#, [#"packet {"b":2}"#]), ("", []), ("[]", []),
        ("[broken", ["fatal 3000 Broken framing."]), ("{}", ["fatal 3000 Broken framing."]),
        (#"[1,null,{"a":[2]},"b"]"#, ["packet 1", "packet null", #"packet {"a":[2]}"#, "packet b"]), ("[1", ["fatal 3000 Broken framing."]),
        (#""a"#, ["fatal 3000 Broken framing."]), (#""a" "#, ["packet a"]),
    ])
    func `a server reads arrays and strings, with values as JSON, and other messages end the connection`(message: String, lines: [String]) {
        expectEqual(Self.server.lines(message), lines)
    }

    @Test func `packets travel in one array`() {
        let packets = [TransportMessage.text(#""a""#), .text("ä\n😀"), .text("")]
        let toServer = Self.client.messages(packets)
        expectEqual(toServer.map(text), [#"["\"a\"","ä\n😀",""]"#])
        expectEqual(toServer.flatMap { Self.server.lines($0) }, [#"packet "a""#, "packet ä\n😀", "packet "])
        let toClient = Self.server.messages(packets)
        expectEqual(toClient.map(text), [#"a["\"a\"","ä\n\ud83d\ude00",""]"#])
        expectEqual(toClient.flatMap { Self.client.lines($0) }, [#"packet "a""#, "packet ä\n😀", "packet "])
        expect(Self.client.messages([]).isEmpty)
    }

    @Test func `a server escapes what browsers would change, and a client doesn't`() {
        let ranges: [ClosedRange<UInt32>] = [0x200C...0x200F, 0x2028...0x202F, 0x2060...0x206F, 0xFFF0...0x1_00FF, 0x10_FFF0...0x10_FFFF]
        var wrong: [UInt32] = []
        for value in Array(UInt32(0x20)...0x1_00FF) + Array(UInt32(0x10_FFF0)...0x10_FFFF) where value != 0x22 && value != 0x5C {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let character = String(Character(scalar))
            let escaped = character.utf16.map { "\\u" + String($0, radix: 16) }.joined()
            let expected = ranges.contains { $0.contains(value) } ? escaped : character
            // Strings are compared by what they mean, and not by their bytes.
            let isFrame = Self.server.messages([.text(character)]).map(\.bytes) == [Array("a[\"\(expected)\"]".utf8)]
            let isMessage = Self.client.messages([.text(character)]).map(\.bytes) == [Array("[\"\(character)\"]".utf8)]
            if !isFrame || !isMessage { wrong.append(value) }
        }
        expectEqual(wrong, [])
    }

    /// Frames are searched for these characters in words of eight bytes.
    @Test(arguments: ["\u{200C}", "\u{2028}", "\u{206F}", "\u{FFFF}", "😀", "€", "ä", "\u{2010}\u{FFFD}", "中\u{202E}文😀"])
    func `a client reads what a server has escaped, wherever it is`(characters: String) {
        for length in 0..<20 {
            for position in 0...length {
                let text = String(repeating: "x", count: position) + characters + String(repeating: "é", count: length - position)
                let frames = Self.server.messages([.text(text), .text(characters)])
                expectEqual(frames.flatMap { Self.client.lines($0) }, ["packet \(text)", "packet \(characters)"])
            }
        }
    }

    @Test func `a session begins and ends with a frame of the server`() {
        expect(
            Self.server.opening(EngineIOHandshake(sid: "")).map(text) == "o"
                && Self.server.closing.map(text) == #"c[1000,"Normal closure"]"#)
        expect(Self.client.opening(EngineIOHandshake(sid: "")) == nil && Self.client.closing == nil && PrimusFraming.plain.closing == nil)
        expect(Self.client.hasHandshake && !Self.server.hasHandshake && !PrimusFraming.plain.hasHandshake)
        expect(Self.client.ping() == nil && Self.client.pong("") == nil && PrimusFraming.plain.ping() == nil)
    }

    @Test func `frames are the same after encoding and parsing`() throws {
        for frame in [SockJSFrame.open, .heartbeat, .messages(["a", "\"\\\u{1}"]), .messages([]), .close(code: 2010, reason: "\"x\"")] {
            try expectEqual(frame.bytes.withUnsafeBufferPointer { try SockJSFrame(parsing: UnsafeRawBufferPointer($0)) }, frame)
        }
    }

    @Test(arguments: SockJSCloseCode.allCases)
    func `codes have the texts of the original`(code: SockJSCloseCode) {
        expectEqual(Self.client.lines(String(decoding: code.frame.bytes, as: UTF8.self)), ["closed \(code.rawValue) \(code.reason)"])
    }

    @Test func `information about a server has the defaults of the original`() throws {
        let text = #"{"websocket":false,"origins":["*:*"],"cookie_needed":true,"entropy":5,"base_url":"/x"}"#
        let info = try SockJSInfo(parsing: Array(text.utf8))
        expect(info == SockJSInfo(webSocket: false, cookieNeeded: true, baseURL: "/x", entropy: 5) && info.json.description == text)
        try expectEqual(SockJSInfo(parsing: Array("{}".utf8)), SockJSInfo())
        for other in [
            #"{"websocket":"no","cookie_needed":1,"base_url":5,"entropy":-1}"#,
            #"{"websocket":null,"cookie_needed":[],"base_url":{},"entropy":1e300}"#,
            #"{"entropy":4294967296,"origins":{},"more":[{}]}"#,
        ] {
            try expectEqual(SockJSInfo(parsing: Array(other.utf8)), SockJSInfo())
        }
        for invalid in [
            "", "[]", "<html>", "5", "null", #""{}""#, "{", "{}x", String(repeating: "[", count: 100_000),
            "{\"a\":" + String(repeating: "[", count: 100_000), "{\"base_url\":\"\(String(repeating: "a", count: 100_000))\"}",
        ] {
            #expect(throws: SockJSError.self) { try SockJSInfo(parsing: Array(invalid.utf8)) }
        }
    }
}

@Suite struct SockJSFrameReaderTests {
    /// Reads responses in pieces.
    private static func read(_ responses: [String], limit: Int = 100, pieces: Int = .max) -> (frames: [String], error: SockJSError?) {
        var reader = SockJSFrameReader(limit: limit)
        var batch = MessageBatch()
        do throws(SockJSError) {
            for response in responses {
                var rest = Array(response.utf8)[...]
                while !rest.isEmpty {
                    try Array(rest.prefix(pieces)).withUnsafeBufferPointer { bytes throws(SockJSError) in
                        try reader.read(UnsafeRawBufferPointer(bytes), into: &batch)
                    }
                    rest = rest.dropFirst(pieces)
                }
                reader.reset()
            }
            return (batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }, nil)
        } catch {
            return (batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }, error)
        }
    }

    @Test func `a response has a frame in each line, wherever it is cut`() {
        let response = "o\nh\na[\"€😀\"]\nc[3000,\"Go away!\"]\n"
        for pieces in 1...response.utf8.count {
            let read = Self.read([response], pieces: pieces)
            expect(read.frames == ["o", "h", "a[\"€😀\"]", "c[3000,\"Go away!\"]"] && read.error == nil)
        }
    }

    @Test(arguments: [1, 1000, Int.max])
    func `the letters at the beginning of a stream aren't a frame`(pieces: Int) {
        let prelude = String(repeating: "h", count: 2048) + "\n"
        expectEqual(Self.read([prelude + "o\nh\n"], limit: 2048, pieces: pieces).frames, ["o", "h"])
    }

    @Test func `a frame that is cut off by the end of a response isn't part of the next one`() {
        expectEqual(Self.read(["o\na[\"x", "a[\"y\"]\n"]).frames, ["o", "a[\"y\"]"])
    }

    @Test(arguments: [1, 7, Int.max])
    func `a frame has a maximum size, and those before it are kept`(pieces: Int) {
        expectNil(Self.read(["o\n12345\n"], limit: 5, pieces: pieces).error)
        let read = Self.read(["o\n123456\n"], limit: 5, pieces: pieces)
        expect(read.frames == ["o"] && read.error?.problem == "a frame has more than 5 bytes")
        let endless = Self.read(["o\n123456"], limit: 5, pieces: pieces)
        expect(endless.frames == ["o"] && endless.error?.problem == "a frame has more than 5 bytes")
    }
}

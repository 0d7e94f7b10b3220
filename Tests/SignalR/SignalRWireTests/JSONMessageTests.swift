import RealtimeCore
import SignalRWire
import TestSupport
import Testing

@Suite struct JSONMessageTests {
    /// Messages, and their texts as a client or a server of .NET writes them.
    static let messages: [(HubMessage, String)] = [
        (.invocation(HubInvocation(id: nil, target: "Send", arguments: json("[]"))), #"{"type":1,"target":"Send","arguments":[]}"#),
        (
            .invocation(HubInvocation(id: "1", target: "Send", arguments: json(#"[1,"a",{"b":[null]}]"#))),
            #"{"type":1,"invocationId":"1","target":"Send","arguments":[1,"a",{"b":[null]}]}"#
        ),
        (
            .invocation(
                HubInvocation(id: "x\"y", target: "Sé\n", arguments: json("[2]"), streamIDs: ["3", "4"], headers: ["b": "1", "a": ""])),
            #"{"type":1,"invocationId":"x\"y","headers":{"a":"","b":"1"},"target":"Sé\n","arguments":[2],"streamIds":["3","4"]}"#
        ),
        (
            .streamInvocation(HubInvocation(id: "5", target: "Count", arguments: json("[10]"))),
            #"{"type":4,"invocationId":"5","target":"Count","arguments":[10]}"#
        ),
        (.streamItem(id: "5", json("7")), #"{"type":2,"invocationId":"5","item":7}"#),
        (.streamItem(id: "5", json("null")), #"{"type":2,"invocationId":"5","item":null}"#),
        (.streamItem(id: "5", json(#""a\"b""#)), #"{"type":2,"invocationId":"5","item":"a\"b"}"#),
        (.completion(id: "5", .void), #"{"type":3,"invocationId":"5"}"#),
        (.completion(id: "5", .result(json(#"{"a":1}"#))), #"{"type":3,"invocationId":"5","result":{"a":1}}"#),
        (.completion(id: "5", .result(json("null"))), #"{"type":3,"invocationId":"5","result":null}"#),
        (.completion(id: "5", .result(json(#""""#))), #"{"type":3,"invocationId":"5","result":""}"#),
        (.completion(id: "5", .error("It \"failed\".")), #"{"type":3,"invocationId":"5","error":"It \"failed\"."}"#),
        (.completion(id: "5", .error("")), #"{"type":3,"invocationId":"5","error":""}"#),
        (.cancelInvocation(id: "5"), #"{"type":5,"invocationId":"5"}"#),
        (.ping, #"{"type":6}"#),
        (.close(error: nil, allowReconnect: false), #"{"type":7}"#),
        (.close(error: "over", allowReconnect: true), #"{"type":7,"error":"over","allowReconnect":true}"#),
        (.ack(sequenceID: 1394), #"{"type":8,"sequenceId":1394}"#),
        (.sequence(sequenceID: UInt64(Int64.max)), #"{"type":9,"sequenceId":9223372036854775807}"#),
    ]

    @Test(arguments: Self.messages)
    func `each message has its text and survives writing and reading`(message: HubMessage, text: String) throws {
        let written = HubMessageWriter.message(message, .json)
        expectEqual(written.kind, .text)
        expectEqual(String(decoding: written.bytes, as: UTF8.self), text + "\u{1E}")
        try expectEqual(readJSON(text), .message(message))
    }

    @Test(arguments: [
        // The TypeScript client sorts the members in its own way.
        (
            #"{"arguments":[1],"invocationId":"0","streamIds":[],"target":"m","type":1}"#,
            #"{"type":1,"invocationId":"0","target":"m","arguments":[1]}"#
        ),
        (#"{"item":{"type":3},"invocationId":"0","type":2}"#, #"{"type":2,"invocationId":"0","item":{"type":3}}"#),
        (#"{"sequenceId":4,"type":8}"#, #"{"type":8,"sequenceId":4}"#),
        (#"{"allowReconnect":true,"error":"e","type":7}"#, #"{"type":7,"error":"e","allowReconnect":true}"#),
        // `null` instead of a missing member.
        (
            #"{"type":1,"invocationId":null,"headers":null,"target":"m","arguments":[],"streamIds":null}"#,
            #"{"type":1,"target":"m","arguments":[]}"#
        ),
        (#"{"type":3,"invocationId":"1","error":null}"#, #"{"type":3,"invocationId":"1"}"#),
        (#"{"type":3,"invocationId":"1","result":null,"error":"e"}"#, #"{"type":3,"invocationId":"1","error":"e"}"#),
        (#"{"type":7,"error":null,"allowReconnect":null}"#, #"{"type":7}"#),
        (#"{"type":7,"allowReconnect":false}"#, #"{"type":7}"#),
        // An empty ID is none.
        (#"{"type":1,"invocationId":"","target":"m","arguments":[]}"#, #"{"type":1,"target":"m","arguments":[]}"#),
        // Unknown members, headers, names in another case, and members of other messages.
        (#"{"type":6,"more":[{}],"Type":7}"#, #"{"type":6}"#),
        (#"{"type":2,"headers":{"a":1},"invocationId":"1","item":2}"#, #"{"type":2,"invocationId":"1","item":2}"#),
        (#"{"type":5,"headers":{"a":"b"},"invocationId":"1","target":5}"#, #"{"type":5,"invocationId":"1"}"#),
        // The last one of repeated members, also if the first one promises another type.
        (#"{"type":2,"type":1,"target":"a","target":"b","arguments":[]}"#, #"{"type":1,"target":"b","arguments":[]}"#),
        (#"{"type":1,"type":9,"sequenceId":1}"#, #"{"type":9,"sequenceId":1}"#),
        // Space, escapes and other forms of numbers.
        (" { \"type\" : 1.0 , \"target\":\"\\u006d\" , \"arguments\" : [ 1 , 2 ] }\n", #"{"type":1,"target":"m","arguments":[ 1 , 2 ]}"#),
        (#"{"\u0074ype":6}"#, #"{"type":6}"#),
        (#"{"type":8,"sequenceId":1e2}"#, #"{"type":8,"sequenceId":100}"#),
    ])
    func `other forms of a message are read`(text: String, same: String) throws {
        try expectEqual(readJSON(text), readJSON(same))
        guard case .message = try readJSON(text) else {
            Issue.record("\(text): \(try readJSON(text) as Any)")
            return
        }
    }

    @Test(arguments: [("0", 0), ("10", 10), ("-1", -1), ("255", 255), ("9007199254740993", 9_007_199_254_740_993)])
    func `unknown types are reported`(text: String, type: Int) throws {
        try expectEqual(readJSON(#"{"type":\#(text),"invocationId":5,"target":{}}"#), .unknown(type: type))
    }

    static let invalid: [(String, String, Int?, String?)] = [
        ("", "", nil, nil),
        ("x", "unexpected character", nil, nil),
        ("[]", "expected an object", nil, nil),
        ("null", "expected an object", nil, nil),
        (#"{"type":6"#, "unexpected end", 6, nil),
        (#"{"type":6}{}"#, "unexpected content", 6, nil),
        (#"{"type":3,"invocationId":"a","result":{"a":NaN}}"#, "unexpected", 3, "a"),
        (#"{}"#, #"missing "type""#, nil, nil),
        (#"{"Type":6,"invocationId":"7"}"#, #"missing "type""#, nil, "7"),
        (#"{"type":"6"}"#, #""type" must be an integer"#, nil, nil),
        (#"{"type":null,"invocationId":"7"}"#, #""type" must be an integer"#, nil, "7"),
        (#"{"type":1.5}"#, #""type" must be an integer"#, nil, nil),
        (#"{"type":1e400}"#, #""type" must be an integer"#, nil, nil),
        (#"{"type":true}"#, #""type" must be an integer"#, nil, nil),
        (#"{"type":1,"invocationId":"1","arguments":[]}"#, #"missing "target""#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"","arguments":[]}"#, #"missing "target""#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":5,"arguments":[]}"#, #""target" must be a string"#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m"}"#, #"missing "arguments""#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m","arguments":{}}"#, #""arguments" must be an array"#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m","arguments":null}"#, #""arguments" must be an array"#, 1, "1"),
        (#"{"type":1,"invocationId":1,"target":"m","arguments":[]}"#, #""invocationId" must be a string"#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m","arguments":[],"streamIds":{}}"#, #""streamIds" must be an array"#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m","arguments":[],"streamIds":[1]}"#, #""streamIds" must contain strings"#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m","arguments":[],"headers":[]}"#, #""headers" must be an object"#, 1, "1"),
        (#"{"type":1,"invocationId":"1","target":"m","arguments":[],"headers":{"a":1}}"#, #"values of "headers" must be strings"#, 1, "1"),
        (#"{"type":4,"target":"m","arguments":[]}"#, #"missing "invocationId""#, 4, nil),
        (#"{"type":4,"invocationId":"","target":"m","arguments":[]}"#, #"missing "invocationId""#, 4, nil),
        (#"{"type":2,"item":1}"#, #"missing "invocationId""#, 2, nil),
        (#"{"type":2,"invocationId":"1"}"#, #"missing "item""#, 2, "1"),
        (#"{"type":3,"result":1}"#, #"missing "invocationId""#, 3, nil),
        (#"{"type":3,"invocationId":"1","result":1,"error":"e"}"#, #""result" and "error" exclude each other"#, 3, "1"),
        (#"{"type":3,"invocationId":"1","error":5}"#, #""error" must be a string"#, 3, "1"),
        (#"{"type":5}"#, #"missing "invocationId""#, 5, nil),
        (#"{"type":7,"error":{}}"#, #""error" must be a string"#, 7, nil),
        (#"{"type":7,"allowReconnect":1}"#, #""allowReconnect" must be a Boolean value"#, 7, nil),
        (#"{"type":8}"#, #"missing "sequenceId""#, 8, nil),
        (#"{"type":8,"sequenceId":"1"}"#, #""sequenceId" must be an integer"#, 8, nil),
        (#"{"type":9,"sequenceId":-1}"#, #""sequenceId" must be an integer"#, 9, nil),
        (#"{"type":9,"sequenceId":1.5}"#, #""sequenceId" must be an integer"#, 9, nil),
        (#"{"type":8,"sequenceId":-1}"#, #""sequenceId" must be an integer"#, 8, nil),
        (#"{"type":8,"sequenceId":null}"#, #""sequenceId" must be an integer"#, 8, nil),
        (#"{"type":9,"sequenceId":"x"}"#, #""sequenceId" must be an integer"#, 9, nil),
        (#"{"type":9,"sequenceId":9223372036854775808}"#, #""sequenceId" must be an integer"#, 9, nil),
        (#"{"type":9,"sequenceId":18446744073709551616}"#, #""sequenceId" must be an integer"#, 9, nil),
        (#"{"type":9,"sequenceId":1e300}"#, #""sequenceId" must be an integer"#, 9, nil),
        (#"{"type":9,"sequenceId":[1]}"#, #""sequenceId" must be an integer"#, 9, nil),
    ]

    @Test(arguments: Self.invalid.filter { !$0.0.isEmpty })
    func `an invalid message is reported and doesn't affect its neighbors`(
        text: String, problem: String, type: Int?, id: String?
    ) throws {
        let outputs = try read([bytes("{\"type\":6}\u{1E}\(text)\u{1E}{\"type\":6}\u{1E}")], .json)
        guard outputs.count == 3, outputs[0] == .message(.ping), outputs[2] == .message(.ping), case .invalid(let error) = outputs[1] else {
            Issue.record("\(text): \(outputs)")
            return
        }
        expect(error.problem.contains(problem), "\(text): \(error)")
        expect(error.type == type && error.invocationID == id, "\(text): \(error)")
    }

    @Test(arguments: Self.messages)
    func `a truncated message is invalid`(message: HubMessage, text: String) throws {
        let complete = bytes(text)
        // Bytes that aren't UTF-8 any more are replaced, which leaves the text incomplete.
        for end in 1..<complete.count {
            guard case .invalid? = try readJSON(String(decoding: complete[..<end], as: UTF8.self)) else {
                Issue.record("\(text): \(end) bytes")
                continue
            }
        }
    }

    @Test func `bytes that aren't UTF-8 make one message invalid`() throws {
        let outputs = try read([bytes("{\"type\":1,\"target\":\"") + [0xFF] + bytes("\",\"arguments\":[]}\u{1E}{\"type\":6}\u{1E}")], .json)
        guard outputs.count == 2, case .invalid(let error) = outputs[0] else {
            Issue.record("\(outputs)")
            return
        }
        expect(error.problem.contains("UTF-8"))
        expectEqual(outputs[1], .message(.ping))
    }

    /// The limit applies where the value is decoded, so that the call with this ID fails.
    @Test func `the ID of a result that is nested too deeply is known`() throws {
        let depth = 100_000
        let result = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        let output = try readJSON(#"{"type":3,"invocationId":"1","result":\#(result)}"#)
        expectEqual(output, .message(.completion(id: "1", .result(json(result)))))
        #expect(throws: (any Error).self) { try HubValueCoder(.json).decode([[Int]].self, from: json(result)) }
    }
}

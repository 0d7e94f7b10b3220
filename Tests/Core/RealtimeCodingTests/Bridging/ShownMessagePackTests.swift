import RealtimeCoding
import TestSupport
import Testing

/// MessagePack as JSON for readers.
@Suite struct ShownMessagePackTests {
    @Test(
        arguments: [
            (.nil, "null"), (.bool(true), "true"), (.int(.min), "-9223372036854775808"), (.uint(.max), "18446744073709551615"),
            (.float(0.1), "0.1"), (.float(16_777_216), "16777216"), (.double(0.1), "0.1"), (.double(.nan), #""NaN""#),
            (.double(-.infinity), #""-Infinity""#), (.float(.infinity), #""Infinity""#), (.string("ü"), #""ü""#),
            (.binary([1, 2]), #""AQI=""#), (.array([1, "a"]), #"[1,"a"]"#), (.map([.init("a", 1), .init(2, "b")]), #"{"a":1,"2":"b"}"#),
            (.timestamp(MessagePackTimestamp(seconds: 0, nanoseconds: 500_000_000)), #""1970-01-01T00:00:00.5Z""#),
            (.ext(5, [1]), #"{"type":5,"data":"AQ=="}"#), (.ext(-1, [1]), #"{"type":-1,"data":"AQ=="}"#),
        ] as [(MessagePackValue, String)])
    func `every value can be shown`(_ value: MessagePackValue, _ json: String) {
        expectEqual(JSONValue(showing: value).description, json)
    }

    @Test(
        arguments: [
            ("9223372036854775807", nil), ("18446744073709551615", nil), ("0.1", nil), ("1e300", nil), ("[null,\"1\",true]", nil),
            ("18446744073709551616", "18446744073709551616"), ("[1,{\"a\":0.12345678901234567890}]", "0.12345678901234567890"),
            ("1e400", "1e400"),
        ] as [(String, String?)])
    func `numbers with more digits than MessagePack supports are found`(_ json: String, _ number: String?) throws {
        try expectEqual(JSONValue(parsing: json).numberRoundedByMessagePack?.description, number)
    }

    @Test func `values print as JSON`() {
        let object: JSONObject = ["b": 1, "a": [nil, "x"]]
        expectEqual("\(object) \([object])", #"{"b":1,"a":[null,"x"]} [{"b":1,"a":[null,"x"]}]"#)
        let value: MessagePackValue = ["a": [1, nil], "b": .binary([1, 2, 3])]
        expectEqual("\(value) \([value])", #"{"a":[1,null],"b":"AQID"} [{"a":[1,null],"b":"AQID"}]"#)
        expectEqual("\(MessagePackValue.Member("a", 1))", #""a":1"#)
        expectEqual("\(MessagePackTimestamp(seconds: 1))", "1970-01-01T00:00:01Z")
        expectEqual("\(MessagePackTimestamp(seconds: .max))", "9223372036854775807 s")
    }
}

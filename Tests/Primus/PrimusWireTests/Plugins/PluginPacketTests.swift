import PrimusWire
import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

@Suite struct PluginPacketTests {
    // MARK: Texts

    /// Packets, and their texts as the plugins of the original write them.
    static let texts: [(packet: String, kind: String)] = [
        (#"{"type":0,"data":["hello"]}"#, "event hello 0"),
        (#"{"type":0,"data":["find","todos",{"a":[1]}],"id":1}"#, "event find 2 id 1"),
        (#"{"id":1,"type":1,"data":[]}"#, "acknowledgement 1 0"),
        (#"{"id":12,"type":1,"data":[{"a":1},null]}"#, "acknowledgement 12 2"),
        (#"{"emit":["plain",1,"x"]}"#, "emit plain 2"),
        (#"[1,"a1b2c3d4e5f6g","news"]"#, "subscribe a1b2c3d4e5f6g news"),
        (#"[0,"a1b2c3d4e5f6g","news",{"a":1}]"#, #"message a1b2c3d4e5f6g news object(["a": 1])"#),
        (#"[2,"a1b2c3d4e5f6g","news"]"#, "unsubscribe a1b2c3d4e5f6g news"),
        (#"{"substream":"sub","args":"text"}"#, "substream sub text"),
        (#"{"substream":"sub","args":"substream::end"}"#, "substream end sub"),
        (#"{"plugin":"primus-responder","requestId":"r-1","data":2}"#, "request r-1 2"),
        (#"{"plugin":"primus-responder","responseId":"r-1","data":[3]}"#, "response r-1 [3]"),
    ]

    private static func describe(_ output: PrimusPluginReader.Output) throws -> String {
        switch output {
        case .none: return "none"
        case .invalid(let error): return error.description
        case .packet(.emitter(.event(let name, let arguments, let id))):
            return "event \(name) \(try arguments.values().count)" + (id.map { " id \($0)" } ?? "")
        case .packet(.emitter(.acknowledgement(let id, let arguments))): return "acknowledgement \(id) \(try arguments.values().count)"
        case .packet(.emit(let packet)): return "emit \(packet.name) \(try packet.arguments.values().count)"
        case .packet(.multiplex(.message(let address, let payload))):
            return "message \(address.id) \(address.channel) \(try self.describe(payload))"
        case .packet(.multiplex(.subscribe(let address))): return "subscribe \(address.id) \(address.channel)"
        case .packet(.multiplex(.unsubscribe(let address))): return "unsubscribe \(address.id) \(address.channel)"
        case .packet(.substream(.message(let name, let payload))): return "substream \(name) \(try self.describe(payload))"
        case .packet(.substream(.end(let name))): return "substream end \(name)"
        case .packet(.responder(.request(let id, let payload))): return "request \(id) \(try self.describe(payload))"
        case .packet(.responder(.response(let id, let payload))): return "response \(id) \(try self.describe(payload))"
        }
    }

    private static func describe(_ payload: PrimusPayload) throws -> String {
        if let number = try? payload.decode(Int.self) { return "\(number)" }
        if let text = try? payload.decode(String.self) { return text }
        if let numbers = try? payload.decode([Int].self) { return "\(numbers)" }
        if let object = try? payload.decode([String: Int].self) { return "object(\(object))" }
        return try payload.value() == .null ? "null" : "other"
    }

    @Test(arguments: Self.texts)
    func `each packet is read, and written with the same text`(packet: String, kind: String) throws {
        let output = readJSON(packet)
        try expectEqual(Self.describe(output), kind)
        guard case .packet(let read) = output else { return }
        try expectEqual(PrimusPluginWriter(.json).message(read), .text(packet))
    }

    @Test(arguments: [
        // In another order, with space and escapes, and with members that plugins don't know.
        (#" { "id" : 3 , "data" : [ "a" ] , "type" : 0 } "#, #"event a 0 id 3"#),
        (#"{"data":["\u0061"],"type":0.0,"more":{"type":1}}"#, "event a 0"),
        (#"{"\u0074ype":0,"data":["a"]}"#, "event a 0"),
        (#"{"type":1,"id":1e2,"data":[]}"#, "acknowledgement 100 0"),
        (#"{"type":0,"data":["a"],"id":null}"#, "event a 0"),
        // The original takes zero for no ID.
        (#"{"type":0,"data":["a"],"id":0}"#, "event a 0"),
        // The last one of repeated members.
        (#"{"type":1,"data":["a"],"type":0}"#, "event a 0"),
        (#" [ 0 , "i" , "c" , "text" ] "#, "message i c text"),
        (#"[1,"\u0069","c\"\\"]"#, #"subscribe i c"\"#),
        // The original leaves out falsy values.
        (#"[0,"i","c"]"#, "message i c null"),
        (#"{"substream":"s"}"#, "substream s null"),
        (#"{"plugin":"primus-responder","requestId":"1"}"#, "request 1 null"),
        (#"{"data":1,"requestId":"1","plugin":"primus\u002dresponder"}"#, "request 1 1"),
        // A request comes first in the original.
        (#"{"plugin":"primus-responder","requestId":"1","responseId":"2"}"#, "request 1 null"),
        // As in the original, those that filter messages come before primus-emitter.
        (#"{"type":0,"data":["a"],"emit":["b"]}"#, "emit b 0"),
        (#"{"type":0,"data":["a"],"substream":"s"}"#, "substream s null"),
    ])
    func `other forms of a packet are read`(text: String, kind: String) throws {
        try expectEqual(Self.describe(readJSON(text)), kind)
    }

    @Test(arguments: [
        "", " ", "0", "null", #""primus::ping::1""#, #""text""#, "{}", "[]", "[1]", "[0,1,2,3]", #"[1,"a"]"#, #"[3,"i","c"]"#,
        #"[1,"i",5]"#, #"[1,"i","c",2,3]"#, #"[1,"i""#, #"[1,"i","c"] x"#, #"["1","i","c"]"#, #"[10,"i","c"]"#, #"[1.5,"i","c"]"#,
        #"[1,5,"c"]"#, #"{"type":0}"#, #"{"type":0,"data":"a"}"#, #"{"type":0,"data":{"0":"a"}}"#, #"{"type":2,"data":["a"]}"#,
        #"{"type":"0","data":["a"]}"#, #"{"type":0.5,"data":["a"]}"#, #"{"type":0,"data":["a"],"id":"1"}"#,
        #"{"type":0,"data":["a"],"id":true}"#, #"{"data":["a"]}"#,
        #"{"emit":"a"}"#, #"{"emit":{}}"#, #"{"substream":5,"args":1}"#, #"{"args":1}"#, #"{"plugin":"other","requestId":"1"}"#,
        #"{"requestId":"1","data":1}"#, #"{"type":0,"data":["a"]"#, #"{"type":0,"data":["a"]}}"#, "{\"type\":0,\"data\":[\"\u{1}\"]}",
    ])
    func `anything else belongs to the application`(text: String) { expectEqual(readJSON(text), .none) }

    @Test func `a binary message isn't a packet in JSON`() {
        let bytes = Array(#"{"type":0,"data":["a"]}"#.utf8)
        expectEqual(PrimusPluginReader(.all, .json).read(.binary(bytes)), .none)
    }

    @Test(arguments: [
        (#"{"type":0,"data":[]}"#, "emitter", "the array of an event must begin with its name"),
        (#"{"type":0,"data":[5]}"#, "emitter", "the array of an event must begin with its name"),
        (#"{"type":0,"data":[null,"a"]}"#, "emitter", "the array of an event must begin with its name"),
        (#"{"type":0,"data":["a"],"id":1.5}"#, "emitter", "\"id\" must be an integer"),
        (#"{"type":1,"data":["a"],"id":1e99}"#, "emitter", "\"id\" must be an integer"),
        (#"{"type":1,"data":["a"]}"#, "emitter", "an acknowledgement must have an \"id\""),
        (#"{"type":1,"data":[],"id":0}"#, "emitter", "an acknowledgement must have an \"id\""),
        (#"{"emit":[]}"#, "emit", "the array of an event must begin with its name"),
        (#"{"emit":[{}]}"#, "emit", "the array of an event must begin with its name"),
        (#"{"plugin":"primus-responder"}"#, "responder", "it has neither \"requestId\" nor \"responseId\""),
        (#"{"plugin":"primus-responder","requestId":null,"data":1}"#, "responder", "it has neither \"requestId\" nor \"responseId\""),
        (#"{"plugin":"primus-responder","requestId":5}"#, "responder", "\"requestId\" must be a string"),
        (#"{"plugin":"primus-responder","responseId":[]}"#, "responder", "\"responseId\" must be a string"),
    ])
    func `a packet with an invalid part is an error that names the part`(text: String, plugin: String, problem: String) {
        expectEqual(readJSON(text), .invalid(.invalidPacket(plugin: plugin, problem: problem)))
    }

    @Test func `a message is a packet of the plugins that are on only`() throws {
        for (text, kind) in Self.texts {
            let output = readJSON(text)
            let owner: PrimusPluginSet =
                switch output {
                case .packet(.emitter): .emitter
                case .packet(.emit): .emit
                case .packet(.multiplex): .multiplex
                case .packet(.substream): .substream
                case .packet(.responder): .responder
                default: []
                }
            expect(!owner.isEmpty, "\(kind)")
            expectEqual(readJSON(text, owner), output)
            expectEqual(readJSON(text, PrimusPluginSet.all.subtracting(owner)), .none, "\(kind)")
            expectEqual(readJSON(text, []), .none)
        }
    }

    @Test func `a message that is nested too deeply isn't a packet`() {
        let text = #"{"type":0,"data":["a",[[1]]]}"#
        expectEqual(PrimusPluginReader(.all, .json, limits: CodingLimits(depth: 3)).read(text), .none)
        expect(PrimusPluginReader(.all, .json, limits: CodingLimits(depth: 4)).read(text) != .none)
        let bomb = #"{"type":0,"data":["# + String(repeating: "[", count: 100_000)
        expectEqual(readJSON(bomb), .none)
        expectEqual(readJSON(#"[0,"i","c","# + String(repeating: "[", count: 100_000)), .none)
    }

    // MARK: Parsers

    @Test(arguments: codings)
    func `each packet survives writing and reading with each parser`(coding: PrimusCoding) throws {
        let (reader, writer) = (PrimusPluginReader(.all, coding), PrimusPluginWriter(coding))
        for packet in try PrimusPluginPacket.samples(coding) {
            expectEqual(reader.read(try writer.message(packet)), .packet(packet))
            expectEqual(reader.read(writer.payload(packet)), .packet(packet))
        }
    }

    @Test(arguments: codings)
    func `an event can be the message of a channel`(coding: PrimusCoding) throws {
        let (reader, writer) = (PrimusPluginReader(.all, coding), PrimusPluginWriter(coding))
        let event = PrimusPluginPacket.emitter(.event(name: "a", try PrimusArguments("a", 1, in: coding), id: 2))
        let address = MultiplexAddress(id: "i", channel: "c")
        let message = try writer.message(.multiplex(.message(address, writer.payload(event))))
        guard case .packet(.multiplex(.message(address, let payload))) = reader.read(message) else {
            Issue.record("not the message of the channel")
            return
        }
        expectEqual(PrimusPluginReader(.emitter, coding).read(payload), .packet(event))
    }

    @Test func `packets in MessagePack have the bytes of the original`() throws {
        let writer = PrimusPluginWriter(.messagePack)
        let arguments = try PrimusArguments("a", 1, in: .messagePack)
        let event = try writer.message(.emitter(.event(name: "a", arguments, id: 1)))
        let expected: [[UInt8]] = [
            [0x83, 0xA4], Array("type".utf8), [0, 0xA4], Array("data".utf8), [0x92, 0xA1, 0x61, 1, 0xA2], Array("id".utf8), [1],
        ]
        expectEqual(event, .binary(Array(expected.joined())))
        let subscribe = try writer.message(.multiplex(.subscribe(MultiplexAddress(id: "i", channel: "c"))))
        expectEqual(subscribe, .binary([0x93, 1, 0xA1, 0x69, 0xA1, 0x63]))
    }

    @Test func `in MessagePack, keys of other types and long encodings are read`() {
        let reader = PrimusPluginReader(.all, .messagePack)
        // {5: nil, "type" as a text of 32 bits: 0.0, "data": ["a"]}
        let bytes: [UInt8] =
            [0x83, 5, 0xC0, 0xDB, 0, 0, 0, 4] + Array("type".utf8) + [0xCB, 0, 0, 0, 0, 0, 0, 0, 0, 0xA4] + Array("data".utf8)
            + [0xDC, 0, 1, 0xA1, 0x61]
        guard case .packet(.emitter(.event(name: "a", _, id: nil))) = reader.read(.binary(bytes)) else {
            Issue.record("not the event")
            return
        }
        expectEqual(reader.read(.binary(bytes.dropLast())), .none)
        expectEqual(reader.read(.binary(bytes + [0])), .none)
        expectEqual(reader.read(.binary([])), .none)
    }

    @Test func `the wrappers of EJSON are decoded when they are needed`() throws {
        let output = PrimusPluginReader(.all, .ejson).read(#"{"type":0,"data":["a",{"$date":5},{"$binary":"AQID"}]}"#)
        guard case .packet(.emitter(.event(name: "a", let arguments, id: nil))) = output else {
            Issue.record("not the event")
            return
        }
        try expectEqual(arguments.values(), [.date(PrimusDate(milliseconds: 5)), .bytes([1, 2, 3])])
    }
}

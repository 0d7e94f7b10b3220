import PrimusWire
import RealtimeCoding
import RealtimeCore

extension PrimusPluginReader {
    func read(_ message: TransportMessage) -> Output { message.bytes.withUnsafeBytes { self.read($0, message.kind) } }

    func read(_ text: String) -> Output { self.read(.text(text)) }
}

/// The packet of a text in JSON, of any plugin.
func readJSON(_ text: String, _ plugins: PrimusPluginSet = .all) -> PrimusPluginReader.Output {
    PrimusPluginReader(plugins, .json).read(text)
}

func jsonPayload(_ text: String) throws -> PrimusPayload {
    try PrimusPayload(PrimusCoding.json.value(of: .text(text)), .json)
}

/// The codings of all parsers of Primus.
let codings: [PrimusCoding] = [.json, .ejson, .messagePack, .binary]

extension PrimusPluginPacket {
    /// A packet of each kind, with values of each kind.
    static func samples(_ coding: PrimusCoding) throws -> [PrimusPluginPacket] {
        let value = try PrimusPayload(["a": [1, "é\u{2028}", nil], "b": 1.5], coding)
        let null = try PrimusPayload(.null, coding)
        let address = MultiplexAddress(id: "a1b2c3d4e5f6g", channel: "news \"1\"")
        return [
            .emitter(.event(name: "hello", try PrimusArguments("hello", in: coding), id: nil)),
            .emitter(.event(name: "data é", try PrimusArguments("data é", 1, "two", [3.5], in: coding), id: 7)),
            .emitter(.event(name: "", try PrimusArguments("", true, in: coding), id: 1 << 40)),
            .emitter(.acknowledgement(id: 7, try PrimusArguments(nil, in: coding))),
            .emitter(.acknowledgement(id: 1, try PrimusArguments(nil, ["a": 1], Int?.none, in: coding))),
            .emit(EmitPacket(name: "plain", try PrimusArguments("plain", "x", in: coding))),
            .multiplex(.message(address, value)), .multiplex(.message(address, null)), .multiplex(.subscribe(address)),
            .multiplex(.unsubscribe(address)), .substream(.message(name: "sub", value)), .substream(.end(name: "sub\n")),
            .responder(.request(id: "7d1cb1b0-0000-4000-8000-000000000001", value)), .responder(.response(id: "1", null)),
        ]
    }
}

import RealtimeCoding
package import RealtimeCore

/// Encodes the packets of plugins.
package struct PrimusPluginWriter: Sendable {
    private let coding: PrimusCoding

    package init(_ coding: PrimusCoding) { self.coding = coding }

    /// Returns a packet as a message.
    ///
    /// - Parameter packet: The packet. Its values must be in the same encoding.
    /// - Throws: The error of the parser for a value that it can't represent, which only a parser of the application does.
    package func message(_ packet: PrimusPluginPacket) throws -> TransportMessage {
        switch self.coding.form {
        case .json:
            var bytes: [UInt8] = []
            JSONPluginWriter.append(packet, to: &bytes)
            return TransportMessage(.text, bytes)
        case .messagePack:
            var writer = MessagePackWriter()
            MessagePackPluginWriter.append(packet, to: &writer)
            return TransportMessage(.binary, writer.bytes)
        case .tree: return try self.coding.message(TreePluginWriter.value(packet))
        }
    }

    /// Returns a packet as a value, before the parser of a connection is known. The packet's own values must be in the encoding `binary`, or
    /// in that of a parser of the application.
    package static func value(_ packet: PrimusPluginPacket) -> PrimusValue { TreePluginWriter.value(packet) }

    /// Returns a packet as the value in another packet, such as an event on a channel.
    package func payload(_ packet: PrimusPluginPacket) -> PrimusPayload {
        switch self.coding.form {
        case .json:
            var bytes: [UInt8] = []
            JSONPluginWriter.append(packet, to: &bytes)
            return PrimusPayload(bytes, self.coding)
        case .messagePack:
            var writer = MessagePackWriter()
            MessagePackPluginWriter.append(packet, to: &writer)
            return PrimusPayload(writer.bytes, self.coding)
        case .tree: return PrimusPayload(tree: TreePluginWriter.value(packet), self.coding)
        }
    }
}

/// Writes packets as the original does: with the same members in the same order.
private enum JSONPluginWriter {
    static func append(_ packet: PrimusPluginPacket, to bytes: inout [UInt8]) {
        switch packet {
        case .emitter(.event(_, let arguments, let id)):
            self.append(#"{"type":0,"data":"#, arguments.array, to: &bytes)
            if let id {
                JSONWriter.append(literal: #","id":"#, to: &bytes)
                bytes.append(contentsOf: "\(id)".utf8)
            }
            bytes.append(UInt8(ascii: "}"))
        case .emitter(.acknowledgement(let id, let arguments)):
            JSONWriter.append(literal: #"{"id":"#, to: &bytes)
            bytes.append(contentsOf: "\(id)".utf8)
            self.append(#","type":1,"data":"#, arguments.array, to: &bytes)
            bytes.append(UInt8(ascii: "}"))
        case .emit(let packet):
            self.append(#"{"emit":"#, packet.arguments.array, to: &bytes)
            bytes.append(UInt8(ascii: "}"))
        case .multiplex(let packet):
            let (type, address, payload) = packet.parts
            bytes.append(contentsOf: [UInt8(ascii: "["), UInt8(ascii: "0") + type, UInt8(ascii: ",")])
            JSONWriter.append(address.id, to: &bytes)
            bytes.append(UInt8(ascii: ","))
            JSONWriter.append(address.channel, to: &bytes)
            if let payload { self.append(",", payload, to: &bytes) }
            bytes.append(UInt8(ascii: "]"))
        case .substream(let packet):
            JSONWriter.append(literal: #"{"substream":"#, to: &bytes)
            switch packet {
            case .message(let name, let payload):
                JSONWriter.append(name, to: &bytes)
                self.append(#","args":"#, payload, to: &bytes)
            case .end(let name):
                JSONWriter.append(name, to: &bytes)
                JSONWriter.append(literal: #","args":"#, to: &bytes)
                JSONWriter.append(SubstreamPacket.end, to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        case .responder(let packet):
            let (key, id, payload) = packet.parts
            JSONWriter.append(literal: #"{"plugin":"primus-responder",""#, to: &bytes)
            bytes.append(contentsOf: key.name.utf8)
            JSONWriter.append(literal: #"":"#, to: &bytes)
            JSONWriter.append(id, to: &bytes)
            self.append(#","data":"#, payload, to: &bytes)
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private static func append(_ literal: StaticString, _ payload: PrimusPayload, to bytes: inout [UInt8]) {
        let content = payload.bytes
        bytes.reserveCapacity(bytes.count + content.count + 64)
        JSONWriter.append(literal: literal, to: &bytes)
        bytes.append(contentsOf: content)
    }
}

private enum MessagePackPluginWriter {
    static func append(_ packet: PrimusPluginPacket, to writer: inout MessagePackWriter) {
        switch packet {
        case .emitter(.event(_, let arguments, let id)):
            writer.mapHeader(id == nil ? 2 : 3)
            self.append("type", 0, to: &writer)
            self.append("data", arguments.array, to: &writer)
            if let id { self.append("id", id, to: &writer) }
        case .emitter(.acknowledgement(let id, let arguments)):
            writer.mapHeader(3)
            self.append("id", id, to: &writer)
            self.append("type", 1, to: &writer)
            self.append("data", arguments.array, to: &writer)
        case .emit(let packet):
            writer.mapHeader(1)
            self.append("emit", packet.arguments.array, to: &writer)
        case .multiplex(let packet):
            let (type, address, payload) = packet.parts
            writer.arrayHeader(payload == nil ? 3 : 4)
            writer.value(Int(type))
            writer.value(address.id)
            writer.value(address.channel)
            if let payload { writer.raw(payload.bytes) }
        case .substream(let packet):
            writer.mapHeader(2)
            writer.value("substream")
            switch packet {
            case .message(let name, let payload):
                writer.value(name)
                self.append("args", payload, to: &writer)
            case .end(let name):
                writer.value(name)
                writer.value("args")
                writer.value(SubstreamPacket.end)
            }
        case .responder(let packet):
            let (key, id, payload) = packet.parts
            writer.mapHeader(3)
            writer.value("plugin")
            writer.value(ResponderPacket.plugin)
            writer.value(key.name)
            writer.value(id)
            self.append("data", payload, to: &writer)
        }
    }

    private static func append(_ name: String, _ payload: PrimusPayload, to writer: inout MessagePackWriter) {
        writer.value(name)
        writer.raw(payload.bytes)
    }

    private static func append(_ name: String, _ number: Int64, to writer: inout MessagePackWriter) {
        writer.value(name)
        // JavaScript has no larger integers, and its MessagePack reads larger ones as floating-point numbers.
        if let number = Int32(exactly: number) { writer.value(Int(number)) } else { writer.value(Double(number)) }
    }
}

private enum TreePluginWriter {
    static func value(_ packet: PrimusPluginPacket) -> PrimusValue {
        switch packet {
        case .emitter(.event(_, let arguments, let id)):
            let members: [(String, PrimusValue)] = [("type", 0), ("data", arguments.array.tree)]
            return self.object(members + (id.map { [("id", .int($0))] } ?? []))
        case .emitter(.acknowledgement(let id, let arguments)):
            return self.object([("id", .int(id)), ("type", 1), ("data", arguments.array.tree)])
        case .emit(let packet): return self.object([("emit", packet.arguments.array.tree)])
        case .multiplex(let packet):
            let (type, address, payload) = packet.parts
            return .array([.int(Int64(type)), .string(address.id), .string(address.channel)] + (payload.map { [$0.tree] } ?? []))
        case .substream(.message(let name, let payload)): return self.object([("substream", .string(name)), ("args", payload.tree)])
        case .substream(.end(let name)): return self.object([("substream", .string(name)), ("args", .string(SubstreamPacket.end))])
        case .responder(let packet):
            let (key, id, payload) = packet.parts
            return self.object([("plugin", .string(ResponderPacket.plugin)), (key.name, .string(id)), ("data", payload.tree)])
        }
    }

    private static func object(_ members: [(String, PrimusValue)]) -> PrimusValue {
        .object(PrimusValue.Object(members.map { (key: $0.0, value: $0.1) }))
    }
}

extension MultiplexPacket {
    fileprivate var parts: (type: UInt8, MultiplexAddress, PrimusPayload?) {
        switch self {
        case .message(let address, let payload): (0, address, payload)
        case .subscribe(let address): (1, address, nil)
        case .unsubscribe(let address): (2, address, nil)
        }
    }
}

extension ResponderPacket {
    fileprivate var parts: (PluginKey, id: String, PrimusPayload) {
        switch self {
        case .request(let id, let payload): (.requestID, id, payload)
        case .response(let id, let payload): (.responseID, id, payload)
        }
    }
}

extension PrimusPayload {
    fileprivate var bytes: [UInt8] {
        guard case .bytes(let bytes) = self.content else { preconditionFailure("a value of another encoding") }
        return bytes
    }

    fileprivate var tree: PrimusValue {
        guard case .value(let value) = self.content else { preconditionFailure("a value of another encoding") }
        return value
    }
}

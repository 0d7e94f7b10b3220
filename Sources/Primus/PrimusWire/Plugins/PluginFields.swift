/// The members of an object by which plugins recognize their packets.
enum PluginKey: Int, CaseIterable {
    case type, id, data, emit, substream, args, plugin, requestID, responseID

    var name: String {
        switch self {
        case .type: "type"
        case .id: "id"
        case .data: "data"
        case .emit: "emit"
        case .substream: "substream"
        case .args: "args"
        case .plugin: "plugin"
        case .requestID: "requestId"
        case .responseID: "responseId"
        }
    }
}

/// The kind of a member, as far as plugins distinguish it.
enum PluginFieldKind {
    /// The member is missing or null.
    case missing
    case string, array, number
    case other
}

/// An object that may be a packet, in the form in which a parser received it.
protocol PluginFields {
    func kind(_ key: PluginKey) -> PluginFieldKind
    /// The integer of a number; `nil` if it has a fraction or is too large.
    func integer(_ key: PluginKey) -> Int64?
    func string(_ key: PluginKey) -> String
    /// The value of a member, which is null if the member is missing.
    func payload(_ key: PluginKey) -> PrimusPayload
}

extension PluginFields {
    /// Returns the packet that this object is. Anything that a plugin of the original would leave to the application isn't a packet.
    func packet(of plugins: PrimusPluginSet) -> PrimusPluginReader.Output {
        do throws(PrimusPluginError) {
            if plugins.contains(.responder), self.kind(.plugin) == .string, self.string(.plugin) == ResponderPacket.plugin {
                return .packet(.responder(try self.responder()))
            }
            if plugins.contains(.emit), self.kind(.emit) == .array {
                let (name, arguments) = try PrimusArguments.event(self.payload(.emit), plugin: "emit")
                return .packet(.emit(EmitPacket(name: name, arguments)))
            }
            if plugins.contains(.substream), self.kind(.substream) == .string { return .packet(.substream(self.substream())) }
            if plugins.contains(.emitter), let packet = try self.emitter() { return .packet(.emitter(packet)) }
            return .none
        } catch {
            return .invalid(error)
        }
    }

    private func responder() throws(PrimusPluginError) -> ResponderPacket {
        for key in [PluginKey.requestID, .responseID] where self.kind(key) != .missing {
            guard self.kind(key) == .string else {
                throw .invalidPacket(plugin: "responder", problem: "\"\(key.name)\" must be a string")
            }
            let id = self.string(key)
            return key == .requestID ? .request(id: id, self.payload(.data)) : .response(id: id, self.payload(.data))
        }
        throw .invalidPacket(plugin: "responder", problem: "it has neither \"requestId\" nor \"responseId\"")
    }

    private func substream() -> SubstreamPacket {
        let name = self.string(.substream)
        if self.kind(.args) == .string, self.string(.args) == SubstreamPacket.end { return .end(name: name) }
        return .message(name: name, self.payload(.args))
    }

    private func emitter() throws(PrimusPluginError) -> EmitterPacket? {
        guard self.kind(.data) == .array, self.kind(.type) == .number, let type = self.integer(.type), type == 0 || type == 1 else {
            return nil
        }
        var id: Int64?
        switch self.kind(.id) {
        case .missing: break
        case .number:
            guard let number = self.integer(.id) else { throw .invalidPacket(plugin: "emitter", problem: "\"id\" must be an integer") }
            // The original takes zero for no ID.
            if number != 0 { id = number }
        // The original leaves packets with other IDs to the application.
        case .string, .array, .other: return nil
        }
        if type == 0 {
            let (name, arguments) = try PrimusArguments.event(self.payload(.data), plugin: "emitter")
            return .event(name: name, arguments, id: id)
        }
        guard let id else { throw .invalidPacket(plugin: "emitter", problem: "an acknowledgement must have an \"id\"") }
        return .acknowledgement(id: id, PrimusArguments(self.payload(.data)))
    }
}

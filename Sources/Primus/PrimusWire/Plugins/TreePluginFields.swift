/// A packet of a parser whose values can't be cut from their packet, as a tree.
struct TreePluginFields: PluginFields {
    private let object: PrimusValue.Object
    private let coding: PrimusCoding

    init(_ object: PrimusValue.Object, _ coding: PrimusCoding) {
        self.object = object
        self.coding = coding
    }

    private func value(_ key: PluginKey) -> PrimusValue? { self.object[key.name] }

    func kind(_ key: PluginKey) -> PluginFieldKind {
        switch self.value(key) {
        case nil, .null: .missing
        case .string: .string
        case .array: .array
        case .int, .double: .number
        default: .other
        }
    }

    func integer(_ key: PluginKey) -> Int64? { self.value(key).flatMap { Self.integer($0) } }

    static func integer(_ value: PrimusValue) -> Int64? {
        switch value {
        case .int(let value): value
        case .double(let value): Int64(exactly: value)
        default: nil
        }
    }

    func string(_ key: PluginKey) -> String { if case .string(let text)? = self.value(key) { text } else { "" } }

    func payload(_ key: PluginKey) -> PrimusPayload { PrimusPayload(tree: self.value(key) ?? .null, self.coding) }
}

extension MultiplexPacket {
    /// Reads a packet from a tree. Returns `nil` for other values.
    static func read(tree elements: [PrimusValue], _ coding: PrimusCoding) -> MultiplexPacket? {
        guard 3...4 ~= elements.count, let type = TreePluginFields.integer(elements[0]), case .string(let id) = elements[1],
            case .string(let channel) = elements[2]
        else { return nil }
        let payload = elements.count == 4 ? PrimusPayload(tree: elements[3], coding) : .null(coding)
        return MultiplexPacket(type: type, id: id, channel: channel, payload)
    }
}

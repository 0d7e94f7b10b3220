package import RealtimeCoding
package import RealtimeCore

/// Recognizes the packets of plugins among the messages of a connection.
///
/// In JSON, EJSON and MessagePack, a packet is cut into slices, and nothing is decoded. Messages that can't be packets are recognized by their
/// first bytes.
package struct PrimusPluginReader: Sendable {
    package enum Output: Hashable, Sendable {
        /// The message belongs to no plugin.
        case none
        case packet(PrimusPluginPacket)
        /// The message belongs to a plugin, and is invalid.
        case invalid(PrimusPluginError)
    }

    private let plugins: PrimusPluginSet
    private let coding: PrimusCoding
    private let limits: CodingLimits

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - plugins: The plugins that the connection uses.
    ///   - coding: The encoding of the values.
    ///   - limits: The limits on the messages. A message that exceeds them isn't a packet.
    package init(_ plugins: PrimusPluginSet, _ coding: PrimusCoding, limits: CodingLimits = CodingLimits()) {
        self.plugins = plugins
        self.coding = coding
        self.limits = limits
    }

    /// Reads a message.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of the message; valid UTF-8 in JSON and EJSON.
    ///   - kind: The kind of the message.
    package func read(_ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind) -> Output {
        guard !self.plugins.isEmpty else { return .none }
        switch self.coding.form {
        case .json: return kind == .text ? self.readJSON(bytes) : .none
        case .messagePack: return self.readMessagePack(bytes)
        case .tree:
            guard let value = try? self.coding.value(of: TransportMessage(kind, Array(bytes))) else { return .none }
            return self.read(value)
        }
    }

    /// Reads the packet of a plugin inside the packet of another one, such as an event on a channel.
    package func read(_ payload: PrimusPayload) -> Output {
        switch payload.content {
        case .bytes(let bytes): bytes.withUnsafeBytes { self.read($0, self.coding.form == .messagePack ? .binary : .text) }
        case .value(let value): self.read(value)
        }
    }

    /// Reads a message that is decoded already.
    package func read(_ value: PrimusValue) -> Output {
        switch value {
        case .object(let object): TreePluginFields(object, self.coding).packet(of: self.plugins)
        case .array(let elements) where self.plugins.contains(.multiplex):
            MultiplexPacket.read(tree: elements, self.coding).map { .packet(.multiplex($0)) } ?? .none
        default: .none
        }
    }

    private func readJSON(_ bytes: UnsafeRawBufferPointer) -> Output {
        switch bytes.first(where: { $0 > 0x20 }) {
        case UInt8(ascii: "{") where self.plugins != .multiplex:
            // The message of an invalid text is reported where it is decoded.
            (try? JSONPluginFields(bytes, self.coding, limits: self.limits))?.packet(of: self.plugins) ?? .none
        case UInt8(ascii: "[") where self.plugins.contains(.multiplex):
            MultiplexPacket.read(json: bytes, self.coding, limits: self.limits).map { .packet(.multiplex($0)) } ?? .none
        default: .none
        }
    }

    private func readMessagePack(_ bytes: UnsafeRawBufferPointer) -> Output {
        guard let first = bytes.first else { return .none }
        switch first {
        case 0x80...0x8F, 0xDE, 0xDF:
            guard self.plugins != .multiplex, let fields = MessagePackPluginFields(bytes, self.coding) else { return .none }
            return fields.packet(of: self.plugins)
        case 0x93, 0x94, 0xDC, 0xDD:
            guard self.plugins.contains(.multiplex) else { return .none }
            return MultiplexPacket.read(messagePack: bytes, self.coding).map { .packet(.multiplex($0)) } ?? .none
        default: return .none
        }
    }
}

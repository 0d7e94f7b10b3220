package import RealtimeCore

/// The encoding of the messages on a connection, which the handshake selects. The protocol calls it the hub protocol.
package enum HubFormat: Hashable, Sendable, CaseIterable {
    case json, messagePack

    /// The name in the handshake request.
    package var protocolName: String {
        switch self {
        case .json: "json"
        case .messagePack: "messagepack"
        }
    }

    /// The name of the transfer format in the response to a negotiation.
    package var transferFormat: String {
        switch self {
        case .json: "Text"
        case .messagePack: "Binary"
        }
    }

    /// The kind of the WebSocket messages that carry hub messages.
    package var messageKind: TransportMessage.Kind {
        switch self {
        case .json: .text
        case .messagePack: .binary
        }
    }

    /// Creates the format that a handshake request names. The letter case is ignored, as in ASP.NET Core.
    package init?(protocolName: String) {
        let name = protocolName.lowercased()
        guard let format = Self.allCases.first(where: { $0.protocolName == name }) else { return nil }
        self = format
    }
}

/// A value in a message that isn't decoded yet: the arguments of an invocation as an array, an item of a stream, or a result.
///
/// It is decoded where the application waits for it, not where messages are received.
package struct HubPayload: Hashable, Sendable {
    package var format: HubFormat
    /// One value in the encoding of `format`.
    package var bytes: [UInt8]

    package init(_ format: HubFormat, _ bytes: [UInt8]) {
        self.format = format
        self.bytes = bytes
    }

    /// The value `null`, or `nil` in MessagePack.
    package static func null(_ format: HubFormat) -> HubPayload {
        switch format {
        case .json: HubPayload(.json, Array("null".utf8))
        case .messagePack: HubPayload(.messagePack, [0xC0])
        }
    }

    /// Whether the value is `null`.
    package var isNull: Bool { self.bytes == Self.null(self.format).bytes }
}

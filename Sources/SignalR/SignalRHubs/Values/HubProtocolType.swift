public import RealtimeCoding
package import SignalRWire

/// The encoding of the messages on a connection, with the coders for the application's values.
///
/// The values have the forms that .NET's serializers use by default. In JSON, a `Date` is an ISO 8601 text with up to seven digits after the
/// second, `Data` is a Base64 text, `URL` and `UUID` are texts, and a `Decimal` is a number. In MessagePack, the names of properties begin
/// with a capital letter and are read in any case, a `Date` is a timestamp, `Data` is binary, and `URL`, `UUID` and `Decimal` are texts. A `Date`
/// is also read from the form of a `DateTimeOffset` of .NET, which a parameter of this type wants; see <doc:CallsAndStreams>.
public struct HubProtocolType: Sendable {
    package let coder: HubValueCoder

    package init(_ coder: HubValueCoder) {
        self.coder = coder
    }

    /// JSON, with the forms that .NET uses by default.
    public static let json = HubProtocolType(HubValueCoder(.json))
    /// MessagePack, with the forms that .NET uses by default.
    public static let messagePack = HubProtocolType(HubValueCoder(.messagePack))

    /// JSON with other settings.
    ///
    /// - Parameters:
    ///   - encoder: The encoder for arguments, the results of handlers and the items of streams to the server.
    ///   - decoder: The decoder for results, the arguments of handlers and the items of streams from the server.
    public static func json(_ encoder: JSONValueEncoder, _ decoder: JSONValueDecoder) -> HubProtocolType {
        HubProtocolType(HubValueCoder(encoder, decoder))
    }

    /// MessagePack with other settings, such as unchanged names of properties.
    ///
    /// - Parameters:
    ///   - encoder: The encoder for arguments, the results of handlers and the items of streams to the server.
    ///   - decoder: The decoder for results, the arguments of handlers and the items of streams from the server.
    public static func messagePack(_ encoder: MessagePackEncoder, _ decoder: MessagePackDecoder) -> HubProtocolType {
        HubProtocolType(HubValueCoder(encoder, decoder))
    }
}

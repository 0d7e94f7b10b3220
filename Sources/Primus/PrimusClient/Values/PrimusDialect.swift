public import PrimusWire

/// The language of a client on a connection: the transformer, the parser and the heartbeat.
public struct PrimusDialect: Hashable, Sendable {
    /// The way in which packets travel.
    public var transformer: PrimusTransformerKind
    /// The encoding of values.
    public var parser: PrimusParserKind
    /// Who sends the pings of the heartbeat; `nil` if it isn't known, and the client adapts to what the server does.
    public var heartbeat: PrimusSpec.Heartbeat?
    /// The version of the server, such as `8.0.9`; `nil` if it isn't known.
    public var version: String?

    /// Creates a description of a connection, for a preview or a test of your code.
    public init(
        transformer: PrimusTransformerKind, parser: PrimusParserKind, heartbeat: PrimusSpec.Heartbeat? = nil, version: String? = nil
    ) {
        (self.transformer, self.parser, self.heartbeat, self.version) = (transformer, parser, heartbeat, version)
    }
}

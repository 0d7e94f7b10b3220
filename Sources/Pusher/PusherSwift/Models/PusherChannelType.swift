/// The kind of a channel, which follows from its name.
public enum PusherChannelType: Sendable {
    /// A private channel, which requires authorization.
    case `private`
    /// A presence channel, which requires authorization and has members.
    case presence
    /// A public channel.
    case normal

    /// Determines the kind of a channel.
    ///
    /// - Parameter name: The name of the channel.
    public init(name: String) {
        switch name.prefix(while: { $0 != "-" }) {
        case "presence": self = .presence
        case "private": self = .private
        default: self = .normal
        }
    }

    /// Returns the kind of a channel.
    ///
    /// - Parameter name: The name of the channel.
    public static func type(forName name: String) -> PusherChannelType { PusherChannelType(name: name) }

    /// Returns whether a channel is a presence channel.
    ///
    /// - Parameter name: The name of the channel.
    public static func isPresenceChannel(name: String) -> Bool { PusherChannelType(name: name) == .presence }
}

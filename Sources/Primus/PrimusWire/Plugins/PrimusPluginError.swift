/// The reason why a packet of a plugin can't be read or written.
///
/// Neither ends a connection, and neither concerns other packets.
@usableFromInline
package enum PrimusPluginError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Primus keeps the name of the event for itself: the peer would drop the event.
    case reservedEvent(String)
    /// A packet has the form of a plugin's packet, but a part of it is missing or invalid.
    case invalidPacket(plugin: String, problem: String)
    /// The packet belongs to an acknowledgement, a response, a channel or a stream that isn't known, or is no longer.
    case unknown(plugin: String, String)
    /// A limit on what the peer may open was reached.
    case limitReached(plugin: String, String)

    @usableFromInline package var description: String {
        switch self {
        case .reservedEvent(let name): "Primus reserves the event name \"\(name)\", so the peer would drop the event. Use another name."
        case .invalidPacket(let plugin, let problem): "A packet of the plugin \(plugin) is invalid: \(problem)."
        case .unknown(let plugin, let subject): "A packet of the plugin \(plugin) was ignored: \(subject)."
        case .limitReached(let plugin, let limit): "A packet of the plugin \(plugin) was ignored, because of a limit: \(limit)."
        }
    }
}

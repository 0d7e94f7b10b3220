package import PrimusWire
package import RealtimeCore

/// An event of a plugin, as a session delivers it.
package enum PrimusPluginEvent: Sendable {
    /// An event of primus-emitter or primus-emit.
    ///
    /// - Parameters:
    ///   - id: The ID of the acknowledgement for which the server waits; `nil` if it doesn't.
    ///   - connection: The connection on which the event arrived.
    case event(name: String, PrimusArguments, id: Int64?, connection: ConnectionID)
    /// A message on a channel or a stream.
    case message(PrimusPayload)
    /// A request of primus-responder.
    case request(PrimusPayload, id: String, connection: ConnectionID)

    /// The number of bytes that the event holds.
    package var size: Int {
        switch self {
        case .event(_, let arguments, _, _): arguments.size
        case .message(let payload), .request(let payload, _, _): payload.size
        }
    }
}

package import RealtimeCore

/// An event that a session delivers to its consumers.
package enum PrimusEvent: Sendable {
    case update(PrimusUpdate)
    case message(PrimusMessage)
    /// A message before the transforms.
    case untransformed(PrimusIncoming)
    /// A value to send, before the transforms.
    case outgoing(PrimusOutgoing)
    case trace(PrimusTrace)
    /// A place among the events of the client for JavaScript, with a number of the consumer's.
    case mark(UInt64)
    /// A message that was sent or received, without secrets.
    case frame(TracedFrame)
    /// An event of a plugin.
    case plugin(PrimusPluginEvent)

    /// The size of the packet of a message, in bytes.
    var packetSize: Int {
        switch self {
        case .message(let message): message.raw.bytes.count
        case .untransformed(let incoming): incoming.message.raw.bytes.count
        case .trace(.incomingData(let packet)), .trace(.outgoingData(let packet)): packet.bytes.count
        case .update, .outgoing, .trace, .mark, .frame, .plugin: 0
        }
    }

    /// The update, if this is one.
    var update: PrimusUpdate? { if case .update(let update) = self { update } else { nil } }
    /// The state to which the client has changed, if this is a change.
    var state: PrimusState? { if case .update(.state(let state)) = self { state } else { nil } }

    /// The number of bytes that the event holds, if it is a message or an event of a plugin.
    var size: Int {
        switch self {
        case .message(let message): message.raw.bytes.count
        case .untransformed(let incoming): incoming.message.raw.bytes.count
        case .plugin(let event): event.size
        default: 0
        }
    }

    /// The error that the event reports for the first time. A loss is the start of `reconnecting` or the end in `closed`.
    var error: PrimusError? {
        switch self.update {
        case .state(.closed(let error)): error
        case .reconnecting(let error), .attemptFailed(let error), .error(let error): error
        default: nil
        }
    }
}

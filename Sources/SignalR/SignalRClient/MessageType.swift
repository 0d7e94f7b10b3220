/// The type of a message of the hub protocol.
public enum MessageType: Int, Codable, Sendable {
    case invocation = 1
    case streamItem, completion, streamInvocation, cancelInvocation, ping, close, ack
    case sequence = 9
}

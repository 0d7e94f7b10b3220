package import RealtimeCore

/// Encodes hub messages, including their separators or lengths.
package enum HubMessageWriter {
    /// Returns a framed message, ready to be sent.
    package static func message(_ message: HubMessage, _ format: HubFormat) -> TransportMessage {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(self.estimatedSize(message))
        self.append(message, format, to: &bytes)
        return TransportMessage(format.messageKind, bytes)
    }

    /// Encodes an invocation that has no streams.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - id: The ID of the call; `nil` if the peer doesn't respond.
    ///   - format: The format of the message.
    ///   - arguments: Appends the arguments as an array.
    /// - Throws: The error that `arguments` throws.
    package static func invocation(
        of target: String, id: String? = nil, _ format: HubFormat, _ arguments: (inout [UInt8]) throws -> Void
    ) rethrows -> TransportMessage {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        switch format {
        case .json:
            try JSONHubMessage.appendInvocation(of: target, id: id, to: &bytes, arguments)
            bytes.append(HubHandshake.separator)
        case .messagePack: try MessagePackHubMessage.appendInvocation(of: target, id: id, to: &bytes, arguments)
        }
        return TransportMessage(format.messageKind, bytes)
    }

    /// Appends a framed message.
    ///
    /// - Parameters:
    ///   - message: The message. Its values must be in the same format.
    ///   - format: The format of the connection.
    ///   - bytes: The bytes to append to.
    package static func append(_ message: HubMessage, _ format: HubFormat, to bytes: inout [UInt8]) {
        switch format {
        case .json:
            JSONHubMessage.append(message, to: &bytes)
            bytes.append(HubHandshake.separator)
        case .messagePack: MessagePackHubMessage.append(message, to: &bytes)
        }
    }

    /// A size that most messages don't exceed, in either format.
    private static func estimatedSize(_ message: HubMessage) -> Int {
        switch message {
        case .invocation(let invocation), .streamInvocation(let invocation):
            96 + invocation.target.utf8.count + invocation.arguments.bytes.count
        case .streamItem(_, let payload), .completion(_, .result(let payload)): 64 + payload.bytes.count
        case .completion(_, .error(let error)), .close(let error?, _): 64 + error.utf8.count
        default: 40
        }
    }
}

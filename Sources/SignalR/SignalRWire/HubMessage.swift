/// A message of the hub protocol, after the handshake.
///
/// Source: HubProtocol.md of ASP.NET Core, "Overview" and "Encodings".
package enum HubMessage: Hashable, Sendable {
    /// Calls a method of the peer. Without an ID, the peer doesn't respond.
    case invocation(HubInvocation)
    /// Calls a method that responds with a stream. Always has an ID.
    case streamInvocation(HubInvocation)
    /// An item of a stream, in either direction.
    case streamItem(id: String, HubPayload)
    /// The end of an invocation or of a stream, in either direction.
    case completion(id: String, HubCompletion)
    case cancelInvocation(id: String)
    case ping
    /// The end of the connection.
    ///
    /// - Parameter allowReconnect: Whether a client may reconnect automatically.
    case close(error: String?, allowReconnect: Bool)
    /// The number of the last message that was received; for stateful reconnect.
    case ack(sequenceID: UInt64)
    /// The number of the message that follows; for stateful reconnect.
    case sequence(sequenceID: UInt64)

    /// Whether the message is counted, stored and sent again by stateful reconnect.
    package var isSequenced: Bool {
        switch self {
        case .invocation, .streamInvocation, .streamItem, .completion, .cancelInvocation: true
        case .ping, .close, .ack, .sequence: false
        }
    }

    /// The numbers of the types whose messages are counted; see ``isSequenced``.
    package static let sequencedTypes = 1...5
}

/// A call of a method.
package struct HubInvocation: Hashable, Sendable {
    /// The ID to respond to, or `nil` if the caller expects no response.
    package var id: String?
    package var target: String
    /// The arguments as an array, without those that are streams.
    package var arguments: HubPayload
    /// The IDs of the streams from the caller, in the order of the method's parameters.
    package var streamIDs: [String]
    /// The headers, which .NET and JavaScript clients leave empty.
    package var headers: [String: String]

    package init(id: String?, target: String, arguments: HubPayload, streamIDs: [String] = [], headers: [String: String] = [:]) {
        self.id = id
        self.target = target
        self.arguments = arguments
        self.streamIDs = streamIDs
        self.headers = headers
    }
}

/// The result of an invocation or the end of a stream.
///
/// Servers end a call of a method that returns nothing either without a result or with the result `null`, so a call that expects nothing
/// accepts both, and a call that expects a value takes ``void`` for ``HubPayload/null(_:)``.
package enum HubCompletion: Hashable, Sendable {
    /// The message has no result: the method returned nothing, or the stream ended.
    case void
    /// The message has a result, which can be `null`.
    case result(HubPayload)
    /// The method or the stream failed with this message.
    case error(String)
}

/// The reason why one message is invalid. The other messages on the connection aren't affected.
package struct HubMessageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A description of the problem, such as `missing "target"`.
    package var problem: String
    /// The number of the message's type, if it could be read.
    package var type: Int?
    /// The ID in the message, if it could be read. The invocation with this ID fails, or, if the message is an invocation, the peer needs
    /// a response.
    package var invocationID: String?

    package init(_ problem: String, type: Int? = nil, invocationID: String? = nil) {
        self.problem = problem
        self.type = type
        self.invocationID = invocationID
    }

    package var description: String { self.problem }
}

/// The reason why messages can't be told apart any more. The connection must end.
package struct HubFramingError: Error, Hashable, Sendable, CustomStringConvertible {
    package var problem: String
    /// Whether a message exceeds the limit of the receiver.
    package var isTooLarge: Bool

    package init(_ problem: String, isTooLarge: Bool = false) { (self.problem, self.isTooLarge) = (problem, isTooLarge) }

    package var description: String { self.problem }
}

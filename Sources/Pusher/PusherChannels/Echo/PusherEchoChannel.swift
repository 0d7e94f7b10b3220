import PusherWire
public import RealtimeCore
public import RealtimeCoding

/// A channel with the conventions of Laravel's broadcasting.
///
/// You get a channel from a ``PusherEcho``. Its sequences continue, finish and can be iterated again like the sequences of ``channel``.
public struct PusherEchoChannel: Sendable {
    /// The name of the event with which Laravel broadcasts notifications.
    private static let notification = #"Illuminate\Notifications\Events\BroadcastNotificationCreated"#

    /// The channel, with the state of its subscription.
    public let channel: PusherChannel
    private let echo: PusherEcho

    init(_ channel: PusherChannel, _ echo: PusherEcho) {
        self.channel = channel
        self.echo = echo
    }

    // MARK: Events

    /// Returns the events with a name, from now on.
    ///
    /// - Parameters:
    ///   - event: The name of the event's class, or a complete name that is preceded by a dot; see ``PusherEcho/eventName(_:)``.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func listen(_ event: String, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.channel.events(self.echo.eventName(event), buffer: buffer)
    }

    /// Returns the decoded data of the events with a name, from now on.
    ///
    /// Events that can't be decoded are skipped and reported, as in ``PusherChannel/events(_:as:with:buffer:)``.
    ///
    /// - Parameters:
    ///   - event: The name of the event's class, or a complete name that is preceded by a dot; see ``PusherEcho/eventName(_:)``.
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func listen<Value: Decodable>(
        _ event: String, as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard
    ) -> PusherDecodedEvents<Value> {
        self.channel.events(self.echo.eventName(event), as: type, with: decoder, buffer: buffer)
    }

    /// Returns all events of the channel from now on, except events of the protocol.
    ///
    /// The names of the events are as you would pass them to ``listen(_:buffer:)``: without the namespace of the application, or preceded by a
    /// dot if they have another one.
    ///
    /// - Parameter buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func listenToAll(buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        // The closure doesn't capture the echo: the client has the closure, and would never be released.
        let prefix = self.echo.eventPrefix
        return self.echo.client.sequence(of: .events(channel: self.channel.name, name: nil), buffer, .connection) { update in
            guard case .event(let event) = update, !EventName.isReserved(event.name) else { return nil }
            return PusherEvent(
                name: PusherEcho.shortName(of: event.name, prefix: prefix), channel: event.channel, data: event.data, userID: event.userID)
        }
    }

    /// Returns the notifications that the application broadcasts on the channel, from now on.
    ///
    /// - Parameter buffer: The policy for notifications that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the notifications.
    public func notifications(buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.channel.events(Self.notification, buffer: buffer)
    }

    /// Returns the decoded notifications that the application broadcasts on the channel, from now on.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for notifications that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the notifications.
    public func notifications<Value: Decodable>(
        as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard
    ) -> PusherDecodedEvents<Value> {
        self.channel.events(Self.notification, as: type, with: decoder, buffer: buffer)
    }

    // MARK: Whispers

    /// Sends a client event to the other subscribers of the channel; see ``PusherChannel/trigger(_:_:)-(_,Encodable)``.
    ///
    /// - Parameters:
    ///   - event: The name of the event without `client-`.
    ///   - data: The data of the event, which is encoded as JSON on the calling thread; at most 10 KiB.
    /// - Throws: The errors of ``PusherChannel/trigger(_:_:)-(_,Encodable)``.
    public func whisper(_ event: String, _ data: some Encodable) throws(PusherError) {
        try self.channel.trigger("client-\(event)", data)
    }

    /// Returns the client events with a name that other subscribers send, from now on.
    ///
    /// - Parameters:
    ///   - event: The name of the events without `client-`.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func listenForWhisper(_ event: String, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.channel.events("client-\(event)", buffer: buffer)
    }

    // MARK: Presence

    /// A sequence of the members of a presence channel: the current list if the channel is subscribed, and the list after each further
    /// subscription, such as that after a reconnect.
    ///
    /// For the list after each change, use ``PusherChannel/memberLists``.
    public var here: EventSequence<PusherMembers> {
        self.echo.client.sequence(
            of: .members(channel: self.channel.name), .standard, .connection,
            startingWith: { [name = self.channel.name] session in
                guard let record = session.channels[name], record.kind.isPresence, record.subscription.state == .subscribed else {
                    return nil
                }
                return record.members
            }
        ) { update in
            switch update {
            case .members(_, .subscribed(let members)), .members(_, .resubscribed(let members, _, _)): members
            default: nil
            }
        }
    }

    /// A sequence of the users who join a presence channel from now on.
    ///
    /// Users who joined while the connection was lost are in the next list of ``here``.
    public var joining: EventSequence<PusherMember> {
        self.echo.client.sequence(of: .members(channel: self.channel.name), .standard, .connection) {
            if case .members(_, .joined(let member)) = $0 { member } else { nil }
        }
    }

    /// A sequence of the users who leave a presence channel from now on.
    ///
    /// Users who left while the connection was lost are missing in the next list of ``here``.
    public var leaving: EventSequence<PusherMember> {
        self.echo.client.sequence(of: .members(channel: self.channel.name), .standard, .connection) {
            if case .members(_, .left(let member)) = $0 { member } else { nil }
        }
    }
}

extension PusherEchoChannel: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("channel", self.channel)] }
}

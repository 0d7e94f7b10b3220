public import RealtimeCoding
import PusherWire
public import RealtimeCore

/// A handle to a channel of a client.
///
/// You get a channel from ``PusherClient/subscribe(_:)``. Handles for the same name are interchangeable, and releasing a handle
/// doesn't unsubscribe. A handle keeps its client alive.
///
/// You can call every method from any thread, actor, or task.
public final class PusherChannel: Sendable {
    /// The name of the channel.
    public let name: String
    /// The kind of the channel, which follows from the prefix of its name.
    public let kind: PusherChannelKind
    let client: PusherClient
    /// The client's record of the channel when this handle was made, which saves a lookup by name.
    private let id: ChannelID

    init(_ name: String, _ client: PusherClient, id: ChannelID) {
        self.name = name
        self.kind = ChannelName.kind(of: name)
        self.client = client
        self.id = id
    }

    // MARK: Events

    /// Returns the channel's events from now on.
    ///
    /// The sequence continues across reconnects, but doesn't contain events that were published while the client wasn't connected:
    /// the server doesn't store events. It finishes when the channel is unsubscribed, when the client is disconnected, or when the
    /// connection ends in a way that the client doesn't recover from. If the client isn't subscribed to the channel, the sequence
    /// is empty.
    ///
    /// Cancelling the task of a loop ends the loop; events that it hasn't received remain in the sequence. You can iterate a stored sequence
    /// again: the new loop takes over.
    ///
    /// The protocol's own events arrive under the names that Pusher's client for JavaScript gives them, but only if you ask for them by name:
    /// `pusher:subscription_succeeded`, `pusher:subscription_error`, `pusher:subscription_count`, `pusher:member_added` and
    /// `pusher:member_removed`. The event `pusher:cache_miss` of a cache channel is also one of all events.
    ///
    /// To receive decoded values instead of events, use ``events(_:as:with:buffer:)``. For the events of several channels together with
    /// changes of their states, in one order, use ``PusherClient/updates(includingFrames:buffer:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events of the channel.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func events(_ name: String? = nil, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.client.eventSequence(.events(channel: self.name, name: name), buffer)
    }

    /// Returns the decoded data of the channel's events with a name, from now on.
    ///
    /// ```swift
    /// for await price in prices.events("price", as: Price.self) {
    ///     print(price.symbol, price.value)
    /// }
    /// ```
    /// The data is decoded in the task that iterates over the sequence. If an event can't be decoded, the sequence skips it, reports a
    /// ``PusherError`` with the code ``PusherError/Code/decodingFailed`` to ``PusherClient/errors``, and continues with the next event.
    ///
    /// The sequence continues, finishes and can be iterated again as with ``events(_:buffer:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func events<Value: Decodable>(
        _ name: String, as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard
    ) -> PusherDecodedEvents<Value> {
        self.client.decodedEvents(.events(channel: self.name, name: name), decoder, buffer)
    }

    /// Sends a client event to the other subscribers of the channel.
    ///
    /// If the channel isn't subscribed yet, the event is queued and sent when the subscription succeeds. Events are sent in the order
    /// of the calls. This method doesn't wait: the server doesn't acknowledge client events, and reports rejected events through
    /// ``PusherClient/errors``, with the code ``PusherError/Code/clientEventRejected``. Events that are triggered while the connection is
    /// lost are queued as well; events that were sent shortly before a loss may be lost. If the subscription fails, the channel is
    /// unsubscribed, or ``PusherClient/disconnect()`` is called, queued events are dropped.
    ///
    /// With a ``PusherConfiguration/clientEventLimit``, which clients of a Pusher cluster have by default, events that exceed it are queued
    /// as well, or this method throws.
    ///
    /// - Parameters:
    ///   - event: The name of the event, which must start with `client-`.
    ///   - data: The data of the event, which is encoded as JSON on the calling thread; at most
    ///     ``PusherConfiguration/eventDataLimit`` bytes, by default 10 KiB.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/clientEventsNotAllowed`` if the channel is neither private nor presence, or is encrypted,
    ///   - ``PusherError/Code/invalidEventName`` if the name doesn't start with `client-`, or is too long,
    ///   - ``PusherError/Code/encodingFailed`` if `data` can't be encoded,
    ///   - ``PusherError/Code/dataTooLarge`` if the encoded data exceeds the limit,
    ///   - ``PusherError/Code/notSubscribed`` if the channel was unsubscribed,
    ///   - ``PusherError/Code/disconnected`` after ``PusherClient/disconnect()``, until ``PusherClient/connect()`` is called,
    ///   - ``PusherError/Code/queueFull`` if ``PusherConfiguration/clientEventQueueLimit`` events are queued already,
    ///   - ``PusherError/Code/rateLimited`` if the event exceeds a ``PusherConfiguration/clientEventLimit`` whose excess events fail.
    ///
    ///   If the subscription has failed, its error is thrown.
    public func trigger(_ event: String, _ data: some Encodable) throws(PusherError) {
        guard self.kind.allowsClientEvents else { throw .clientEventsNotAllowed(self.name, self.kind) }
        guard EventName.isClientEvent(event) else {
            throw PusherError(
                .invalidEventName, "Invalid client event name \"\(event)\": it must start with \"client-\", such as client-\(event).",
                channel: self.name)
        }
        // Encodes directly into the message, and outside of any lock: `data` may run code of the application.
        var bytes = PusherFrames.beginClientEvent(event, channel: self.name, capacity: 192)
        let start = bytes.count
        do {
            try JSONValueEncoder().encode(data, to: &bytes)
        } catch {
            throw .encodingFailed(event, error, channel: self.name)
        }
        let size = bytes.count - start
        try self.client.trigger(PusherFrames.endClientEvent(&bytes), event, dataSize: size, channel: self.name, id: self.id)
    }

    // MARK: Subscription

    /// The current state of the subscription.
    public var state: PusherSubscriptionState { self.client.withRecord(self.name) { $0?.subscription.publicState ?? .unsubscribed } }

    /// A sequence of the current ``state``, followed by every state that it changes to.
    ///
    /// No change is missing or repeated between the current state and the first change. The sequence continues across reconnects. It
    /// finishes when the channel is unsubscribed, after the state ``PusherSubscriptionState/unsubscribed``; when the client is disconnected;
    /// or when the connection ends in a way that the client doesn't recover from. If the client isn't subscribed to the channel, the
    /// sequence contains only the state ``PusherSubscriptionState/unsubscribed``.
    ///
    /// Every access returns a new sequence, which starts with the state at that time; a stored sequence that is iterated again continues
    /// with the states that the earlier loop hasn't received. Cancelling the task of a loop ends the loop, and doesn't unsubscribe.
    public var states: EventSequence<PusherSubscriptionState> {
        self.client.sequence(of: .subscription(channel: self.name), .standard, .connection, startingWith: self.subscriptionState) {
            if case .subscription(_, let state) = $0 { state } else { nil }
        }
    }

    /// A sequence of the changes of ``state`` from now on, with the states before and after each change.
    ///
    /// The sequence continues, finishes and can be iterated again like ``states``. If the client isn't subscribed to the channel, the
    /// sequence is empty.
    public var stateChanges: EventSequence<PusherStateChange<PusherSubscriptionState>> {
        self.client.stateChanges(of: .subscription(channel: self.name), .connection, from: self.subscriptionState) {
            if case .subscription(_, let state) = $0 { state } else { nil }
        }
    }

    private func subscriptionState(_ session: borrowing PusherSession) -> PusherSubscriptionState {
        session.channels[self.name]?.subscription.publicState ?? .unsubscribed
    }

    /// Waits until the channel is subscribed.
    ///
    /// Returns immediately if the channel is already subscribed. This method doesn't connect: call ``PusherClient/connect()`` first.
    ///
    /// If the task is cancelled, the call throws immediately, with the code ``PusherError/Code/cancelled``. The client isn't affected: it
    /// keeps subscribing, or stays subscribed, until you call ``unsubscribe()``.
    ///
    /// - Parameter limit: The maximum time to wait. The default is 30 seconds.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/notSubscribed`` if the channel was unsubscribed before the call,
    ///   - ``PusherError/Code/disconnected`` if the channel is unsubscribed or the client is disconnected during the call,
    ///   - ``PusherError/Code/rejected``, ``PusherError/Code/failed`` or ``PusherError/Code/invalidConfiguration`` if the client
    ///     can't connect,
    ///   - ``PusherError/Code/timedOut`` if the time limit expires,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    ///
    ///   If the subscription fails, its error is thrown.
    public func subscribed(within limit: Duration = .seconds(30)) async throws(PusherError) {
        try await self.client.awaitSubscribed(self.name, within: limit)
    }

    /// Unsubscribes from the channel. Its sequences finish with `EndReason.ended` after their buffered events.
    ///
    /// If the channel is unsubscribed already, this method has no effect.
    public func unsubscribe() { self.client.unsubscribe(self.name) }

    /// The filter with which the channel is subscribed, or `nil` if it has none; see ``PusherClient/subscribe(_:filter:)``.
    public var filter: PusherFilter? { self.client.withRecord(self.name) { $0?.subscription.filter } }

    /// A sequence of notices that events may be missing, one after each time that an interrupted subscription was restored.
    ///
    /// The sequence continues across reconnects, and finishes when the channel is unsubscribed, when the client is disconnected, or when the
    /// connection ends in a way that the client doesn't recover from. If the client isn't subscribed to the channel, the sequence is empty.
    ///
    /// In ``PusherClient/updates(includingFrames:buffer:)``, a gap precedes the first event after the interruption.
    public var gaps: EventSequence<PusherGap> {
        self.client.sequence(of: .gaps(channel: self.name), .standard, .connection) { if case .gap(let gap) = $0 { gap } else { nil } }
    }

    /// The number of connections that are subscribed to the channel, as the server reported it last; `nil` before the first report.
    ///
    /// Servers report it if the app's settings ask for it, and not for presence channels.
    public var subscriptionCount: Int? { self.client.withRecord(self.name) { $0?.subscriptionCount } }

    /// A sequence of the current ``subscriptionCount``, if it is known, followed by every number that the server reports.
    ///
    /// The sequence continues, finishes and can be iterated again like ``gaps``.
    public var subscriptionCounts: EventSequence<Int> {
        self.client.sequence(
            of: .subscriptionCounts(channel: self.name), .standard, .connection,
            startingWith: { [name] session in session.channels[name]?.subscriptionCount }
        ) {
            if case .subscriptionCount(_, let count) = $0 { count } else { nil }
        }
    }

    // MARK: Presence

    /// The members of a presence channel; empty for other channels, and until the channel is subscribed.
    ///
    /// When the connection is lost, the list stays as it was until the channel is subscribed again, so that a user interface doesn't have to
    /// show an empty room in between. It is empty after ``unsubscribe()`` and ``PusherClient/disconnect()``, and after a subscription has
    /// failed for good.
    public var members: PusherMembers { self.client.withRecord(self.name) { $0?.members ?? PusherMembers() } }

    /// A sequence of the current ``members``, followed by the complete list after each change.
    ///
    /// No change is missing or repeated between the current list and the first change. After a lost connection, the list stays as it was
    /// until the channel is subscribed again. The lists share their members, so that a long list costs little.
    ///
    /// The sequence continues across reconnects. It finishes when the channel is unsubscribed, when the client is disconnected, or when
    /// the connection ends in a way that the client doesn't recover from. If the client isn't subscribed to the channel, the sequence
    /// contains only an empty list. For the users who joined or left, use ``memberChanges``.
    public var memberLists: EventSequence<PusherMembers> {
        self.client.sequence(
            of: .memberLists(channel: self.name), .standard, .connection,
            startingWith: { [name] session in session.channels[name]?.members ?? PusherMembers() }
        ) {
            if case .members(_, .subscribed(let members)) = $0 { members } else { nil }
        }
    }

    /// A sequence of the changes of ``members`` from now on.
    ///
    /// It contains the complete list after each subscription, with the users who joined or left while the connection was lost. A user with
    /// several connections joins and leaves once. For the current list and every list after it, use ``memberLists``.
    ///
    /// The sequence continues across reconnects. It finishes when the channel is unsubscribed, when the client is disconnected, or when the
    /// connection ends in a way that the client doesn't recover from.
    public var memberChanges: EventSequence<PusherMemberChange> {
        self.client.sequence(of: .members(channel: self.name), .standard, .connection) {
            if case .members(_, let change) = $0 { change } else { nil }
        }
    }
}

import RealtimeJSON
import PusherWire
public import RealtimeCore

/// A channel that is wanted, or was.
///
/// It is a handle: two of the same channel are the same channel, and dropping one changes nothing. It keeps the client
/// alive.
public final class PusherChannel: Sendable {
    /// Its name.
    public let name: String
    /// What the name says about it.
    public let kind: PusherChannelKind
    private let client: PusherClient
    /// Where the client has it, as long as it is wanted without a break.
    private let place: Int

    init(_ name: String, _ client: PusherClient, place: Int) {
        self.name = name
        self.kind = ChannelName.kind(of: name)
        self.client = client
        self.place = place
    }

    // MARK: Events

    /// The channel's events of this name from now on, or all of them, until it is unsubscribed or the connection has
    /// ended for good. Losses of the connection that are mended leave the sequence as it is; events that were
    /// published meanwhile are lost, since the service keeps none.
    ///
    /// - Parameters:
    ///   - name: the events' name; `nil` for all.
    ///   - buffer: what happens to events that nobody looks at for long.
    public func events(_ name: String? = nil, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.client.eventSequence(.events(channel: self.name, name: name), buffer)
    }

    /// Sends an event to the channel's other subscribers. Before the channel is subscribed the event waits; it does
    /// not wait for an answer, since the service gives none: what it refuses comes through ``PusherClient/errors``.
    ///
    /// - Parameters:
    ///   - event: a name that begins with `client-`.
    ///   - data: goes out as JSON.
    ///
    /// It throws ``PusherError/Code/invalidEventName``, ``PusherError/Code/dataTooLarge`` (10 KiB),
    /// ``PusherError/Code/clientEventsNotAllowed`` (on public and encrypted channels),
    /// ``PusherError/Code/notSubscribed``, ``PusherError/Code/queueFull``, ``PusherError/Code/encodingFailed``, and the
    /// error of a subscription that failed.
    public func trigger(_ event: String, _ data: some Encodable) throws(PusherError) {
        guard self.kind.allowsClientEvents else {
            throw PusherError(
                .clientEventsNotAllowed, "\(self.name) takes no events from clients; only private- and presence- channels do.")
        }
        guard EventName.isClientEvent(event) else {
            throw PusherError(.invalidEventName, "The names of clients' events begin with client-, as in client-\(event).")
        }
        if let problem = EventName.validationError(event) { throw PusherError(.invalidEventName, problem) }
        // Straight into the message, outside of any lock: `data` is encoded by its own code.
        var bytes = PusherFrames.beginClientEvent(event, channel: self.name, capacity: 192)
        let start = bytes.count
        do {
            try JSONValueEncoder().encode(data, to: &bytes)
        } catch {
            let what = "The data of \(event) could not be put into JSON: its encoding threw an error of the type \(type(of: error))."
            throw PusherError(.encodingFailed, what, cause: error)
        }
        let size = bytes.count - start
        guard size <= EventName.maximumDataSize else {
            throw PusherError(.dataTooLarge, "The data of \(event) has \(size) bytes; the service takes \(EventName.maximumDataSize).")
        }
        try self.client.trigger(PusherFrames.endClientEvent(&bytes), channel: self.name, hint: self.place)
    }

    // MARK: The subscription

    /// Where the subscription stands.
    public var state: PusherSubscriptionState { self.client.record(self.name) { $0?.machine.publicState ?? .unsubscribed } }

    /// Every change of the subscription from now on, until the channel is unsubscribed or the connection has ended
    /// for good.
    public var states: EventSequence<PusherSubscriptionState> {
        self.client.listen(.subscription(channel: self.name), .standard, .connection) {
            if case .subscription(_, let state) = $0 { state } else { nil }
        }
    }

    /// Waits until the channel is subscribed, and returns at once when it is.
    ///
    /// It throws why the subscription failed; ``PusherError/Code/notSubscribed`` when nobody wants the channel;
    /// ``PusherError/Code/disconnected``, ``PusherError/Code/refused`` or ``PusherError/Code/failed`` when the
    /// connection ends for good; ``PusherError/Code/timedOut``; and ``PusherError/Code/cancelled``. It does not
    /// connect by itself.
    public func subscribed(within limit: Duration = .seconds(30)) async throws(PusherError) {
        try await self.client.awaitSubscribed(self.name, within: limit)
    }

    /// Gives the channel up. Its sequences finish with `EndReason.ended`.
    public func unsubscribe() { self.client.unsubscribe(self.name) }

    // MARK: Presence

    /// Who is there: of a presence channel that is subscribed; empty for any other.
    public var members: PusherMembers { self.client.record(self.name) { $0?.members ?? PusherMembers() } }

    /// Who comes and goes from now on, and the whole list after each subscription. A user is announced once, however
    /// many connections that user has.
    public var memberChanges: EventSequence<PusherMemberChange> {
        self.client.listen(.members(channel: self.name), .standard, .connection) {
            if case .members(_, let change) = $0 { change } else { nil }
        }
    }
}

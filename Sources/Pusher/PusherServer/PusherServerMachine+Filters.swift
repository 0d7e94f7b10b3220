import PusherWire
import RealtimeCore
import RealtimeSystem

/// Filters, and events that are sent as differences.
extension PusherServerMachine {
    /// Sets a subscription that isn't one of a member.
    mutating func setSubscription(_ id: ConnectionID, _ name: ByteString, _ filter: PusherFilter?, number: UInt64) {
        self.connections[id]?.established?.subscriptions[name] =
            filter.map { .filtered($0, number: number) } ?? .subscribed(number: number)
    }

    /// Whether a subscriber receives an event with these tags.
    func passesFilter(of id: ConnectionID, on name: ByteString, _ tags: EventTags?) -> Bool {
        guard self.app.allowsFilters, case .filtered(let filter, _) = self.connections[id]?.established?.subscriptions[name] else {
            return true
        }
        return filter.matches(tags)
    }

    // MARK: Differences

    /// The largest number of differences between two complete events, which is that of sockudo's default settings.
    private static let deltaLimit = 10

    mutating func enableDeltaCompression(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        // Like sockudo, which confirms the request with version 7 as well, and then sends complete events.
        if self.connections[id]?.isVersion2 == true { self.connections[id]?.established?.deltas = DeltaBases() }
        self.send(PusherFrames.deltaCompressionEnabled(), to: id, &effects)
    }

    /// Returns the frame of an event as it is sent to a subscriber: as a difference, if the subscriber has requested it and knows an earlier
    /// event of the same name.
    mutating func compressed(
        _ message: WebSocketMessage, _ event: String, on name: ByteString, for id: ConnectionID
    ) -> WebSocketMessage {
        guard self.app.allowsDeltaCompression, let bases = self.connections[id]?.established?.deltas,
            !ChannelName.kind(of: name.string).isEncrypted
        else { return message }
        // The client compares what it receives.
        let message = PusherFrames.version2(message)
        let earlier = bases.base(event, group: name.string)
        let sequence = (earlier?.sequence ?? -1) + 1
        var base = DeltaBases.Base(event, group: name.string, sequence: sequence, text: message.bytes)
        var result = PusherFrames.sequenced(message, sequence)
        // Like sockudo, which sends the first two events completely.
        if sequence > 1, let earlier, let text = earlier.text, earlier.deltaCount < Self.deltaLimit,
            case let delta = FossilDelta.make(message.bytes, from: text), delta.count < message.bytes.count
        {
            base.deltaCount = earlier.deltaCount + 1
            result = PusherFrames.delta(event, channel: name.string, delta, sequence: sequence, base: earlier.sequence)
        }
        self.connections[id]?.established?.deltas?.set(base)
        return result
    }
}

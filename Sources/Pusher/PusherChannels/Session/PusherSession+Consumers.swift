import RealtimeCore

/// The consumers of updates.
extension PusherSession {
    /// The updates that a consumer receives.
    enum Topic: Sendable {
        case states, retryDelays, errors
        /// All updates, and all frames if requested.
        case updates(frames: Bool)
        /// All frames, received and sent, without secrets.
        case redactedFrames
        /// All received frames, and all updates apart from events. Of these only the decrypted ones, which differ from their frames.
        case receivedFrames
        case userStates, watchlist
        case userEvents(name: String?)
        /// Events of one channel, or of all channels; with one name, or with any name.
        case events(channel: String?, name: String?)
        case subscription(channel: String)
        case gaps(channel: String)
        case subscriptionCounts(channel: String)
        case members(channel: String)
        /// The complete list of a channel's members after each change, as `.members(channel:, .subscribed(list))`.
        case memberLists(channel: String)
    }

    mutating func addConsumer(_ id: ConsumerID, to topic: Topic, _ effects: inout Effects<Self>) {
        switch topic {
        case .states: self.consumers.add(id, to: .states, &effects.routes)
        case .retryDelays: self.consumers.add(id, to: .retryDelays, &effects.routes)
        case .errors: self.consumers.add(id, to: .errors, &effects.routes)
        case .redactedFrames: self.consumers.add(id, to: .redactedFrames, &effects.routes)
        case .receivedFrames:
            self.consumers.add(id, to: .updates, &effects.routes)
            self.consumers.add(id, to: .receivedFrames, &effects.routes)
        case .updates(let frames):
            self.consumers.add(id, to: .updates, &effects.routes)
            self.events.addClientConsumer(id, name: nil, &effects.routes)
            if frames { self.consumers.add(id, to: .frames, &effects.routes) }
        case .userStates: self.user.addConsumer(id, to: .states, &effects.routes)
        case .watchlist: self.user.addConsumer(id, to: .watchlist, &effects.routes)
        case .userEvents(let name): self.events.addUserConsumer(id, name: name, &effects.routes)
        case .events(nil, let name): self.events.addClientConsumer(id, name: name, &effects.routes)
        case .events(let channel?, let name):
            guard let channel = self.channel(channel, of: id, &effects) else { return }
            self.events.addConsumer(id, of: channel, name: name, &effects.routes)
        case .gaps(let channel):
            guard let channel = self.channel(channel, of: id, &effects) else { return }
            self.recovery.addConsumer(id, of: channel, &effects.routes)
        case .subscription(let channel): self.addConsumer(id, of: channel, to: \.states, &effects)
        case .subscriptionCounts(let channel): self.addConsumer(id, of: channel, to: \.counts, &effects)
        case .members(let channel): self.addConsumer(id, of: channel, to: \.memberChanges, &effects)
        case .memberLists(let channel): self.addConsumer(id, of: channel, to: \.memberLists, &effects)
        }
    }

    private mutating func addConsumer(
        _ id: ConsumerID, of channel: String, to route: WritableKeyPath<ChannelRecord.Consumers, EventRoute>, _ effects: inout Effects<Self>
    ) {
        guard let channel = self.channel(channel, of: id, &effects) else { return }
        self.channels.addConsumer(id, of: channel, to: route, &effects.routes)
    }

    /// Returns the channel of a consumer. If it isn't one of the client's, the consumer's sequence is empty.
    private func channel(_ name: String, of consumer: ConsumerID, _ effects: inout Effects<Self>) -> ChannelID? {
        let id = self.channels.id(named: name)
        if id == nil { effects.commands.append(.endConsumers([consumer], .ended)) }
        return id
    }

    /// Reports an event that a sequence of decoded values skipped.
    mutating func decodingFailed(_ error: PusherError, _ effects: inout Effects<Self>) {
        effects.counters.decodingFailures += 1
        self.consumers.report(error, &effects)
    }
}

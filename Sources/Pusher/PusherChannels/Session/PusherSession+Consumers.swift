import RealtimeCore

/// The consumers of updates.
extension PusherSession {
    /// What a consumer receives.
    enum Topic: Sendable {
        case states, retryDelays, errors
        /// All updates, and all frames if requested.
        case updates(frames: Bool)
        /// All frames, received and sent, without secrets.
        case redactedFrames
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

    /// The routes of updates that do not belong to one channel.
    struct ClientRoutes: Sendable {
        var states = EventRoutes.none
        var retryDelays = EventRoutes.none
        var errors = EventRoutes.none
        /// The route of all updates apart from events, which go to the consumers of ``events``.
        var updates = EventRoutes.none
        /// The route of all frames.
        var frames = EventRoutes.none
        /// The route of all frames, without the secrets in those that were received.
        var redactedFrames = EventRoutes.none
        /// Whether there ever were consumers of frames.
        var hasFrameConsumers: Bool { self.frames != EventRoutes.none || self.redactedFrames != EventRoutes.none }
        /// The routes of the consumers of all channels, if there ever were any.
        @Boxed var events: ChannelRoutes?

        mutating func addEventConsumer(_ id: ConsumerID, _ name: String?, _ routes: inout EventRoutes) {
            var events = self.events ?? ChannelRoutes()
            events.add(id, name, &routes)
            self.events = events
        }
    }

    /// The routes of the events with one name on one channel.
    struct CachedRoute: Sendable {
        var names: EventNames
        var route: EventRoute
        /// The route to the consumers of all channels.
        var clientRoute: EventRoute
    }

    mutating func addConsumer(_ id: ConsumerID, to topic: Topic, _ effects: inout Effects<Self>) {
        self.cachedRoute = nil
        switch topic {
        case .states: effects.routes.add(id, to: &self.clientRoutes.states)
        case .retryDelays: effects.routes.add(id, to: &self.clientRoutes.retryDelays)
        case .errors: effects.routes.add(id, to: &self.clientRoutes.errors)
        case .redactedFrames: effects.routes.add(id, to: &self.clientRoutes.redactedFrames)
        case .userStates: self.addUserConsumer { effects.routes.add(id, to: &$0.states) }
        case .watchlist: self.addUserConsumer { effects.routes.add(id, to: &$0.watchlist) }
        case .userEvents(let name): self.addUserConsumer { $0.events.add(id, name, &effects.routes) }
        case .updates(let frames):
            effects.routes.add(id, to: &self.clientRoutes.updates)
            self.clientRoutes.addEventConsumer(id, nil, &effects.routes)
            if frames { effects.routes.add(id, to: &self.clientRoutes.frames) }
        case .events(nil, let name): self.clientRoutes.addEventConsumer(id, name, &effects.routes)
        case .events(let channel?, let name):
            self.addConsumer(id, channel, &effects) { $0.events.add(id, name, &$1) }
        case .subscription(let channel):
            self.addConsumer(id, channel, &effects) { $1.add(id, to: &$0.states) }
        case .gaps(let channel):
            self.addConsumer(id, channel, &effects) { $1.add(id, to: &$0.notices.gaps) }
        case .subscriptionCounts(let channel):
            self.addConsumer(id, channel, &effects) { $1.add(id, to: &$0.notices.counts) }
        case .members(let channel):
            self.addConsumer(id, channel, &effects) { $1.add(id, to: &$0.memberChanges) }
        case .memberLists(let channel):
            self.addConsumer(id, channel, &effects) { $1.add(id, to: &$0.memberLists) }
        }
    }

    private mutating func addUserConsumer(_ add: (inout PusherUserSession) -> Void) {
        var user = self.user ?? PusherUserSession()
        add(&user)
        self.user = user
    }

    private mutating func addConsumer(
        _ id: ConsumerID, _ channel: String, _ effects: inout Effects<Self>, add: (inout ChannelRecord, inout EventRoutes) -> Void
    ) {
        guard let channel = self.channels.id(named: channel), var record = self.channels[channel] else {
            // The channel is not subscribed: the sequence is empty.
            return effects.commands.append(.endConsumers([id], .ended))
        }
        add(&record, &effects.routes)
        self.channels[channel] = record
    }

    /// Reports an event that a sequence of decoded values skipped.
    mutating func decodingFailed(_ error: PusherError, _ effects: inout Effects<Self>) {
        effects.counters.decodingFailures += 1
        effects.log(.warning, error.message)
        self.publish(.error(error), to: self.clientRoutes.errors, &effects)
    }

    /// Delivers an update other than an event to its consumers, and to those of all updates.
    func publish(_ update: PusherUpdate, to route: EventRoute, _ effects: inout Effects<Self>) {
        effects.deliver(update, on: route)
        effects.deliver(update, on: self.clientRoutes.updates)
    }
}

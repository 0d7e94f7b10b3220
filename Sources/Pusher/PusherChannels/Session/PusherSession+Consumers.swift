import RealtimeCore

/// The consumers of updates.
extension PusherSession {
    /// What a consumer receives.
    enum Topic: Sendable {
        case states, retryDelays, errors, updates
        /// Events of one channel, or of all channels; with one name, or with any name.
        case events(channel: String?, name: String?)
        case subscription(channel: String)
        case members(channel: String)
    }

    /// Where a consumer is registered.
    enum ConsumerLocation: Sendable {
        case states, retryDelays, errors, updates, events
        case channelEvents(ChannelID), subscription(ChannelID), members(ChannelID)
    }

    /// The routes of updates that do not belong to one channel.
    struct ClientRoutes: Sendable {
        var states = EventRoutes.none
        var retryDelays = EventRoutes.none
        var errors = EventRoutes.none
        /// The route of all updates apart from events, which go to the consumers of ``events``.
        var updates = EventRoutes.none
        /// The routes of the consumers of all channels, if there are any.
        @Boxed var events: ChannelRoutes?

        mutating func addEventConsumer(_ id: ConsumerID, _ name: String?, _ routes: inout EventRoutes) {
            var events = self.events ?? ChannelRoutes()
            events.add(id, name, &routes)
            self.events = events
        }

        mutating func removeEventConsumer(_ id: ConsumerID, _ routes: inout EventRoutes) {
            var events = self.events
            events?.remove(id, &routes)
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
        guard let location = self.register(id, topic) else {
            // The channel is not subscribed: the sequence is empty.
            return effects.commands.append(.endConsumers([id], .ended))
        }
        self.cachedRoute = nil
        self.consumerLocations[id] = location
    }

    private mutating func register(_ id: ConsumerID, _ topic: Topic) -> ConsumerLocation? {
        switch topic {
        case .states:
            self.routes.add(id, to: &self.clientRoutes.states)
            return .states
        case .retryDelays:
            self.routes.add(id, to: &self.clientRoutes.retryDelays)
            return .retryDelays
        case .errors:
            self.routes.add(id, to: &self.clientRoutes.errors)
            return .errors
        case .updates:
            self.routes.add(id, to: &self.clientRoutes.updates)
            self.clientRoutes.addEventConsumer(id, nil, &self.routes)
            return .updates
        case .events(nil, let name):
            self.clientRoutes.addEventConsumer(id, name, &self.routes)
            return .events
        case .events(let channel?, let name):
            guard let channel = self.channels.id(named: channel) else { return nil }
            self.channels[channel]?.events.add(id, name, &self.routes)
            return .channelEvents(channel)
        case .subscription(let channel): return self.register(id, \.states, of: channel).map { .subscription($0) }
        case .members(let channel): return self.register(id, \.memberChanges, of: channel).map { .members($0) }
        }
    }

    private mutating func register(
        _ id: ConsumerID, _ path: WritableKeyPath<ChannelRecord, EventRoute>, of name: String
    ) -> ChannelID? {
        guard let channel = self.channels.id(named: name), var route = self.channels[channel]?[keyPath: path] else { return nil }
        self.routes.add(id, to: &route)
        self.channels[channel]?[keyPath: path] = route
        return channel
    }

    func consumers(on route: EventRoute) -> [ConsumerID] { self.routes[route] }

    mutating func consumerRemoved(_ consumer: ConsumerID) {
        guard let location = self.consumerLocations.removeValue(forKey: consumer) else { return }
        self.cachedRoute = nil
        switch location {
        case .states: self.routes.remove(consumer, from: self.clientRoutes.states)
        case .retryDelays: self.routes.remove(consumer, from: self.clientRoutes.retryDelays)
        case .errors: self.routes.remove(consumer, from: self.clientRoutes.errors)
        case .updates:
            self.routes.remove(consumer, from: self.clientRoutes.updates)
            self.clientRoutes.removeEventConsumer(consumer, &self.routes)
        case .events: self.clientRoutes.removeEventConsumer(consumer, &self.routes)
        // After `unsubscribe`, there is no record.
        case .channelEvents(let channel): self.channels[channel]?.events.remove(consumer, &self.routes)
        case .subscription(let channel):
            if let route = self.channels[channel]?.states { self.routes.remove(consumer, from: route) }
        case .members(let channel):
            if let route = self.channels[channel]?.memberChanges { self.routes.remove(consumer, from: route) }
        }
    }

    /// Delivers an update other than an event to its consumers, and to those of all updates.
    mutating func publish(_ update: PusherUpdate, to route: EventRoute, _ effects: inout Effects<Self>) {
        self.deliver(update, on: route, &effects)
        self.deliver(update, on: self.clientRoutes.updates, &effects)
    }

    /// Appends an update to those that the driver delivers.
    ///
    /// It is called for every event, and is in this module because the compiler knows the type of the updates here.
    mutating func deliver(_ update: consuming PusherUpdate, on route: EventRoute, _ effects: inout Effects<Self>) {
        guard !self.routes.isEmpty(route) else { return }
        effects.deliveries.append(update)
        let end = effects.deliveries.count
        if let last = effects.runs.indices.last, effects.runs[last].route == route {
            effects.runs[last].end = end
        } else {
            effects.runs.append(Effects<Self>.Run(route, end: end))
        }
    }
}

import PusherWire
import RealtimeCore

/// The consumers of events, and how an event reaches them.
struct EventDelivery: Sendable {
    private struct Channel: Sendable {
        let name: String
        var routes = ChannelRoutes()
        var latestNames: EventNames?

        /// Returns the names of an event on the channel. Consecutive events with the same name share one object, also while events of
        /// other channels arrive between them.
        mutating func names(of frame: PusherFrame) -> EventNames {
            if let latestNames, frame.isEvent(latestNames.event) { return latestNames }
            let names = EventNames(frame.eventName, channel: self.name)
            self.latestNames = names
            return names
        }
    }

    /// The routes of the events with one name on one channel.
    private struct CachedRoute: Sendable {
        var names: EventNames
        var route: EventRoute
        /// The route to the consumers of all channels.
        var clientRoute: EventRoute
    }

    private var channels = ChannelMap<Channel>()
    /// The consumers of all channels, which also receive the events without a channel.
    private var client = ChannelRoutes()
    private var user = ChannelRoutes()
    /// The route of the last event, while it is current.
    private var cached: CachedRoute?

    // MARK: Channels and consumers

    mutating func added(_ id: ChannelID, _ name: String) {
        self.cached = nil
        self.channels[id] = Channel(name: name)
    }

    /// Removes a channel. Its routes remain until the events of this step have been delivered.
    ///
    /// - Returns: The consumers of the channel's events.
    mutating func removed(_ id: ChannelID, _ routes: inout EventRoutes) -> [ConsumerID] {
        self.cached = nil
        guard let channel = self.channels[id].take() else { return [] }
        channel.routes.retire(in: &routes)
        return channel.routes.consumers(in: routes)
    }

    /// A channel is no longer subscribed, so that its events need another look.
    mutating func interrupted() { self.cached = nil }

    mutating func addConsumer(_ id: ConsumerID, of channel: ChannelID, name: String?, _ routes: inout EventRoutes) {
        self.cached = nil
        self.channels[channel]?.routes.add(id, name, &routes)
    }

    mutating func addClientConsumer(_ id: ConsumerID, name: String?, _ routes: inout EventRoutes) {
        self.cached = nil
        self.client.add(id, name, &routes)
    }

    mutating func addUserConsumer(_ id: ConsumerID, name: String?, _ routes: inout EventRoutes) {
        self.user.add(id, name, &routes)
    }

    // MARK: Events of subscribed channels

    /// Whether the cached route is the event's. Consecutive events often have the same name and channel: comparing with the last ones
    /// avoids two lookups and two strings.
    @inline(__always)
    func isCached(_ frame: PusherFrame) -> Bool { self.cached?.names.areNames(of: frame) ?? false }

    /// Caches the routes of an event of a channel.
    mutating func cache(_ id: ChannelID, _ frame: PusherFrame) {
        guard let names = self.names(of: frame, on: id), let route = self.channels[id]?.routes.routeInPlace(names.event) else { return }
        self.cached = CachedRoute(names: names, route: route, clientRoute: self.client.route(names.event))
    }

    /// Delivers an event whose route is cached. It doesn't change the value, so that the compiler need not copy what is cached.
    func deliverCached(_ frame: PusherFrame, _ writer: inout EventWriter, _ effects: inout SessionEffects) {
        guard let cached, !effects.routes.isEmpty(cached.route) || !effects.routes.isEmpty(cached.clientRoute) else { return }
        let event = writer.event(cached.names, frame)
        guard cached.clientRoute != EventRoutes.none else { return effects.deliver(.event(event), on: cached.route) }
        effects.deliver(.event(event), on: cached.route)
        effects.deliver(.event(event), on: cached.clientRoute)
    }

    // MARK: Other events

    /// Delivers an event of a channel, whatever the state of its subscription.
    mutating func deliver(_ frame: PusherFrame, on id: ChannelID, _ writer: inout EventWriter, _ effects: inout SessionEffects) {
        guard let names = self.names(of: frame, on: id) else { return }
        let event = writer.event(names, frame)
        for route in self.routes(names, on: id) { effects.deliver(.event(event), on: route) }
    }

    /// Delivers an event that was decrypted.
    ///
    /// - Parameter route: The route of all decrypted events.
    mutating func deliver(
        _ text: String, _ names: EventNames, on id: ChannelID, and route: EventRoute, _ writer: inout EventWriter,
        _ effects: inout SessionEffects
    ) {
        var routes = self.routes(names, on: id)
        guard !routes.isEmpty else { return }
        routes.append(route)
        guard routes.contains(where: { !effects.routes.isEmpty($0) }) else { return }
        var text = text
        let event = text.withUTF8 { writer.event(names, data: UnsafeRawBufferPointer($0), isEscaped: false) }
        for route in routes { effects.deliver(.event(event), on: route) }
    }

    /// Delivers an event of a server to the user.
    func deliver(_ frame: PusherFrame, toUserOf channel: String, _ writer: inout EventWriter, _ effects: inout SessionEffects) {
        let names = EventNames(frame.eventName, channel: channel)
        let event = writer.event(names, frame)
        for routes in [self.user, self.client] { effects.deliver(.event(event), on: routes.route(names.event)) }
    }

    /// Delivers an event without a channel.
    func deliver(withoutChannel frame: PusherFrame, _ writer: inout EventWriter, _ effects: inout SessionEffects) {
        let names = EventNames(frame.eventName, channel: nil)
        let route = self.client.route(names.event)
        guard !effects.routes.isEmpty(route) else { return }
        effects.deliver(.event(writer.event(names, frame)), on: route)
    }

    /// Delivers an event of the protocol to the consumers that ask for it by name.
    func deliver(reserved name: String, on id: ChannelID?, _ effects: inout SessionEffects, data: () -> String?) {
        let channel = id.flatMap { self.channels[$0] }
        let routes = [channel?.routes.reservedRoute(name), self.client.reservedRoute(name)].compactMap { $0 }
        guard routes.contains(where: { !effects.routes.isEmpty($0) }) else { return }
        let event = PusherEvent(name: name, channel: channel?.name, data: data())
        for route in routes { effects.deliver(.event(event), on: route) }
    }

    /// Delivers an event of the protocol to the consumers of all events.
    func deliverToAll(_ frame: PusherFrame, on id: ChannelID?, _ writer: inout EventWriter, _ effects: inout SessionEffects) {
        let channel = id.flatMap { self.channels[$0] }
        let event = writer.event(EventNames(EventName.version7(frame.eventName), channel: channel?.name), frame)
        for route in [channel?.routes.others, self.client.others].compactMap({ $0 }) { effects.deliver(.event(event), on: route) }
    }

    /// Returns the names of an event on a channel.
    mutating func names(of frame: PusherFrame, on id: ChannelID) -> EventNames? { self.channels[id]?.names(of: frame) }

    private mutating func routes(_ names: EventNames, on id: ChannelID) -> [EventRoute] {
        // Optional chaining in a mutating function accesses the routes in place, without copying the value that contains them.
        guard let route = self.channels[id]?.routes.routeInPlace(names.event) else { return [] }
        return [route, self.client.route(names.event)]
    }
}

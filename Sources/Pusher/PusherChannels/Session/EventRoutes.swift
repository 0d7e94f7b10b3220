import RealtimeCore

/// Sets of consumers, which routes identify: delivering an event takes one lookup, regardless of the number of channels and names.
struct EventRoutes: Sendable {
    /// The route without consumers, shared by all events that have never had a consumer.
    static let none = EventRoute(rawValue: 0)

    private var sets: [[ConsumerID]] = [[]]
    private var free: [EventRoute] = []
    /// Routes to reuse once the updates that were delivered on them have been taken.
    private var retired: [EventRoute] = []

    private mutating func make(_ consumers: [ConsumerID]) -> EventRoute {
        if let route = self.free.popLast() {
            self.sets[route.rawValue] = consumers
            return route
        }
        self.sets.append(consumers)
        return EventRoute(rawValue: self.sets.count - 1)
    }

    /// Removes a route that no undelivered update uses.
    mutating func remove(_ route: EventRoute) {
        guard route != Self.none else { return }
        self.sets[route.rawValue] = []
        self.free.append(route)
    }

    /// Removes a route in the next call to ``reuseRetired()``. Its consumers stay until then.
    mutating func retire(_ route: EventRoute) {
        if route != Self.none { self.retired.append(route) }
    }

    mutating func reuseRetired() {
        for route in self.retired { self.remove(route) }
        self.retired = []
    }

    /// The consumers of a route.
    subscript(route: EventRoute) -> [ConsumerID] { self.sets[route.rawValue] }

    func isEmpty(_ route: EventRoute) -> Bool { self.sets[route.rawValue].isEmpty }

    /// Replaces the consumers of a route, and creates a route for the first consumer.
    mutating func set(_ route: inout EventRoute, to consumers: [ConsumerID]) {
        if route != Self.none {
            self.sets[route.rawValue] = consumers
        } else if !consumers.isEmpty {
            route = self.make(consumers)
        }
    }

    mutating func add(_ consumer: ConsumerID, to route: inout EventRoute) { self.set(&route, to: self[route] + [consumer]) }

    mutating func remove(_ consumer: ConsumerID, from route: EventRoute) { self.sets[route.rawValue].removeAll { $0 == consumer } }
}

/// The routes of one channel's events, by event name; or, with consumers of all channels, the routes of all events.
struct ChannelRoutes: Sendable {
    /// The consumers in the order of their IDs, with the event name that they receive, or `nil` for all events.
    private var consumers: [(id: ConsumerID, name: String?)] = []
    private var byName = SmallDictionary<String, EventRoute>()
    /// The route of events whose name no consumer is registered for.
    private var others = EventRoutes.none

    func route(_ name: String) -> EventRoute {
        self.byName.isEmpty ? self.others : self.byName[name] ?? self.others
    }

    /// Returns the same as ``route(_:)``. It is mutating so that the caller accesses the routes in place, without copying the record
    /// that contains them.
    mutating func routeInPlace(_ name: String) -> EventRoute { self.route(name) }

    var isEmpty: Bool { self.consumers.isEmpty }

    var ids: [ConsumerID] { self.consumers.map(\.id) }

    mutating func add(_ id: ConsumerID, _ name: String?, _ routes: inout EventRoutes) {
        self.consumers.append((id, name))
        self.consumers.sort { $0.id.rawValue < $1.id.rawValue }
        self.update(&routes)
    }

    mutating func remove(_ id: ConsumerID, _ routes: inout EventRoutes) {
        self.consumers.removeAll { $0.id == id }
        self.update(&routes)
    }

    func retire(in routes: inout EventRoutes) {
        for (_, route) in self.byName.entries { routes.retire(route) }
        routes.retire(self.others)
    }

    private mutating func update(_ routes: inout EventRoutes) {
        let names = Set(self.consumers.compactMap(\.name))
        for (name, route) in self.byName.entries where !names.contains(name) {
            routes.remove(route)
            self.byName[name] = nil
        }
        routes.set(&self.others, to: self.consumers.filter { $0.name == nil }.map(\.id))
        for name in names {
            var route = self.byName[name] ?? EventRoutes.none
            routes.set(&route, to: self.consumers.filter { $0.name == nil || $0.name == name }.map(\.id))
            self.byName[name] = route
        }
    }
}

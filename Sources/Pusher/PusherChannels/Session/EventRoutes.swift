import RealtimeCore

/// Who listens where: numbers for sets of listeners, so that an event needs one look-up however many channels and
/// names there are.
struct EventRoutes: Sendable {
    /// Where nobody listens. What nobody has ever listened to has no route of its own.
    static let nowhere = EventRoute(rawValue: 0)

    private var sets: [[ConsumerID]] = [[]]
    private var free: [Int] = []

    mutating func make(_ listeners: [ConsumerID] = []) -> EventRoute {
        if let index = self.free.popLast() {
            self.sets[index] = listeners
            return EventRoute(rawValue: index)
        }
        self.sets.append(listeners)
        return EventRoute(rawValue: self.sets.count - 1)
    }

    mutating func drop(_ route: EventRoute) {
        guard route != Self.nowhere else { return }
        self.sets[route.rawValue] = []
        self.free.append(route.rawValue)
    }

    /// Who listens there.
    subscript(route: EventRoute) -> [ConsumerID] { self.sets[route.rawValue] }

    func isEmpty(_ route: EventRoute) -> Bool { self.sets[route.rawValue].isEmpty }

    /// These and nobody else listen there from now on. It becomes a route of its own with the first of them.
    mutating func set(_ route: inout EventRoute, to listeners: [ConsumerID]) {
        if route != Self.nowhere {
            self.sets[route.rawValue] = listeners
        } else if !listeners.isEmpty {
            route = self.make(listeners)
        }
    }

    mutating func add(_ listener: ConsumerID, to route: inout EventRoute) { self.set(&route, to: self[route] + [listener]) }

    mutating func remove(_ listener: ConsumerID, from route: EventRoute) { self.sets[route.rawValue].removeAll { $0 == listener } }
}

/// Where the events of one name on one channel go.
struct EventPlace: Sendable {
    var name: String
    var channel: String
    var route: EventRoute
    /// Those who listen to all channels; `nil` when nobody does.
    var globalRoute: EventRoute?
}

/// Where the events of one channel go, by name.
struct ChannelRoutes: Sendable {
    /// Who asked, for which name (`nil`: for all), in the order in which they asked.
    private var listeners: [(id: ConsumerID, name: String?)] = []
    private var byName = SmallDictionary<String, EventRoute>()
    /// For names that nobody asked for by name.
    private var others = EventRoutes.nowhere

    func route(_ name: String) -> EventRoute {
        self.byName.isEmpty ? self.others : self.byName[name] ?? self.others
    }

    /// The same in place: see where it is called.
    mutating func find(_ name: String) -> EventRoute { self.route(name) }

    var isEmpty: Bool { self.listeners.isEmpty }

    var ids: [ConsumerID] { self.listeners.map(\.id) }

    mutating func add(_ id: ConsumerID, _ name: String?, _ routes: inout EventRoutes) {
        self.listeners.append((id, name))
        self.listeners.sort { $0.id.rawValue < $1.id.rawValue }
        self.update(&routes)
    }

    mutating func remove(_ id: ConsumerID, _ routes: inout EventRoutes) {
        self.listeners.removeAll { $0.id == id }
        self.update(&routes)
    }

    mutating func drop(_ routes: inout EventRoutes) {
        for (_, route) in self.byName.entries { routes.drop(route) }
        routes.drop(self.others)
    }

    private mutating func update(_ routes: inout EventRoutes) {
        let names = Set(self.listeners.compactMap(\.name))
        for (name, route) in self.byName.entries where !names.contains(name) {
            routes.drop(route)
            self.byName[name] = nil
        }
        routes.set(&self.others, to: self.listeners.filter { $0.name == nil }.map(\.id))
        for name in names {
            let wanted = self.listeners.filter { $0.name == nil || $0.name == name }.map(\.id)
            var route = self.byName[name] ?? EventRoutes.nowhere
            routes.set(&route, to: wanted)
            self.byName[name] = route
        }
    }
}

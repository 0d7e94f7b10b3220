/// Sets of consumers, which routes identify: delivering an event takes one lookup, regardless of the number of channels and names.
@usableFromInline
package struct EventRoutes: Sendable {
    /// The route without consumers, shared by all events that have never had a consumer.
    package static let none = EventRoute(rawValue: 0)

    /// The routes of a consumer, of which most have one.
    private struct Locations: Sendable {
        var first: EventRoute
        var others: [EventRoute] = []

        var all: [EventRoute] { [self.first] + self.others }
    }

    @usableFromInline var sets: [[ConsumerID]] = [[]]
    private var locations = SmallDictionary<ConsumerID, Locations>()
    private var free: [EventRoute] = []
    /// Routes to reuse once the events that were delivered on them have been taken.
    private var retired: [EventRoute] = []

    package init() {}

    /// The consumers of a route.
    package subscript(route: EventRoute) -> [ConsumerID] { self.sets[route.rawValue] }

    @inlinable
    package func isEmpty(_ route: EventRoute) -> Bool { self.sets[route.rawValue].isEmpty }

    /// Adds a consumer to a route, and creates the route for its first consumer.
    package mutating func add(_ consumer: ConsumerID, to route: inout EventRoute) {
        if route == Self.none { route = self.make() }
        self.insert(consumer, into: route)
    }

    /// Creates a route with the consumers of another one.
    package mutating func copy(_ other: EventRoute) -> EventRoute {
        let route = self.make()
        for consumer in self[other] { self.insert(consumer, into: route) }
        return route
    }

    /// Removes a consumer from all of its routes. They remain, even if they are empty.
    package mutating func remove(_ consumer: ConsumerID) {
        guard let locations = self.locations.removeValue(forKey: consumer) else { return }
        for route in locations.all { self.sets[route.rawValue].removeAll { $0 == consumer } }
    }

    /// Removes a route that no undelivered event uses.
    package mutating func remove(_ route: EventRoute) {
        guard route != Self.none else { return }
        for consumer in self[route] {
            guard let others = self.locations[consumer]?.all.filter({ $0 != route }) else { continue }
            self.locations[consumer] = others.first.map { Locations(first: $0, others: Array(others.dropFirst())) }
        }
        self.sets[route.rawValue] = []
        self.free.append(route)
    }

    /// Removes a route after the events of the current step have been delivered. Its consumers stay until then.
    package mutating func retire(_ route: EventRoute) {
        if route != Self.none { self.retired.append(route) }
    }

    /// Removes the routes that were retired. Called when the events of a step have been delivered.
    package mutating func removeRetired() {
        guard !self.retired.isEmpty else { return }
        for route in self.retired { self.remove(route) }
        self.retired = []
    }

    private mutating func make() -> EventRoute {
        if let route = self.free.popLast() { return route }
        self.sets.append([])
        return EventRoute(rawValue: self.sets.count - 1)
    }

    private mutating func insert(_ consumer: ConsumerID, into route: EventRoute) {
        self.sets[route.rawValue].append(consumer)
        if var locations = self.locations[consumer] {
            locations.others.append(route)
            self.locations[consumer] = locations
        } else {
            self.locations[consumer] = Locations(first: route)
        }
    }
}

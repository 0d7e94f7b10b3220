import PusherWire
import RealtimeSystem
import RealtimeCore

/// The routes of one channel's events, by event name; or, with consumers of all channels, the routes of all events.
///
/// The route of a name contains the consumers of that name and of all names. The route of a name that is reserved for the service only
/// contains the former. Consumers are removed from their routes by the driver.
struct ChannelRoutes: Sendable {
    private var byName = SmallDictionary<ByteString, EventRoute>()
    /// The route of events whose name no consumer is registered for.
    private(set) var others = EventRoutes.none
    /// The number of names at which those that have lost their consumers are removed.
    private var cleaningCount: UInt32 = 8

    func route(_ name: String) -> EventRoute {
        self.byName.isEmpty ? self.others : self.byName[ByteString(name)] ?? self.others
    }

    /// Returns the same as ``route(_:)``. It is mutating so that the caller accesses the routes in place, without copying the record
    /// that contains them.
    mutating func routeInPlace(_ name: String) -> EventRoute { self.route(name) }

    /// Returns the route of a name that is reserved for the service.
    func reservedRoute(_ name: String) -> EventRoute {
        self.byName.isEmpty ? EventRoutes.none : self.byName[ByteString(name)] ?? EventRoutes.none
    }

    /// The consumers of all names, in the order in which they were added.
    func consumers(in routes: EventRoutes) -> [ConsumerID] {
        Set(self.all.flatMap { routes[$0] }).sorted()
    }

    /// Adds a consumer of the events with a name, or of all events.
    mutating func add(_ id: ConsumerID, _ name: String?, _ routes: inout EventRoutes) {
        if let name {
            let isReserved = EventName.isReserved(name)
            let name = ByteString(name)
            self.removeUnusedNames(&routes)
            var route = self.byName[name] ?? (isReserved ? EventRoutes.none : routes.copy(self.others))
            routes.add(id, to: &route)
            self.byName[name] = route
        } else {
            for (name, var route) in self.byName.entries where !EventName.isReserved(name.string) { routes.add(id, to: &route) }
            routes.add(id, to: &self.others)
        }
    }

    func retire(in routes: inout EventRoutes) {
        for route in self.all { routes.retire(route) }
    }

    private var all: [EventRoute] { self.byName.entries.map(\.value) + [self.others] }

    /// Removes the names whose routes only contain consumers of all names. It looks at all names, but rarely.
    private mutating func removeUnusedNames(_ routes: inout EventRoutes) {
        guard self.byName.count >= self.cleaningCount else { return }
        for (name, route) in self.byName.entries
        where routes[route].count == (EventName.isReserved(name.string) ? 0 : routes[self.others].count) {
            routes.remove(route)
            self.byName[name] = nil
        }
        self.cleaningCount = UInt32(clamping: max(8, 2 * self.byName.count))
    }
}

import PrimusWire
import RealtimeCore
import RealtimeSystem

/// The routes of the events for the application's callbacks.
///
/// Each kind of registration, and each name, has a route of its own: events of different routes are delivered in their order, also if one step
/// yields them.
struct SparkRoutes: Sendable {
    /// The events for which a callback is registered.
    enum Topic: Sendable {
        case connections, disconnections, messages, requests
        /// The events with a name; `nil` for all.
        case events(String?)
        case channel(String)
        case substream(String)
    }

    /// The routes of events with names.
    private struct Named: Sendable {
        private var all = EventRoutes.none
        private var routes: [ByteString: EventRoute] = [:]

        func route(_ name: String) -> EventRoute {
            self.routes.isEmpty ? self.all : self.routes[ByteString(name)] ?? self.all
        }

        mutating func add(_ consumer: ConsumerID, for name: String?, in routes: inout EventRoutes) {
            guard let name else {
                routes.add(consumer, to: &self.all)
                // They exist, and stay the same.
                for var route in self.routes.values { routes.add(consumer, to: &route) }
                return
            }
            let key = ByteString(name)
            var route = self.routes[key] ?? routes.copy(self.all)
            routes.add(consumer, to: &route)
            self.routes[key] = route
        }
    }

    private var connections = EventRoutes.none
    private var disconnections = EventRoutes.none
    private var messages = EventRoutes.none
    private var requests = EventRoutes.none
    private var events = Named()
    private var channels = Named()
    private var substreams = Named()
    /// Whether a callback was ever registered.
    private(set) var isUsed = false

    mutating func add(_ consumer: ConsumerID, for topic: Topic, in routes: inout EventRoutes) {
        self.isUsed = true
        switch topic {
        case .connections: routes.add(consumer, to: &self.connections)
        case .disconnections: routes.add(consumer, to: &self.disconnections)
        case .messages: routes.add(consumer, to: &self.messages)
        case .requests: routes.add(consumer, to: &self.requests)
        case .events(let name): self.events.add(consumer, for: name, in: &routes)
        case .channel(let name): self.channels.add(consumer, for: name, in: &routes)
        case .substream(let name): self.substreams.add(consumer, for: name, in: &routes)
        }
    }

    func route(of event: PrimusSparkEvent) -> EventRoute {
        switch event {
        case .connected: self.connections
        case .disconnected: self.disconnections
        case .message: self.messages
        case .request: self.requests
        case .event(_, _, let name, _, _): self.events.route(name)
        case .joined(_, let address), .left(_, let address), .channelMessage(_, let address, _): self.channels.route(address.channel)
        case .substreamMessage(_, let name, _), .substreamEnded(_, let name): self.substreams.route(name)
        }
    }
}

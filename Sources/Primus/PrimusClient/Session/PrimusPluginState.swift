package import PrimusWire
import RealtimeCore

/// The answer of the server to a call of a plugin.
package enum PrimusPluginResult: Sendable {
    /// The arguments of an acknowledgement.
    case acknowledgement(PrimusArguments)
    /// The value of a response.
    case response(PrimusPayload)
}

/// The plugins of a session: who waits for what, and who receives what.
package struct PrimusPluginState: Sendable {
    /// The owner of packets of primus-emitter: the connection itself, or a channel.
    enum Scope: Hashable, Sendable {
        case connection
        case channel(UInt64)
    }

    /// An answer that a caller waits for.
    enum Call: Sendable {
        case acknowledgement(UInt64, Scope)
        case response(UInt64)
    }

    /// Events of primus-emitter, for the connection or for a channel.
    struct Emitter: Sendable {
        var calls = EmitterCalls<WaiterID>()
        var route = EventRoutes.none
    }

    struct Channel: Sendable {
        var address: MultiplexAddress
        var emitter = Emitter()
        var messages = EventRoutes.none
    }

    struct Stream: Sendable {
        var name: String
        var messages = EventRoutes.none
    }

    /// The plugins that the client has.
    let set: PrimusPluginSet
    var emitter = Emitter()
    /// The events of primus-emit.
    var emits = EventRoutes.none
    var requests = EventRoutes.none
    var responses: ResponderCalls<WaiterID>?
    var joined = MultiplexChannels<UInt64>()
    var channels: [UInt64: Channel] = [:]
    var names = Substreams<UInt64>()
    var streams: [UInt64: Stream] = [:]
    /// The answers that the callers wait for, to find them when a caller gives up.
    var callers = SequentialTable<Call>()
    private var lastNumber: UInt64 = 0
    var generator: SplitMix64

    /// - Parameters:
    ///   - plugins: The plugins of the configuration.
    ///   - seed: The seed of the IDs of channels and requests.
    init(_ plugins: [any PrimusPlugin], seed: UInt64) {
        self.set = PrimusPluginSet(plugins)
        self.generator = SplitMix64(seed: seed)
    }

    /// Whether no plugin is on.
    var isEmpty: Bool { self.set.isEmpty }
    /// The number of callers that wait for an answer.
    var waiterCount: Int { self.callers.count }

    /// A number for a channel or a stream.
    mutating func nextNumber() -> UInt64 {
        self.lastNumber += 1
        return self.lastNumber
    }

    subscript(scope: Scope) -> Emitter? {
        switch scope {
        case .connection: self.emitter
        case .channel(let number): self.channels[number]?.emitter
        }
    }

    /// Whether a caller waits for an answer.
    func isCaller(_ waiter: WaiterID) -> Bool { self.callers[waiter.rawValue] != nil }

    /// Advice for a caller that has waited in vain; `nil` if it doesn't wait for an answer. A server without the plugin ignores the call.
    func advice(for waiter: WaiterID) -> String? {
        let (plugin, listener): (String, String)
        switch self.callers[waiter.rawValue] {
        case .acknowledgement: (plugin, listener) = ("primus-emitter", "listener of the event that acknowledges it")
        case .response: (plugin, listener) = ("primus-responder", "listener of requests that responds")
        case nil: return nil
        }
        return "Check that the server has the plugin \(plugin), and a \(listener), or use a longer limit."
    }

    /// Ends the wait of a caller.
    mutating func end(_ waiter: WaiterID) {
        switch self.callers.take(waiter.rawValue) {
        case .acknowledgement(let id, .connection): _ = self.emitter.calls.end(id)
        case .acknowledgement(let id, .channel(let number)): _ = self.channels[number]?.emitter.calls.end(id)
        case .response(let number): _ = self.responses?.end(number)
        case nil: break
        }
    }

    /// Ends the waits of all callers.
    ///
    /// - Returns: The callers, in the order of their calls.
    mutating func endAll() -> [WaiterID] {
        guard !self.callers.isEmpty else { return [] }
        defer { self.callers = SequentialTable() }
        _ = self.emitter.calls.endAll()
        for number in self.channels.keys { _ = self.channels[number]?.emitter.calls.endAll() }
        _ = self.responses?.endAll()
        return self.callers.entries.map { WaiterID(rawValue: $0.key) }
    }
}

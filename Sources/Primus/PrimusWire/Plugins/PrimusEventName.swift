/// Names of events that Primus keeps for itself.
///
/// A peer drops an event that it receives under a name that is reserved on its side. The sides reserve different names.
///
/// Source: `reserved` in `primus.js` and `spark.js` of Primus 8, `send` of primus-emitter, and `reserved` of primus-multiplex.
package enum PrimusEventName {
    /// The side of a connection.
    package enum Side: Hashable, Sendable {
        case client, server
    }

    // Comparing a few short strings takes less time than hashing one.
    private static let clientNames: [String] = [
        "reconnect scheduled", "reconnect timeout", "readyStateChange", "reconnect failed", "reconnected", "reconnect", "offline",
        "timeout", "destroy", "online", "error", "close", "open", "data", "end",
    ]
    private static let serverNames: [String] = ["readyStateChange", "heartbeat", "error", "data", "end"]
    private static let channelNames: [String] = ["subscribe", "unsubscribe"]
    private static let listenerNames: [String] = ["newListener", "removeListener"]

    /// Whether a side drops events with this name.
    ///
    /// - Parameters:
    ///   - name: The name of the event.
    ///   - side: The side that receives the event.
    ///   - hasChannels: Whether the server has the plugin multiplex, which reserves two more names.
    package static func isReserved(_ name: String, on side: Side, hasChannels: Bool) -> Bool {
        switch name.utf8.first {
        case UInt8(ascii: "i") where name.hasPrefix("incoming::"), UInt8(ascii: "o") where name.hasPrefix("outgoing::"): return true
        default: break
        }
        switch side {
        case .client: return self.clientNames.contains(name)
        case .server: return self.serverNames.contains(name) || hasChannels && self.channelNames.contains(name)
        }
    }

    /// Throws if an event can't be sent under this name with primus-emitter.
    ///
    /// - Parameters:
    ///   - name: The name of the event.
    ///   - side: The side that receives the event.
    ///   - hasChannels: Whether the server has the plugin multiplex.
    package static func validate(
        _ name: String, for side: Side, hasChannels: Bool = false
    ) throws(PrimusPluginError) {
        guard self.isReserved(name, on: side, hasChannels: hasChannels) || self.listenerNames.contains(name) else { return }
        throw .reservedEvent(name)
    }

    /// Throws if an event can't be sent under this name with primus-emit, which doesn't send the events that the sender reserves either.
    package static func validateEmit(_ name: String) throws(PrimusPluginError) {
        try self.validate(name, for: .client)
        try self.validate(name, for: .server)
    }
}

import RealtimeCore

/// The answer of the server to a call of a plugin.
package enum PrimusPluginResult: Sendable {}

/// The plugins of a session: who waits for what, and who receives what.
package struct PrimusPluginState: Sendable {
    init(_ plugins: [any PrimusPlugin], seed: UInt64) {}

    var isEmpty: Bool { true }
    var waiterCount: Int { 0 }
    mutating func end(_ waiter: WaiterID) {}
}

import Foundation

/// The handlers that are bound to a client.
///
/// `@unchecked Sendable`: all state is protected by a lock.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class GlobalChannel: PusherChannel, @unchecked Sendable {
    private struct Callbacks {
        var current: [String: (PusherEvent) -> Void] = [:]
        var legacy: [String: (Any?) -> Void] = [:]
        /// The IDs of both dictionaries in the order in which they were bound.
        var order: [String] = []

        /// Makes the order agree with dictionaries that the application has changed.
        mutating func updateOrder() {
            let ids = Set(self.current.keys).union(self.legacy.keys)
            self.order.removeAll { !ids.contains($0) }
            self.order += ids.subtracting(self.order).sorted()
        }
    }

    private let callbacks = Guarded(Callbacks())

    /// The handlers by their IDs.
    open var globalCallbacks: [String: (PusherEvent) -> Void] {
        get { self.callbacks.value.current }
        set {
            self.callbacks.update {
                $0.current = newValue
                $0.updateOrder()
            }
        }
    }

    /// The handlers of versions 5 to 9 by their IDs.
    open var globalLegacyCallbacks: [String: (Any?) -> Void] {
        get { self.callbacks.value.legacy }
        set {
            self.callbacks.update {
                $0.legacy = newValue
                $0.updateOrder()
            }
        }
    }

    init(connection: PusherConnection) {
        super.init(name: "pusher_global_internal_channel", connection: connection)
    }

    func add(_ callback: ((PusherEvent) -> Void)? = nil, legacy: ((Any?) -> Void)? = nil) -> String {
        let id = UUID().uuidString
        self.callbacks.mutate {
            $0.current[id] = callback
            $0.legacy[id] = legacy
            $0.order.append(id)
        }
        return id
    }

    func remove(_ id: String) {
        _ = self.callbacks.mutate {
            $0.order.removeAll { $0 == id }
            return ($0.current.removeValue(forKey: id), $0.legacy.removeValue(forKey: id))
        }
    }

    /// Removes all handlers that are bound to the client.
    open override func unbindAll() { self.callbacks.update { $0 = Callbacks() } }

    /// Calls the handlers of an event, in the order in which they were bound.
    func handleGlobalEvent(event: PusherEvent) {
        let callbacks = self.callbacks.value
        let frame = callbacks.legacy.isEmpty ? [:] : event.raw
        for id in callbacks.order {
            callbacks.current[id]?(event.copied)
            callbacks.legacy[id]?(frame)
        }
    }

    /// Calls the handlers of versions 5 to 9 with an error of the server.
    func handleGlobalError(_ frame: [String: Any]) {
        let callbacks = self.callbacks.value
        for id in callbacks.order { callbacks.legacy[id]?(frame) }
    }
}

import Foundation
import PusherChannels

/// The phase of a connection, as Pusher's client for JavaScript names it.
public enum PusherConnectionPhase: String, Sendable {
    /// The client hasn't been asked to connect.
    case initialized
    /// The client is connecting, for the first time or after a loss.
    case connecting
    /// The connection is established.
    case connected
    /// The client couldn't connect for ``PusherClientOptions/unavailableTimeout``. It keeps trying.
    case unavailable
    /// A connection is impossible, for example because no TLS library is available.
    case failed
    /// The client was disconnected by the app, or rejected by the server.
    case disconnected

    init(_ state: PusherConnectionState) {
        self =
            switch state {
            case .initialized: .initialized
            case .connecting: .connecting
            case .connected: .connected
            case .unavailable: .unavailable
            case .failed: .failed
            case .disconnected: .disconnected
            }
    }
}

/// An event of a connection; see ``PusherConnection/bind(_:callback:)``.
public struct PusherConnectionEvent: Sendable {
    /// The details of an error.
    public struct ErrorData: Hashable, Sendable {
        /// The code of the server, such as 4004, if there is one.
        public let code: Int?
        /// A description of the error.
        public let message: String
    }

    /// The name of the event, such as `state_change`, `connected` or `error`.
    public let name: String
    /// The phase before. Only changes of the phase have one.
    public var previous: PusherConnectionPhase?
    /// The phase now. Only changes of the phase have one.
    public var current: PusherConnectionPhase?
    /// The delay before the next attempt to connect in seconds. Only events with the name `connecting_in` have one.
    public var delay: Int?
    /// The ID that the server assigned to the connection. Only events with the name `connected` have one.
    public var socketID: String?
    /// The details of an error. Only events with the name `error` have them.
    public var data: ErrorData?
}

/// The handlers that are bound to a connection, in the order in which they were bound.
struct ConnectionListeners {
    private var listeners: [(id: String, event: String, callback: (PusherConnectionEvent) -> Void)] = []

    mutating func add(_ id: String, _ event: String, _ callback: @escaping (PusherConnectionEvent) -> Void) {
        self.listeners.append((id, event, callback))
    }

    mutating func remove(where matches: (_ id: String, _ event: String) -> Bool) {
        self.listeners.removeAll { matches($0.id, $0.event) }
    }

    func callbacks(of event: String) -> [(PusherConnectionEvent) -> Void] {
        self.listeners.filter { $0.event == event }.map(\.callback)
    }
}

extension PusherConnection {
    /// The phase of the connection, as Pusher's client for JavaScript names it. It changes right before the handlers are called.
    ///
    /// It describes the same connection as ``connectionState``. Unlike that, it also tells whether the server has been unreachable for a while.
    public var phase: PusherConnectionPhase { self.state.value.phase }

    /// Calls a handler with events of the connection from now on.
    ///
    /// ```swift
    /// pusher.connection.bind("state_change") { change in
    ///     print("from \(change.previous!) to \(change.current!)")
    /// }
    /// pusher.connection.bind("error") { error in
    ///     if error.data?.code == 4004 { print("too many connections") }
    /// }
    /// ```
    /// | event | when | properties |
    /// |---|---|---|
    /// | `state_change` | The phase has changed. | ``PusherConnectionEvent/previous``, ``PusherConnectionEvent/current`` |
    /// | `connecting`, `connected`, `unavailable`, `failed`, `disconnected` | The phase has changed to this one. | The same; `connected` also has ``PusherConnectionEvent/socketID`` |
    /// | `connecting_in` | A delay before the next attempt begins. | ``PusherConnectionEvent/delay`` |
    /// | `error` | An error occurred, or the server reported one. | ``PusherConnectionEvent/data`` |
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - callback: Called with each event, on the queue of the client.
    /// - Returns: An ID for ``unbind(_:)``.
    @discardableResult
    public func bind(_ event: String, callback: @escaping (PusherConnectionEvent) -> Void) -> String {
        let id = UUID().uuidString
        self.state.update { $0.listeners.add(id, event, callback) }
        return id
    }

    /// Removes a handler, or all handlers of an event.
    ///
    /// - Parameter idOrEvent: The ID that ``bind(_:callback:)`` returned, or the name of the event.
    public func unbind(_ idOrEvent: String) {
        self.state.update { $0.listeners.remove { $0 == idOrEvent || $1 == idOrEvent } }
    }

    /// Removes all handlers.
    public func unbindAll() { self.state.update { $0.listeners = ConnectionListeners() } }

    func phaseChanged(to new: PusherConnectionPhase, socketID: String?) {
        let old = self.state.update { state in
            defer { state.phase = new }
            return state.phase
        }
        guard old != new else { return }
        let change = PusherConnectionEvent(name: "state_change", previous: old, current: new)
        self.notify(change)
        self.notify(
            PusherConnectionEvent(name: new.rawValue, previous: old, current: new, socketID: new == .connected ? socketID : nil))
    }

    func notify(delay: Duration) {
        guard delay > .zero else { return }
        let seconds = Int((Double(delay.components.seconds) + Double(delay.components.attoseconds) / 1e18).rounded())
        self.notify(PusherConnectionEvent(name: "connecting_in", delay: seconds))
    }

    func notify(code: Int?, message: String) {
        self.notify(PusherConnectionEvent(name: "error", data: PusherConnectionEvent.ErrorData(code: code, message: message)))
    }

    private func notify(_ event: PusherConnectionEvent) {
        for callback in self.state.value.listeners.callbacks(of: event.name) { callback(event) }
    }
}

import Foundation
import RealtimeCore
import RealtimeSystem
import SignalRHubs

/// The handlers of a connection's states, and the task that calls them.
final class ConnectionLifecycle: Sendable {
    typealias ErrorHandler = @Sendable ((any Error)?) async -> Void

    private struct State: Sendable {
        var closed: [ErrorHandler] = []
        var reconnecting: [ErrorHandler] = []
        var reconnected: [@Sendable () async -> Void] = []
        var refreshed: [@Sendable (TimeInterval?) async -> Void] = []
        var refreshFailed: [@Sendable (any Error) async -> Void] = []
        /// The newest update whose handlers have returned.
        var handled: UInt64 = 0
        var hasEnded = false
        var lastWaiter: UInt64 = 0
        var waiters: [UInt64: (update: UInt64, continuation: CheckedContinuation<Void, Never>)] = [:]

        mutating func takeWaiters() -> [CheckedContinuation<Void, Never>] {
            let ready = self.waiters.filter { self.hasEnded || $0.value.update <= self.handled }
            for key in ready.keys { self.waiters[key] = nil }
            return ready.values.map(\.continuation)
        }
    }

    /// The connection whose handlers the current task calls.
    @TaskLocal private static var current: ObjectIdentifier?

    private let state = Lock(State())
    private let serverTimeout: Duration

    init(serverTimeout: Duration) {
        self.serverTimeout = serverTimeout
    }

    func add(closed handler: @escaping ErrorHandler) { self.state.withLock { $0.closed.append(handler) } }
    func add(reconnecting handler: @escaping ErrorHandler) { self.state.withLock { $0.reconnecting.append(handler) } }
    func add(reconnected handler: @escaping @Sendable () async -> Void) { self.state.withLock { $0.reconnected.append(handler) } }

    func add(refreshed handler: @escaping @Sendable (TimeInterval?) async -> Void) {
        self.state.withLock { $0.refreshed.append(handler) }
    }

    func add(refreshFailed handler: @escaping @Sendable (any Error) async -> Void) {
        self.state.withLock { $0.refreshFailed.append(handler) }
    }

    /// Calls the handlers of all updates, until the connection is released.
    func run(_ updates: EventSequence<NumberedHubUpdate>) async {
        await Self.$current.withValue(ObjectIdentifier(self)) {
            for await update in updates {
                // Ignores what is left after the connection was released.
                if Task.isCancelled { break }
                await self.handle(update.update)
                self.advance { $0.handled = max($0.handled, update.number) }
            }
        }
        self.advance { $0.hasEnded = true }
    }

    private func handle(_ update: HubUpdate) async {
        let handlers = self.state.withLock { $0 }
        switch update {
        case .closed(let error):
            for handler in handlers.closed { await handler(error.map(self.converted)) }
        case .reconnecting(let error):
            for handler in handlers.reconnecting { await handler(self.converted(error)) }
        case .reconnected:
            for handler in handlers.reconnected { await handler() }
        case .authenticationRefreshed(let lifetime):
            for handler in handlers.refreshed { await handler(lifetime.map { $0 / .seconds(1) }) }
        case .authenticationRefreshFailed(let error):
            let failure = SignalRError.refreshFailure(error, serverTimeout: self.serverTimeout)
            for handler in handlers.refreshFailed { await handler(failure) }
        case .state, .transport, .connectingIn, .resumed, .error: break
        }
    }

    private func converted(_ error: HubError) -> any Error { SignalRError.converted(error, serverTimeout: self.serverTimeout) }

    private func advance(_ change: (inout State) -> Void) {
        let continuations = self.state.withLock { state in
            change(&state)
            return state.takeWaiters()
        }
        for continuation in continuations { continuation.resume() }
    }

    /// Makes the updates until this one count as handled.
    func skip(to update: UInt64) { self.advance { $0.handled = max($0.handled, update) } }

    /// Waits until the handlers of an update have returned, or the task is cancelled. Returns immediately in a handler, which would wait for
    /// itself.
    func handled(_ update: UInt64) async {
        guard Self.current != ObjectIdentifier(self) else { return }
        let id = self.state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = self.state.withLock { state in
                    if state.hasEnded || state.handled >= update || Task.isCancelled { return true }
                    state.waiters[id] = (update, continuation)
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            self.state.withLock { $0.waiters.removeValue(forKey: id) }?.continuation.resume()
        }
    }
}

import Foundation
import RealtimeCore
import RealtimeSystem

/// Limits how many suites of a kind run at the same time. A suite that waits has started none of its tests.
///
/// While suites with sockets run, one processor is left to them: the servers and clients in other processes have time limits, which must not
/// expire because of tests that only compute.
final class SuiteLimit: Sendable {
    enum Kind: Hashable, Sendable, CaseIterable { case sockets, computing }

    static let shared = SuiteLimit(processors: max(2, ProcessInfo.processInfo.activeProcessorCount))

    private struct State: Sendable {
        var running: [Kind: Int] = [:]
        var waiters: [Kind: [Waiter<Void>]] = [:]
    }

    private let processors: Int
    private let state = Lock(State())

    init(processors: Int) { self.processors = processors }

    func perform(_ kind: Kind, _ function: @concurrent @Sendable () async throws -> Void) async throws {
        await self.acquire(kind)
        defer { self.release(kind) }
        try await function()
    }

    private func limit(_ kind: Kind, _ state: State) -> Int {
        switch kind {
        case .sockets: 4
        case .computing: state.running[.sockets, default: 0] == 0 ? self.processors : self.processors - 1
        }
    }

    private func acquire(_ kind: Kind) async {
        let waiter = self.state.withLock { state -> Waiter<Void>? in
            if state.running[kind, default: 0] < self.limit(kind, state) {
                state.running[kind, default: 0] += 1
                return nil
            }
            let waiter = Waiter<Void>()
            state.waiters[kind, default: []].append(waiter)
            return waiter
        }
        await waiter?.value()
    }

    /// Lets those begin that may, in the order in which they have asked, so that no later caller can take their place.
    private func release(_ kind: Kind) {
        let begun = self.state.withLock { state -> [Waiter<Void>] in
            state.running[kind, default: 0] -= 1
            var begun: [Waiter<Void>] = []
            for kind in Kind.allCases {
                while state.running[kind, default: 0] < self.limit(kind, state), state.waiters[kind]?.isEmpty == false {
                    begun.append(state.waiters[kind, default: []].removeFirst())
                    state.running[kind, default: 0] += 1
                }
            }
            return begun
        }
        for waiter in begun { waiter.fulfill(())?.resume() }
    }
}

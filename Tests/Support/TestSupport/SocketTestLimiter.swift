import Processes
package import Testing

/// Suites that open sockets run a few at a time, and with as many descriptors as can be had: all tests at once would need
/// over 2,000, and most shells allow a process 1,024, some 256.
package struct SocketTestLimiter: SuiteTrait, TestScoping {
    private static let gate: Gate = {
        FileLimit.raise()
        return Gate(free: 4)
    }()

    @concurrent
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        await Self.gate.enter()
        do {
            try await function()
        } catch {
            await Self.gate.leave()
            throw error
        }
        await Self.gate.leave()
    }

    private actor Gate {
        private var free: Int
        private var waiting: [CheckedContinuation<Void, Never>] = []

        init(free: Int) { self.free = free }

        func enter() async {
            if self.free > 0 {
                self.free -= 1
            } else {
                await withCheckedContinuation { self.waiting.append($0) }
            }
        }

        /// The place goes straight to the next one, so that none is overtaken.
        func leave() {
            if self.waiting.isEmpty {
                self.free += 1
            } else {
                self.waiting.removeFirst().resume()
            }
        }
    }
}

extension Trait where Self == SocketTestLimiter {
    /// For a suite whose tests open sockets or start processes.
    package static var usesSockets: SocketTestLimiter { SocketTestLimiter() }
}

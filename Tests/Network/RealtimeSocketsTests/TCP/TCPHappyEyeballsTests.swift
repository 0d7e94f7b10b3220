import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite
struct TCPHappyEyeballsTests {
    private static let v6 = ["::1", "::2", "::3"].map { SocketAddress($0, port: 80)! }
    private static let v4 = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map { SocketAddress($0, port: 80)! }
    private static let refused = TransportError(.refused, "refused")
    private static let unreachable = TransportError(.unreachable, "unreachable")

    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private func machine() -> HappyEyeballs {
        HappyEyeballs(target: "host:80", now: self.at(0), limit: .seconds(10))
    }

    private static let orders: [([SocketAddress], [SocketAddress])] = [
        ([v4[0], v6[0]], [v6[0], v4[0]]),
        ([v6[0], v6[1], v4[0], v4[1]], [v6[0], v4[0], v6[1], v4[1]]),
        ([v4[0], v4[1], v6[0]], [v6[0], v4[0], v4[1]]),
        ([v4[2], v4[1]], [v4[2], v4[1]]),
        ([], []),
    ]

    @Test(arguments: orders)
    func `address families alternate and IPv6 comes first`(_ given: [SocketAddress], _ expected: [SocketAddress]) {
        expectEqual(HappyEyeballs.ordered(given), expected)
    }

    @Test func `the next attempt starts after a quarter of a second`() {
        var machine = self.machine()
        expectEqual(machine.nextDeadline, self.at(10_000))
        expectEqual(machine.resolved(.success([Self.v4[0], Self.v6[0]]), now: self.at(5)), .connect(0, Self.v6[0]))
        expectEqual(machine.nextDeadline, self.at(255))
        expectEqual(machine.timeout(now: self.at(254)), .none)
        expectEqual(machine.timeout(now: self.at(255)), .connect(1, Self.v4[0]))
        expectEqual(machine.nextDeadline, self.at(10_000))
    }

    @Test func `the next attempt starts immediately after a failure`() {
        var machine = self.machine()
        _ = machine.resolved(.success([Self.v6[0], Self.v4[0]]), now: self.at(0))
        expectEqual(machine.failed(0, Self.unreachable, now: self.at(1)), .connect(1, Self.v4[0]))
        expectEqual(machine.connected(1), .use)
        expectNil(machine.nextDeadline)
    }

    @Test func `only the first established connection is used`() {
        var machine = self.machine()
        _ = machine.resolved(.success([Self.v6[0], Self.v4[0]]), now: self.at(0))
        _ = machine.timeout(now: self.at(250))
        expectEqual(machine.connected(1), .use)
        expectEqual(machine.connected(0), .discard)
        expectEqual(machine.failed(0, Self.refused, now: self.at(300)), .none)
        expectEqual(machine.timeout(now: self.at(20_000)), .none)
    }

    @Test func `connecting fails only after all attempts have failed`() {
        var machine = self.machine()
        _ = machine.resolved(.success([Self.v6[0], Self.v4[0]]), now: self.at(0))
        _ = machine.timeout(now: self.at(250))
        expectEqual(machine.failed(0, Self.refused, now: self.at(260)), .none)
        expectEqual(machine.failed(1, Self.unreachable, now: self.at(270)), .fail(Self.refused))
    }

    @Test func `a refused connection takes precedence over an unreachable address`() {
        for (first, second) in [(Self.refused, Self.unreachable), (Self.unreachable, Self.refused)] {
            var machine = self.machine()
            _ = machine.resolved(.success([Self.v6[0], Self.v4[0]]), now: self.at(0))
            _ = machine.failed(0, first, now: self.at(1))
            expectEqual(machine.failed(1, second, now: self.at(2)), .fail(Self.refused))
        }
    }

    @Test func `the time limit includes the lookup`() throws {
        var machine = self.machine()
        guard case .fail(let error) = machine.timeout(now: self.at(10_000)) else { throw Missing() }
        expect(error.code == .timedOut && error.message.contains("host:80"))
        expectEqual(machine.resolved(.success([Self.v4[0]]), now: self.at(10_001)), .none)
    }

    @Test func `the time limit includes the attempts`() throws {
        var machine = self.machine()
        _ = machine.resolved(.success([Self.v4[0]]), now: self.at(9_999))
        expectEqual(machine.nextDeadline, self.at(10_000))
        guard case .fail(let error) = machine.timeout(now: self.at(10_000)) else { throw Missing() }
        expectEqual(error.code, .timedOut)
        expectEqual(machine.connected(0), .discard)
    }

    @Test func `after a standstill, the lookup or the attempts have the time limit once more`() throws {
        for isResolved in [false, true] {
            var machine = self.machine()
            if isResolved { expectEqual(machine.resolved(.success([Self.v4[0]]), now: self.at(1)), .connect(0, Self.v4[0])) }
            expectEqual(machine.timeout(now: self.at(60_000)), .none)
            expectEqual(machine.nextDeadline, self.at(70_000))
            guard case .fail(let error) = machine.timeout(now: self.at(80_000)) else { throw Missing() }
            expectEqual(error.code, .timedOut)
        }
    }

    @Test func `a lookup that fails or returns no addresses is an error`() throws {
        var machine = self.machine()
        expectEqual(machine.resolved(.failure(Self.unreachable), now: self.at(1)), .fail(Self.unreachable))
        machine = self.machine()
        guard case .fail(let error) = machine.resolved(.success([]), now: self.at(1)) else { throw Missing() }
        expectEqual(error.code, .nameNotFound)
    }

    private struct Missing: Error {}
}

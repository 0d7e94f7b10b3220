import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

struct ConnectionPoolStateTests {
    static let a = ConnectionKey(Endpoint(scheme: "http", host: "a", port: 80), proxy: nil)
    static let b = ConnectionKey(Endpoint(scheme: "http", host: "b", port: 80), proxy: nil)

    static func second(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64(seconds * 1_000_000_000)) }

    private func pool(_ change: (inout KeepAliveLimits) -> Void = { _ in }) -> ConnectionPoolState<Int> {
        var limits = KeepAliveLimits()
        change(&limits)
        return ConnectionPoolState(limits)
    }

    @Test func `an empty pool lends nothing and has no deadline`() {
        var pool = self.pool()
        expectNil(pool.lend(Self.a, isRepeatable: true, now: Self.second(0)))
        expectNil(pool.nextDeadline)
        expect(pool.expire(now: Self.second(100)).isEmpty)
        expect(pool.removeAll().isEmpty)
    }

    @Test func `a connection is lent to one exchange at a time, the newest first`() {
        var pool = self.pool()
        for number in 1...3 { expect(pool.giveBack(number, Self.a, now: Self.second(0)).isEmpty) }
        for number in [3, 2, 1] { expectEqual(pool.lend(Self.a, isRepeatable: true, now: Self.second(1)), number) }
        expectNil(pool.lend(Self.a, isRepeatable: true, now: Self.second(1)))
        expectEqual(pool.count, 0)
    }

    @Test(arguments: [
        Endpoint(scheme: "https", host: "a", port: 80), Endpoint(scheme: "http", host: "b", port: 80),
        Endpoint(scheme: "http", host: "a", port: 81),
    ])
    func `another origin has its own connections`(_ other: Endpoint) {
        var pool = self.pool()
        _ = pool.giveBack(1, Self.a, now: Self.second(0))
        expectNil(pool.lend(ConnectionKey(other, proxy: nil), isRepeatable: true, now: Self.second(0)))
        var endpoint = Endpoint(scheme: "http", host: "a", port: 80)
        endpoint.target = "/other"
        expectEqual(pool.lend(ConnectionKey(endpoint, proxy: nil), isRepeatable: true, now: Self.second(0)), 1)
    }

    @Test func `another proxy or another user of it has its own connections`() {
        let endpoint = Endpoint(scheme: "http", host: "a", port: 80)
        let proxies: [ProxyServer?] = [
            nil, ProxyServer(kind: .http, host: "p", port: 1), ProxyServer(kind: .socks5, host: "p", port: 1),
            ProxyServer(kind: .http, host: "p", port: 1, credentials: .init(username: "u", password: "p")),
        ]
        var pool = self.pool()
        for (number, proxy) in proxies.enumerated() {
            expectNil(pool.lend(ConnectionKey(endpoint, proxy: proxy), isRepeatable: true, now: Self.second(0)))
            _ = pool.giveBack(number, ConnectionKey(endpoint, proxy: proxy), now: Self.second(0))
        }
        for (number, proxy) in proxies.enumerated() {
            expectEqual(pool.lend(ConnectionKey(endpoint, proxy: proxy), isRepeatable: true, now: Self.second(0)), number)
        }
    }

    @Test(arguments: [
        (0.0, true, true), (29.9, true, true), (30.0, true, false), (0.0, false, true), (1.9, false, true), (2.0, false, false),
    ])
    func `the time for which a connection may be idle depends on the request`(_ idle: Double, _ isRepeatable: Bool, _ isLent: Bool) {
        var pool = self.pool()
        _ = pool.giveBack(1, Self.a, now: Self.second(5))
        expectEqual((pool.lend(Self.a, isRepeatable: isRepeatable, now: Self.second(5 + idle)) == 1), isLent)
    }

    @Test func `with a time of zero, a request that cannot be repeated is lent nothing`() {
        var pool = self.pool { $0.unrepeatableIdleTime = .zero }
        _ = pool.giveBack(1, Self.a, now: Self.second(5))
        expectNil(pool.lend(Self.a, isRepeatable: false, now: Self.second(5)))
        // Another thread has given the connection back after this one has read the time.
        expectNil(pool.lend(Self.a, isRepeatable: false, now: Self.second(4)))
        expectEqual(pool.lend(Self.a, isRepeatable: true, now: Self.second(5)), 1)
    }

    @Test func `a time for requests that cannot be repeated does not extend the other one`() {
        var pool = self.pool {
            $0.idleTime = .seconds(1)
            $0.unrepeatableIdleTime = .seconds(10)
        }
        _ = pool.giveBack(1, Self.a, now: Self.second(0))
        expectNil(pool.lend(Self.a, isRepeatable: false, now: Self.second(1)))
    }

    @Test func `connections expire in order, each at its deadline`() {
        var pool = self.pool()
        for number in 0..<3 { _ = pool.giveBack(number, Self.a, now: Self.second(Double(number))) }
        expectEqual(pool.nextDeadline, Self.second(30))
        expect(pool.expire(now: Self.second(29)).isEmpty)
        expectEqual(pool.expire(now: Self.second(31)), [0, 1])
        expectEqual(pool.nextDeadline, Self.second(32))
        pool.remove(2)
        expectNil(pool.nextDeadline)
    }

    @Test func `a connection that was closed is not lent`() {
        var pool = self.pool()
        for number in 1...2 { _ = pool.giveBack(number, Self.a, now: Self.second(0)) }
        pool.remove(2)
        pool.remove(3)
        expectEqual(pool.lend(Self.a, isRepeatable: true, now: Self.second(0)), 1)
    }

    @Test func `the oldest connection of the origin makes room at the limit of the origin`() {
        var pool = self.pool { $0.connectionsPerOrigin = 2 }
        expect(pool.giveBack(0, Self.b, now: Self.second(0)).isEmpty)
        expect(pool.giveBack(1, Self.a, now: Self.second(1)).isEmpty)
        expect(pool.giveBack(2, Self.a, now: Self.second(2)).isEmpty)
        expectEqual(pool.giveBack(3, Self.a, now: Self.second(3)), [1])
        expectEqual(pool.removeAll(), [0, 2, 3])
    }

    @Test func `the oldest connection of all makes room at the total limit`() {
        var pool = self.pool { $0.connections = 2 }
        expect(pool.giveBack(0, Self.b, now: Self.second(0)).isEmpty)
        expect(pool.giveBack(1, Self.a, now: Self.second(1)).isEmpty)
        expectEqual(pool.giveBack(2, Self.a, now: Self.second(2)), [0])
        expectEqual(pool.count, 2)
    }

    @Test func `nothing is kept if a limit is zero`() {
        let changes: [(inout KeepAliveLimits) -> Void] = [
            { $0 = .off }, { $0.connections = 0 }, { $0.connectionsPerOrigin = 0 }, { $0.idleTime = .zero }, { $0.connections = -1 },
        ]
        for change in changes {
            var pool = self.pool(change)
            expectEqual(pool.giveBack(1, Self.a, now: Self.second(0)), [1])
            expect(pool.count == 0 && pool.nextDeadline == nil)
        }
    }
}

import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ResolverTests {
    private typealias LookupResult = Result<[SocketAddress], TransportError>

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("2001:db8::ff", "[2001:db8::ff]:80"), ("0.0.0.0", "0.0.0.0:80"),
    ])
    func `IP addresses are parsed and formatted`(_ text: String, _ expected: String) throws {
        let address = try #require(SocketAddress(text, port: 80))
        expectEqual(address.description, expected)
        expectEqual(address.host, text)
        let back = try #require(address.withPointer { pointer, _ in SocketAddress(pointer) })
        expectEqual(back, address)
    }

    @Test(arguments: ["localhost", "", "1.2.3.4.5", "::g", "[::1]", "host\u{0}name"])
    func `host names and invalid addresses are not parsed as IP addresses`(_ text: String) {
        expectNil(SocketAddress(text, port: 80))
    }

    @Test func `IP addresses are resolved synchronously`() {
        let addresses = Lock<[SocketAddress]>([])
        SystemResolver().resolve("192.0.2.7", port: 443) { result in
            addresses.withLock { $0 = (try? result.get()) ?? [] }
        }
        expectEqual(addresses.withLock { $0 }, [SocketAddress("192.0.2.7", port: 443)])
    }

    private func resolve(_ host: String, with resolver: SystemResolver) async -> LookupResult {
        let (stream, continuation) = AsyncStream<LookupResult>.makeStream()
        resolver.resolve(host, port: 80) { continuation.yield($0) }
        for await result in stream { return result }
        return .success([])
    }

    @Test func `localhost resolves to loopback addresses`() async throws {
        let addresses = try await self.resolve("localhost", with: SystemResolver()).get()
        expect(addresses.contains { ["127.0.0.1", "::1"].contains($0.host) })
        expectEqual(Set(addresses).count, addresses.count)
    }

    @Test(arguments: ["name.invalid", "", "a..b", "local\u{0}host"])
    func `a name without addresses is an error`(_ name: String) async {
        guard case .failure(let error) = await self.resolve(name, with: SystemResolver()) else {
            Issue.record("\(name) was found")
            return
        }
        expectEqual(error.code, .nameNotFound)
        expect(error.message.contains(name))
    }

    @Test func `concurrent lookups of the same host all complete`() async {
        let resolver = SystemResolver()
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 {
                group.addTask { if case .success = await self.resolve("localhost", with: resolver) { true } else { false } }
            }
            for await succeeded in group { expect(succeeded) }
        }
    }
}

import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct ResolverTests {
    private typealias Answer = Result<[SocketAddress], TransportError>

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("2001:db8::ff", "[2001:db8::ff]:80"), ("0.0.0.0", "0.0.0.0:80"),
    ])
    func `addresses in digits are read and written alike`(_ text: String, _ expected: String) throws {
        let address = try #require(SocketAddress(text, port: 80))
        #expect(address.description == expected)
        #expect(address.host == text)
        let back = try #require(address.withPointer { pointer, _ in SocketAddress(pointer) })
        #expect(back == address)
    }

    @Test(arguments: ["localhost", "", "1.2.3.4.5", "::g", "[::1]", "host\u{0}name"])
    func `names are no addresses`(_ text: String) {
        #expect(SocketAddress(text, port: 80) == nil)
    }

    @Test func `addresses in digits are answered from within`() {
        let answer = Lock<[SocketAddress]>([])
        SystemResolver().resolve("192.0.2.7", port: 443) { result in
            answer.withLock { $0 = (try? result.get()) ?? [] }
        }
        #expect(answer.withLock { $0 } == [SocketAddress("192.0.2.7", port: 443)])
    }

    private func ask(_ resolver: SystemResolver, _ host: String) async -> Answer {
        let (stream, continuation) = AsyncStream<Answer>.makeStream()
        resolver.resolve(host, port: 80) { continuation.yield($0) }
        for await answer in stream { return answer }
        return .success([])
    }

    @Test func `localhost is this machine`() async throws {
        let addresses = try await self.ask(SystemResolver(), "localhost").get()
        #expect(addresses.contains { ["127.0.0.1", "::1"].contains($0.host) })
        #expect(Set(addresses).count == addresses.count)
    }

    @Test(arguments: ["name.invalid", "", "a..b", "local\u{0}host"])
    func `a name without address is an error`(_ name: String) async {
        guard case .failure(let error) = await self.ask(SystemResolver(), name) else {
            Issue.record("there was an answer for \(name)")
            return
        }
        #expect(error.code == .nameNotFound)
        #expect(error.message.contains(name))
    }

    @Test func `many questions for one host are all answered`() async {
        let resolver = SystemResolver()
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 {
                group.addTask { if case .success = await self.ask(resolver, "localhost") { true } else { false } }
            }
            for await answered in group { #expect(answered) }
        }
    }
}

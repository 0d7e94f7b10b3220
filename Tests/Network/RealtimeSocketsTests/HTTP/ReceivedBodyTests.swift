import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// The memory of bodies that arrive in several pieces.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ReceivedBodyTests {
    /// Records the bodies, and where they are in memory.
    private final class Receiver: HTTPExchangeBytesEvents {
        let bodies = Lock<[(text: String, address: UInt)]>([])

        func received(_ head: HTTPResponseHead, of id: ExchangeID) {}
        func received(_ body: UnsafeRawBufferPointer, of id: ExchangeID) {
            self.bodies.withLock { $0.append((String(decoding: body, as: UTF8.self), UInt(bitPattern: body.baseAddress))) }
        }
        func ended(_ id: ExchangeID, _ error: TransportError?) {}
    }

    @Test func `pieces are joined in memory that the next body uses again`() async throws {
        let loop = try EventLoop("received-body")
        let (receiver, done) = (Receiver(), Signal())
        let input = (0..<256 << 10).map { UInt8(ascii: "a") + UInt8($0 % 26) }
        loop.execute {
            input.withUnsafeBytes { bytes in
                for _ in 0..<100 {
                    var body = ReceivedBody(limit: bytes.count, loop)
                    for start in stride(from: 0, to: bytes.count, by: 64 << 10) {
                        body.append(UnsafeRawBufferPointer(rebasing: bytes[start..<(start + (64 << 10))]))
                    }
                    body.deliver(to: receiver, of: ExchangeID(rawValue: 1))
                }
            }
            done.send()
        }
        await done.wait()
        loop.shutdown()
        let bodies = receiver.bodies.withLock { $0 }
        let expected = String(decoding: input, as: UTF8.self)
        expect(bodies.count == 100 && bodies.allSatisfy { $0.text == expected })
        expectEqual(Set(bodies.map(\.address)).count, 1)
    }
}

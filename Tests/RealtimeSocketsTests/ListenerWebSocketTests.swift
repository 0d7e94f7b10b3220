import RealtimeCore
import Testing

@testable import RealtimeSockets

@Suite(.timeLimit(.minutes(1)))
struct ListenerWebSocketTests {
    static let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

    private static func bytes(_ text: String) -> [UInt8] { [0x81, 0x80 | UInt8(text.utf8.count), 0, 0, 0, 0] + Array(text.utf8) }

    @Test func framesInTheSegmentOfTheRequestAreNotLost() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.stream.send(Array("\(Self.upgrade)\r\n".utf8) + Self.bytes("one") + Self.bytes("two"))
            #expect(await handler.events.log.wait(3) == ["opened", "one", "two"])
            let answer = await client.text(until: "\r\n\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
            #expect(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
            client.stream.send(Self.bytes("three"))
            #expect(await handler.events.log.wait(4).last == "three")
            client.close()
            #expect(await handler.events.log.wait(5).last == "closed")
        }
    }
}

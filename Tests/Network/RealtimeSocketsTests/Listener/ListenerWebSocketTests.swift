import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ListenerWebSocketTests {
    static let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

    private static func bytes(_ text: String) -> [UInt8] { [0x81, 0x80 | UInt8(text.utf8.count), 0, 0, 0, 0] + Array(text.utf8) }

    @Test func `frames that arrive with the request are not lost`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.stream.send(Array("\(Self.upgrade)\r\n".utf8) + Self.bytes("one") + Self.bytes("two"))
            await expectEqual(handler.events.log.wait(3), ["opened", "one", "two"])
            let response = await client.text(until: "\r\n\r\n")
            expect(response.hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
            expect(response.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
            client.stream.send(Self.bytes("three"))
            await expectEqual(handler.events.log.wait(4).last, "three")
            client.close()
            await expectEqual(handler.events.log.wait(5).last, "closed")
        }
    }

    @Test func `messages sent in the accept callback follow the handshake response`() async throws {
        let handler = TestHandler(onAccepted: { connection, _ in
            connection.enqueue(.text("hello"))
            connection.flush()
        })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            let text = await client.text(until: "hello")
            expect(text.status == 101 && text.hasSuffix("hello"))
            client.close()
        }
    }

    @Test func `a WebSocket closed in the accept callback sends its close frame`() async throws {
        let handler = TestHandler(onAccepted: { connection, _ in
            connection.enqueue(.text("go away"))
            connection.flush()
            connection.close(CloseCode(rawValue: 4001), reason: "unknown")
            connection.enqueue(.text("too late"))
            connection.flush()
        })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            let bytes = await client.recorder.until { $0.ended > 0 || $0.bytes.contains(sequence: Array("unknown".utf8)) }.bytes
            expectEqual(bytes.suffix(20), [0x81, 7] + Array("go away".utf8) + [0x88, 9, 0x0F, 0xA1] + Array("unknown".utf8))
            client.stream.send([0x88, 0x82, 0, 0, 0, 0, 0x0F, 0xA1] as [UInt8])
            await expectEqual(handler.events.log.wait(2), ["opened", "closed"])
            client.close()
        }
    }

    @Test func `large messages arrive complete, in their order among small ones`() async throws {
        let sizes = [1, SocketStream.sharedSize - 1, SocketStream.sharedSize, 5, 3 << 20, SocketStream.sharedSize + 1, 0, 2]
        let handler = TestHandler(onAccepted: { connection, _ in
            for (number, size) in sizes.enumerated() {
                connection.enqueue(.binary([UInt8](repeating: UInt8(number), count: size)))
                if number % 2 == 0 { connection.flush() }
            }
            connection.close(CloseCode(rawValue: 4000), reason: "end")
            connection.enqueue(.binary([UInt8](repeating: 9, count: SocketStream.sharedSize)))
            connection.flush()
        })
        var expected: [UInt8] = []
        for (number, size) in sizes.enumerated() {
            FrameEncoder.append(.binary, [UInt8](repeating: UInt8(number), count: size), mask: nil, to: &expected)
        }
        FrameEncoder.appendClose(CloseCode(rawValue: 4000), reason: "end", mask: nil, to: &expected)
        let limits = ListenerLimits.forTests.with { $0.messageBacklogBytes = 16 << 20 }
        try await withListener(handler, limits: limits) { [expected] address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            let end = Array("\r\n\r\n".utf8)
            let bytes = await client.recorder.until { $0.ended > 0 || $0.bytes.suffix(3).elementsEqual("end".utf8) }.bytes
            let start = try #require(bytes.firstRange(of: end)).upperBound
            expect(Array(bytes[start...]) == expected, "\(bytes.count) bytes")
            client.close()
        }
    }

    @Test func `a client that reads nothing is dropped at the backlog limit`() async throws {
        let handler = TestHandler()
        try await withListener(handler, limits: .forTests.with { $0.messageBacklogBytes = 1 << 20 }) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            await handler.events.log.wait(1)
            client.stream.pauseReading()
            let connection = try #require(handler.events.connections.withLock { $0.first })
            let message = TransportMessage.binary([UInt8](repeating: 7, count: 64 << 10))
            // Far more than the system's buffers take.
            for _ in 0..<1024 {
                connection.enqueue(message)
                connection.flush()
            }
            await expectEqual(handler.events.log.wait(2), ["opened", "closed"])
            connection.enqueue(message)
            connection.flush()
            client.close()
        }
    }

    @Test func `a single message may exceed the backlog limit`() async throws {
        let handler = TestHandler()
        try await withListener(handler, limits: .forTests.with { $0.messageBacklogBytes = 1000 }) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            await handler.events.log.wait(1)
            let connection = try #require(handler.events.connections.withLock { $0.first })
            connection.enqueue(.binary([UInt8](repeating: 7, count: 16 << 20)))
            connection.flush()
            await client.recorder.until { $0.ended > 0 || $0.bytes.count > 16 << 20 }
            expectEqual(client.recorder.seen.ended, 0)
            client.close()
            await expectEqual(handler.events.log.wait(2), ["opened", "closed"])
        }
    }

    @Test func `the response contains the selected subprotocol`() async throws {
        let handler = TestHandler(decide: { _ in .accept(subprotocol: "b") })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)Sec-WebSocket-Protocol: a, b\r\n\r\n")
            await expect(client.text(until: "\r\n\r\n").contains("Sec-WebSocket-Protocol: b\r\n"))
            client.close()
        }
    }

    @Test func `a subprotocol that was not offered receives status 500`() async throws {
        let handler = TestHandler(decide: { _ in .accept(subprotocol: "c") })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)Sec-WebSocket-Protocol: a, b\r\n\r\n")
            await expectEqual(client.text(until: "\n").status, 500)
            client.close()
        }
        expect(handler.events.log.entries.isEmpty)
    }

    @Test func `a rejected upgrade is an ordinary response`() async throws {
        let handler = TestHandler(decide: { head in .reject(HTTPResponse(status: 403, headers: ["X": "y"], text: "not \(head.target)")) })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            let text = await client.text(until: "not /ws")
            expect(text.status == 403 && text.contains("X: y\r\n"))
            // The connection is kept alive.
            client.request("/plain")
            await client.text(until: "GET /plain ")
            client.close()
        }
    }

    static let invalid: [(request: String, status: Int)] = [
        (Self.upgrade.replacingFirst("13", "8") + "\r\n", 426),
        (Self.upgrade.replacingFirst("dGhlIHNhbXBsZSBub25jZQ==", "short") + "\r\n", 400),
        (Self.upgrade.replacingFirst("HTTP/1.1", "HTTP/1.0") + "\r\n", 400),
        (Self.upgrade + "Content-Length: 3\r\n\r\nabc", 400),
    ]

    @Test(arguments: Self.invalid.indices)
    func `an invalid upgrade request is rejected`(_ index: Int) async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send(Self.invalid[index].request)
            await expectEqual(client.text(until: "\r\n\r\n").status, Self.invalid[index].status)
            client.close()
        }
        expect(handler.events.log.entries.isEmpty)
    }

    @Test(arguments: [
        Self.upgrade.replacingFirst("GET", "POST"), Self.upgrade.replacingFirst("Connection: Upgrade", "Connection: keep-alive"),
    ])
    func `a request whose upgrade isn't one of a WebSocket is an ordinary request`(_ request: String) async throws {
        try await withListener(TestHandler()) { address in
            let client = try RawClient(address)
            client.send("\(request)\r\n")
            await expectEqual(client.text(until: " /ws ").status, 200)
            client.close()
        }
    }

    @Test func `a WebSocket may follow requests on the same connection`() async throws {
        let waiting = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in waiting.add(responder) }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            // In one piece: a request whose response is delayed, the upgrade request, and a frame.
            client.stream.send(Array("GET /first HTTP/1.1\r\nHost: a\r\n\r\n\(Self.upgrade)\r\n".utf8) + Self.bytes("frame"))
            await waiting.wait(1).first?.respond(HTTPResponse(status: 200, text: "first"))
            await expectEqual(handler.events.log.wait(2), ["opened", "frame"])
            client.close()
        }
    }

    @Test func `every WebSocket has a unique ID`() async throws {
        let numbers = Log<ConnectionID>()
        let handler = TestHandler(onAccepted: { _, id in numbers.add(id) })
        try await withListener(handler) { address in
            let clients = try (0..<20).map { _ in try RawClient(address) }
            for client in clients { client.send("\(Self.upgrade)\r\n") }
            expectEqual(Set(await numbers.wait(20)).count, 20)
            for client in clients { client.close() }
        }
    }

    @Test func `a message over the limit closes the WebSocket with 1009`() async throws {
        try await withListener(limits: .forTests.with { $0.messageBytes = 4 }) { address in
            let client = try RawClient(address)
            client.stream.send(Array("\(Self.upgrade)\r\n".utf8) + Self.bytes("12345"))
            let seen = await client.recorder.until { $0.bytes.contains(sequence: [0x03, 0xF1]) || $0.ended > 0 }
            expect(seen.bytes.contains(sequence: [0x03, 0xF1]))
            client.close()
        }
    }
}

extension String {
    fileprivate func replacingFirst(_ part: String, _ other: String) -> String {
        guard let start = self.indices.first(where: { self[$0...].hasPrefix(part) }) else { return self }
        return self[..<start] + other + self[start...].dropFirst(part.count)
    }
}

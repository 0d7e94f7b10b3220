import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// What every transport has to do. A transport of Apple's systems joins by another ``TransportUnderTest``.
@Suite(.usesSockets, .timeLimit(.minutes(5))) struct ConformanceTests {
    @Test(arguments: TransportUnderTest.available)
    func `messages of both kinds come back in order`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (connection, probe) = net.connect()
            let head = try await probe.opened()
            #expect(head.status == 101)
            let messages = (0..<200).map { $0 % 3 == 0 ? WebSocketMessage.binary([UInt8($0)]) : .text("message \($0) ü🙂") }
            for message in messages { connection.enqueue(message) }
            connection.flush()
            for message in messages { try await probe.expect(message) }
            connection.close(.normal, reason: "")
            #expect(await probe.closed() == .requested)
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `what is sent before it is open follows the opening`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (connection, probe) = net.connect(opens: false)
            connection.enqueue(.text("early"))
            connection.flush()
            connection.open()
            _ = try await probe.opened()
            connection.enqueue(.text("late"))
            connection.flush()
            try await probe.expect(.text("early"))
            try await probe.expect(.text("late"))
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `a server that closes as it accepts is heard out`(bed: TransportUnderTest) async throws {
        let refusal = Behaviour(accepted: { connection in
            connection.enqueue(.text("why"))
            connection.close(CloseCode(rawValue: 4001), reason: "not you")
            connection.enqueue(.text("too late"))
            connection.flush()
        })
        try await bed.with(refusal) { net in
            let (_, probe) = net.connect()
            _ = try await probe.opened()
            try await probe.expect(.text("why"))
            #expect(await probe.next() == .closed(.peer(CloseCode(rawValue: 4001), "not you")))
            #expect(await net.server.ends.closed() == .requested)
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `messages of every size arrive whole`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            for size in [0, 1, 125, 126, 127, 65_535, 65_536, 1 << 20] {
                let message = WebSocketMessage.binary((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) })
                connection.enqueue(message)
                connection.flush()
                try await probe.expect(message)
            }
            connection.abandon()
        }
    }

    /// Both sides send before either has read: nobody may wait with reading until all is sent.
    @Test(arguments: TransportUnderTest.available)
    func `sixteen mebibytes arrive whole in both directions at once`(bed: TransportUnderTest) async throws {
        func message(_ factor: Int) -> WebSocketMessage {
            .binary(
                [UInt8](unsafeUninitializedCapacity: 16 << 20) { buffer, count in
                    for index in buffer.indices { buffer[index] = UInt8(truncatingIfNeeded: index &* factor) }
                    count = 16 << 20
                })
        }
        let (upwards, downwards) = (message(7), message(11))
        let speaking = Behaviour(
            opened: { connection in
                connection.enqueue(downwards)
                connection.flush()
            },
            received: { connection, message in
                connection.enqueue(.text(message == upwards ? "whole" : "not whole"))
                connection.flush()
            })
        try await bed.with(speaking) { net in
            let (connection, probe) = net.connect(opens: false)
            connection.enqueue(upwards)
            connection.open()
            _ = try await probe.opened()
            let isWhole = try await probe.message() == downwards
            #expect(isWhole)
            try await probe.expect(.text("whole"))
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `the server may speak first`(bed: TransportUnderTest) async throws {
        let greeting = Behaviour(opened: { connection in
            for number in 1...3 { connection.enqueue(.text("hello \(number)")) }
            connection.flush()
        })
        try await bed.with(greeting) { net in
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            for number in 1...3 { try await probe.expect(.text("hello \(number)")) }
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `close codes and words go both ways`(bed: TransportUnderTest) async throws {
        let closing = Behaviour(received: { connection, message in
            guard message.kind == .text else { return }
            connection.close(CloseCode(rawValue: 4321), reason: "because ü")
        })
        try await bed.with(closing) { net in
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            connection.enqueue(.text("close, please"))
            connection.flush()
            #expect(await probe.closed() == .peer(CloseCode(rawValue: 4321), "because ü"))

            let (second, secondProbe) = net.connect()
            _ = try await secondProbe.opened()
            // The first one's end, as the server has it.
            #expect(await net.server.ends.closed() == .requested)
            second.close(CloseCode(rawValue: 3000), reason: "enough")
            #expect(await secondProbe.closed() == .requested)
            #expect(await net.server.ends.closed() == .peer(CloseCode(rawValue: 3000), "enough"))
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `what was sent before the close arrives before it`(bed: TransportUnderTest) async throws {
        let closing = Behaviour(opened: { connection in
            for number in 1...50 { connection.enqueue(.text("\(number)")) }
            connection.close(.goingAway, reason: "")
        })
        try await bed.with(closing) { net in
            let (_, probe) = net.connect()
            _ = try await probe.opened()
            for number in 1...50 { try await probe.expect(.text("\(number)")) }
            #expect(await probe.closed() == .peer(.goingAway, ""))
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `an abandoned connection is noticed by the server and says no more`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            connection.abandon()
            guard case .transport = await net.server.ends.closed() else {
                Issue.record("the server should hear of a cut")
                return
            }
            connection.enqueue(.text("into the void"))
            connection.flush()
            connection.close(.normal, reason: "")
            connection.open()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `closing or abandoning before opening means no connection`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (abandoned, _) = net.connect(opens: false)
            abandoned.abandon()
            abandoned.open()
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            #expect(net.server.requests.all.count == 1)
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `pings are answered and seen`(bed: TransportUnderTest) async throws {
        let pinging = Behaviour(
            opened: { connection in
                connection.enqueue(WebSocketMessage(.ping, Array("abc".utf8)))
                connection.flush()
            },
            received: { connection, message in
                guard message.kind == .pong else { return }
                connection.enqueue(.text("pong: \(String(decoding: message.bytes, as: UTF8.self))"))
                connection.flush()
            })
        try await bed.with(pinging) { net in
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            #expect(await probe.next() == .message(WebSocketMessage(.ping, Array("abc".utf8))))
            try await probe.expect(.text("pong: abc"))
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `while reading is paused nothing comes and nothing is lost`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (connection, probe) = net.connect()
            _ = try await probe.opened()
            connection.pauseReading()
            for number in 1...1_000 { connection.enqueue(.text("\(number)")) }
            connection.flush()
            connection.resumeReading()
            connection.flush()
            for number in 1...1_000 { try await probe.expect(.text("\(number)")) }
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `subprotocols headers and targets reach the server`(bed: TransportUnderTest) async throws {
        let choosing = Behaviour(upgrade: { request in
            .accept(subprotocol: request.headers.contains("Sec-WebSocket-Protocol", token: "two") ? "two" : nil)
        })
        try await bed.with(choosing) { net in
            let (connection, probe) = net.connect("/path?query=1", subprotocols: ["one", "two"], headers: ["X-Own": "value"])
            let head = try await probe.opened()
            #expect(head.headers["Sec-WebSocket-Protocol"] == "two")
            let request = try #require(net.server.requests.all.first)
            #expect(request.target == "/path?query=1" && request.headers["X-Own"] == "value")
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available, [401, 403, 404, 429, 503])
    func `a refusal carries its status`(bed: TransportUnderTest, status: Int) async throws {
        let refusing = Behaviour(upgrade: { _ in .refuse(HTTPResponse(status: status, text: "not you")) })
        try await bed.with(refusing) { net in
            let (_, probe) = net.connect()
            guard case .transport(let error) = await probe.closed() else {
                Issue.record("it was refused")
                return
            }
            #expect(error.code == .upgradeRefused && error.status == status)
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `where nothing listens the connection is refused`(bed: TransportUnderTest) async throws {
        let ground = try bed.ground()
        // No test is given this port by the system.
        let address = ListenerAddress(host: "127.0.0.1", port: 1)
        let probe = Probe()
        let connection = ground.transport.makeConnection(
            WebSocketRequest(ground.endpoint(address)), id: ConnectionID(rawValue: 1), events: probe)
        connection.open()
        guard case .transport(let error) = await probe.closed() else {
            Issue.record("it was refused")
            return
        }
        #expect(error.code == .refused)
        connection.abandon()
    }

    @Test(arguments: TransportUnderTest.available)
    func `a server that stops says goodbye`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            let (_, probe) = net.connect()
            _ = try await probe.opened()
            await net.ground.listener.stop()
            guard case .peer(.goingAway, _) = await probe.closed() else {
                Issue.record("it should be 1001")
                return
            }
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `connections do not mix up their messages`(bed: TransportUnderTest) async throws {
        try await bed.with(.echo) { net in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for client in 0..<20 {
                    let (connection, probe) = net.connect()
                    group.addTask {
                        _ = try await probe.opened()
                        for number in 0..<50 {
                            connection.enqueue(.text("\(client)-\(number)"))
                            connection.flush()
                            try await probe.expect(.text("\(client)-\(number)"))
                        }
                        connection.abandon()
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}

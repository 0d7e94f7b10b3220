import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// The requirements for every transport. A transport is added as a case of ``TransportUnderTest``.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ConformanceTests {
    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `text and binary messages arrive in order`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (connection, probe) = connector.connect()
            let head = try await probe.opened()
            expectEqual(head.status, transport.openingStatus)
            let messages = (0..<200).map { (number: Int) -> TransportMessage in
                number % 3 == 0 ? .binary([UInt8(number)]) : .text("message \(number) ü🙂")
            }
            for message in messages { connection.enqueue(message) }
            connection.flush()
            for message in messages { try await probe.expect(message) }
            connection.close(.normal, reason: "")
            await expectEqual(probe.closed(), .requested)
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `messages enqueued before the connection is open are sent when it opens`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (connection, probe) = connector.connect(opens: false)
            connection.enqueue(.text("before"))
            connection.flush()
            connection.open()
            _ = try await probe.opened()
            connection.enqueue(.text("after"))
            connection.flush()
            try await probe.expect(.text("before"))
            try await probe.expect(.text("after"))
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `a server can send and close before the connection is open`(transport: TransportUnderTest) async throws {
        let rejecting = Behavior(accepted: { connection in
            connection.enqueue(.text("why"))
            connection.close(CloseCode(rawValue: 4001), reason: "not you")
            connection.enqueue(.text("too late"))
            connection.flush()
        })
        try await transport.with(rejecting) { connector in
            let (_, probe) = connector.connect()
            _ = try await probe.opened()
            try await probe.expect(.text("why"))
            await expectEqual(probe.next(), .closed(.peer(CloseCode(rawValue: 4001), "not you")))
            await expectEqual(connector.server.ends.closed(), .requested)
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `messages of every size arrive in full`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            for size in [0, 1, 125, 126, 127, 65_535, 65_536, 1 << 20] {
                let message = TransportMessage.binary((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) })
                connection.enqueue(message)
                connection.flush()
                try await probe.expect(message)
            }
            connection.abandon()
        }
    }

    /// Both sides send before they read. A transport that does not read until everything is sent would never finish.
    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `sixteen mebibytes arrive in full in both directions at the same time`(transport: TransportUnderTest) async throws {
        func message(_ factor: Int) -> TransportMessage {
            .binary(
                [UInt8](unsafeUninitializedCapacity: 16 << 20) { buffer, count in
                    for index in buffer.indices { buffer[index] = UInt8(truncatingIfNeeded: index &* factor) }
                    count = 16 << 20
                })
        }
        let (upwards, downwards) = (message(7), message(11))
        let speaking = Behavior(
            opened: { connection in
                connection.enqueue(downwards)
                connection.flush()
            },
            received: { connection, message in
                connection.enqueue(.text(message == upwards ? "whole" : "not whole"))
                connection.flush()
            })
        try await transport.with(speaking) { connector in
            let (connection, probe) = connector.connect(opens: false)
            connection.enqueue(upwards)
            connection.open()
            _ = try await probe.opened()
            let isWhole = try await probe.message() == downwards
            expect(isWhole)
            try await probe.expect(.text("whole"))
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `the server can send first`(transport: TransportUnderTest) async throws {
        let greeting = Behavior(opened: { connection in
            for number in 1...3 { connection.enqueue(.text("hello \(number)")) }
            connection.flush()
        })
        try await transport.with(greeting) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            for number in 1...3 { try await probe.expect(.text("hello \(number)")) }
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `close codes and reasons are reported in both directions`(transport: TransportUnderTest) async throws {
        let closing = Behavior(received: { connection, message in
            guard message.kind == .text else { return }
            connection.close(CloseCode(rawValue: 4321), reason: "because ü")
        })
        try await transport.with(closing) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            connection.enqueue(.text("close, please"))
            connection.flush()
            await expectEqual(probe.closed(), .peer(CloseCode(rawValue: 4321), "because ü"))

            let (second, secondProbe) = connector.connect()
            _ = try await secondProbe.opened()
            // The end of the first connection, as reported to the server.
            await expectEqual(connector.server.ends.closed(), .requested)
            second.close(CloseCode(rawValue: 3000), reason: "enough")
            await expectEqual(secondProbe.closed(), .requested)
            await expectEqual(connector.server.ends.closed(), .peer(CloseCode(rawValue: 3000), "enough"))
        }
    }

    /// The codes of applications, with which servers tell clients what to do.
    @Test(arguments: TransportUnderTest.withSystemTransport, [4000, 4001, 4100, 4200, 4321, 4999])
    func `close codes of applications are reported in both directions`(transport: TransportUnderTest, code: UInt16) async throws {
        let closing = Behavior(received: { connection, message in
            guard message.kind == .text else { return }
            connection.close(CloseCode(rawValue: code), reason: "because ü")
        })
        try await transport.with(closing) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            connection.enqueue(.text("close, please"))
            connection.flush()
            await expectEqual(probe.closed(), .peer(CloseCode(rawValue: code), "because ü"))
            await expectEqual(connector.server.ends.closed(), .requested)

            let (second, secondProbe) = connector.connect()
            _ = try await secondProbe.opened()
            second.close(CloseCode(rawValue: code), reason: "enough")
            await expectEqual(secondProbe.closed(), .requested)
            await expectEqual(connector.server.ends.closed(), .peer(CloseCode(rawValue: code), "enough"))
        }
    }

    @Test(arguments: TransportUnderTest.withSystemTransport)
    func `messages that wait are sent before the close frame`(transport: TransportUnderTest) async throws {
        let received = EventRecorder<TransportMessage>()
        try await transport.with(Behavior(received: { received.record($1) })) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            let messages = (1...50).map { TransportMessage.binary([UInt8](repeating: UInt8($0), count: 10_000)) }
            for message in messages { connection.enqueue(message) }
            connection.close(CloseCode(rawValue: 4000), reason: "done")
            await expectEqual(probe.closed(), .requested)
            await expectEqual(connector.server.ends.closed(), .peer(CloseCode(rawValue: 4000), "done"))
            expectEqual(received.all, messages)
        }
    }

    @Test(arguments: TransportUnderTest.withSystemTransport, [401, 403, 404, 503])
    func `a rejected upgrade reports its status`(transport: TransportUnderTest, status: Int) async throws {
        let rejecting = Behavior(upgrade: { _ in .reject(HTTPResponse(status: status, text: "not you")) })
        try await transport.with(rejecting) { connector in
            let (_, probe) = connector.connect()
            guard case .transport(let error) = await probe.closed() else {
                Issue.record("it should be rejected")
                return
            }
            expect(error.code == .upgradeRejected && error.status == status)
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `messages before a close frame are delivered before the end`(transport: TransportUnderTest) async throws {
        let closing = Behavior(opened: { connection in
            for number in 1...50 { connection.enqueue(.text("\(number)")) }
            connection.close(.goingAway, reason: "")
        })
        try await transport.with(closing) { connector in
            let (_, probe) = connector.connect()
            _ = try await probe.opened()
            for number in 1...50 { try await probe.expect(.text("\(number)")) }
            await expectEqual(probe.closed(), .peer(.goingAway, ""))
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `the server is notified of an abandoned connection`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            connection.abandon()
            guard case .transport = await connector.server.ends.closed() else {
                Issue.record("the server should report a lost connection")
                return
            }
            connection.enqueue(.text("dropped"))
            connection.flush()
            connection.close(.normal, reason: "")
            connection.open()
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `a connection that was abandoned is never opened`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (abandoned, _) = connector.connect(opens: false)
            abandoned.abandon()
            abandoned.open()
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            expectEqual(connector.server.requests.all.count, 1)
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `pings get a pong and are delivered`(transport: TransportUnderTest) async throws {
        let pinging = Behavior(
            opened: { connection in
                connection.enqueue(TransportMessage(.ping, Array("abc".utf8)))
                connection.flush()
            },
            received: { connection, message in
                guard message.kind == .pong else { return }
                connection.enqueue(.text("pong: \(String(decoding: message.bytes, as: UTF8.self))"))
                connection.flush()
            })
        try await transport.with(pinging) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            await expectEqual(probe.next(), .message(TransportMessage(.ping, Array("abc".utf8))))
            try await probe.expect(.text("pong: abc"))
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `messages that arrive while reading is paused are delivered after reading resumes`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (connection, probe) = connector.connect()
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

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `writing pauses while the peer has paused reading, and resumes`(transport: TransportUnderTest) async throws {
        let reader = EventRecorder<any MessageConnection>()
        let pausing = Behavior(
            accepted: { connection in
                connection.pauseReading()
                reader.record(connection)
            },
            received: { connection, message in
                connection.enqueue(.text("\(message.bytes.count)"))
                connection.flush()
            })
        try await transport.with(pausing) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            // More than the system's buffers take.
            for _ in 0..<4 { connection.enqueue(.binary([UInt8](repeating: 7, count: 15 << 20))) }
            connection.flush()
            await expectEqual(probe.next(), .writing(paused: true))
            // The transport still accepts messages.
            connection.enqueue(.binary([7]))
            connection.flush()
            let server = try #require(reader.all.first)
            server.resumeReading()
            server.flush()
            var events: [Probe.Event] = []
            while events.count < 6 { events.append(await probe.next()) }
            let answers = (0..<4).map { _ in Probe.Event.message(.text("\(15 << 20)")) } + [.message(.text("1"))]
            // Answers may arrive before the last bytes have been sent.
            expectEqual(events.filter { $0 != .writing(paused: false) }, answers)
            expectEqual(events.count { $0 == .writing(paused: false) }, 1)
            connection.close(.normal, reason: "")
            await expectEqual(probe.next(), .closed(.requested))
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `the server receives subprotocols, header fields and the target`(transport: TransportUnderTest) async throws {
        let choosing = Behavior(upgrade: { request in
            .accept(subprotocol: request.headers.contains("Sec-WebSocket-Protocol", token: "two") ? "two" : nil)
        })
        try await transport.with(choosing) { connector in
            let (connection, probe) = connector.connect("/path?query=1", subprotocols: ["one", "two"], headers: ["X-Own": "value"])
            let head = try await probe.opened()
            expectEqual(head.headers["Sec-WebSocket-Protocol"], "two")
            let request = try #require(connector.server.requests.all.first)
            expect(request.target == "/path?query=1" && request.headers["X-Own"] == "value")
            connection.abandon()
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP, [401, 403, 404, 429, 503])
    func `a rejection reports its status and header fields`(transport: TransportUnderTest, status: Int) async throws {
        let rejecting = Behavior(upgrade: { _ in .reject(HTTPResponse(status: status, headers: ["X-Reason": "unknown"], text: "not you")) })
        try await transport.with(rejecting) { connector in
            let (_, probe) = connector.connect()
            guard case .transport(let error) = await probe.closed() else {
                Issue.record("it should be rejected")
                return
            }
            expect(error.code == .upgradeRejected && error.status == status)
            expect(error.response?.head.status == status && error.response?.head.headers["X-Reason"] == "unknown")
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `connecting to an unused port fails as refused`(transport: TransportUnderTest) async throws {
        let setup = try transport.setup()
        // The system never assigns this port to a test.
        let address = ListenerAddress(host: "127.0.0.1", port: 1)
        let probe = Probe()
        let connection = setup.transport.makeConnection(
            WebSocketRequest(setup.endpoint(address), timeout: .seconds(600)), id: ConnectionID(rawValue: 1), events: probe)
        connection.open()
        guard case .transport(let error) = await probe.closed() else {
            Issue.record("it should be rejected")
            return
        }
        expectEqual(error.code, .refused)
        connection.abandon()
    }

    @Test(arguments: TransportUnderTest.available)
    func `a server that stops closes its connections with 1001`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            let (_, probe) = connector.connect()
            _ = try await probe.opened()
            await connector.setup.listener.stop()
            guard case .peer(.goingAway, _) = await probe.closed() else {
                Issue.record("the close code should be 1001")
                return
            }
        }
    }

    @Test(arguments: TransportUnderTest.available + TransportUnderTest.overHTTP)
    func `concurrent connections receive their own messages`(transport: TransportUnderTest) async throws {
        try await transport.with(.echo) { connector in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for client in 0..<20 {
                    let (connection, probe) = connector.connect()
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

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct WriteCountTests {
    @Test func `the response to a handshake and the server's first messages are one write`() async throws {
        let greeting = Behavior(
            accepted: { connection in
                connection.enqueue(.text("hello"))
                connection.flush()
            },
            received: { connection, _ in
                connection.enqueue(.text("\(SocketWebSocketTransport.writes(of: connection))"))
                connection.flush()
            })
        try await TransportUnderTest.sockets.with(greeting) { connector in
            let (connection, probe) = connector.connect()
            _ = try await probe.opened()
            try await probe.expect(.text("hello"))
            connection.enqueue(.text("writes"))
            connection.flush()
            try await probe.expect(.text("1"))
            connection.abandon()
        }
    }
}

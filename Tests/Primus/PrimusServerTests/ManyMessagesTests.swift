import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Clients that send more messages in one request or frame than the server takes in one turn.
@Suite struct ManyMessagesTests {
    /// How messages travel together.
    enum Way: Sendable, CaseIterable {
        case engineIO3, engineIO4, sockJSRequest, sockJSFrame
    }

    private struct Fixture {
        let clock = ManualClock()
        let time: TurnTime
        let network: InMemoryNetwork
        let server: PrimusServer
        let test: ServerUnderTest
        let received = EventRecorder<String>()
        let ends = EventRecorder<CloseReason>()
        let observations: [CallbackObservation]
        /// Releasing a client ends it.
        private let clients = EventRecorder<RawSocket>()
        let way: Way

        init(_ way: Way) async throws {
            self.way = way
            self.time = TurnTime(self.clock)
            self.network = InMemoryNetwork(clock: self.clock)
            var configuration = PrimusServerConfiguration()
            configuration.transformer = way == .engineIO3 || way == .engineIO4 ? .engineIO : .sockjs
            (configuration.pingInterval, configuration.allowsEIO3) = (nil, true)
            self.server = PrimusServer(configuration, time: self.time, epoch: InMemoryNetwork.epoch, log: .none, seed: 1)
            let address = try await self.server.start(on: self.network.listener())
            self.test = ServerUnderTest(self.clock, self.network, self.server, address)
            let (received, ends, direct) = (self.received, self.ends, CallbackExecutor { $0() })
            self.observations = [
                self.server.onMessage(on: direct) { received.record(String(decoding: $0.packet.bytes, as: UTF8.self)) },
                self.server.onDisconnection(on: direct) { ends.record($1) },
            ]
        }

        /// Sends messages together, as the elements of JSON that they are.
        ///
        /// - Returns: What answers the request; `nil` for a frame.
        func send(_ messages: [String], after: String = "") throws -> RawExchange? {
            switch self.way {
            case .engineIO3, .engineIO4:
                let isV4 = self.way == .engineIO4
                let session = try self.test.openEngineIO(isV4 ? 4 : 3)
                let packets = messages.map { isV4 ? "4\($0)" : "\($0.utf16.count + 1):4\($0)" }
                return try self.test.start(session, method: "POST", body: packets.joined(separator: isV4 ? "\u{1E}" : "") + after)
            case .sockJSRequest:
                _ = try self.test.start("/primus/0/many/xhr", method: "POST")
                return try self.test.start("/primus/0/many/xhr_send", method: "POST", body: "[\(messages.joined(separator: ","))]" + after)
            case .sockJSFrame:
                let client = self.test.client("/primus/0/many/websocket")
                self.clients.record(client.socket)
                client.send("[\(messages.joined(separator: ","))]" + after)
                return nil
            }
        }
    }

    private static func status(of way: Way) -> Int { way == .sockJSRequest ? 204 : 200 }

    @Test(arguments: Way.allCases) func `a turn takes at most 256 messages, and the request is answered after the last one`(
        way: Way
    ) async throws {
        let test = try await Fixture(way)
        let messages = (0..<1_000).map(String.init)
        let post = try test.send(messages)
        var received: [String] = []
        repeat {
            let part = test.received.take()
            expect((1...256).contains(part.count), "\(part.count)")
            received += part
            if received.count < messages.count { expectNil(post?.status) }
        } while test.time.take()
        expect(received == messages && test.ends.all.isEmpty)
        if let post { expectEqual(post.status, Self.status(of: way)) }
    }

    /// Packets without content, the smallest elements, and bytes in Base64.
    @Test(arguments: [
        (Way.engineIO3, "", ""), (.engineIO3, "1", "6:b4MQ=="), (.engineIO4, "", ""), (.engineIO4, "1", "\u{1E}bMQ=="),
        (.sockJSRequest, #""""#, ""), (.sockJSRequest, #""1""#, ""), (.sockJSFrame, #""""#, ""), (.sockJSFrame, "[]", ""),
    ])
    func `a turn takes at most 256 messages, however small they are`(way: Way, message: String, after: String) async throws {
        let test = try await Fixture(way)
        let post = try test.send(Array(repeating: message, count: 600), after: String(repeating: after, count: 600))
        var received = 0
        repeat {
            let part = test.received.take()
            expect(part.count <= 256 && Set(part).count <= 1, "\(part.count)")
            received += part.count
        } while test.time.take()
        expectEqual(received, after.isEmpty ? 600 : 1_200)
        expect(test.ends.all.isEmpty && (post == nil || post?.status == Self.status(of: way)))
    }

    @Test(arguments: Way.allCases) func `what the server sends meanwhile arrives`(way: Way) async throws {
        let test = try await Fixture(way)
        _ = try test.send((0..<600).map(String.init))
        try test.server.sparks.first?.write("now")
        let poll: RawExchange? =
            switch way {
            case .engineIO3: try test.test.start("/primus/?EIO=3&transport=polling&sid=\(test.server.sparks[0].id)")
            case .engineIO4: try test.test.start("/primus/?EIO=4&transport=polling&sid=\(test.server.sparks[0].id)")
            case .sockJSRequest: try test.test.start("/primus/0/many/xhr", method: "POST")
            case .sockJSFrame: nil
            }
        if let poll { expect(poll.body.contains("now"), "\(poll.body)") }
        expect(test.received.all.count < 600)
        while test.time.take() {}
        expectEqual(test.received.all.count, 600)
    }

    @Test(arguments: [Way.engineIO3, .engineIO4], ["close", "unknown"])
    func `packets before the one that ends the session are delivered, and those after it aren't`(way: Way, kind: String) async throws {
        let test = try await Fixture(way)
        let type = kind == "close" ? "1" : "9"
        let after = way == .engineIO4 ? "\u{1E}\(type)\u{1E}4after" : "1:\(type)6:4after"
        let post = try test.send((0..<700).map(String.init), after: after)
        while test.time.take() {}
        expectEqual(test.received.all, (0..<700).map(String.init))
        expectEqual(test.ends.all.count, 1)
        expect((test.ends.all.first == .peer(.normal, "")) == (kind == "close"), "\(test.ends.all)")
        expectEqual(post?.status, 200)
        expect(test.server.sparks.isEmpty)
    }

    @Test(arguments: [Way.sockJSRequest, .sockJSFrame]) func `an array that isn't valid at its end has no effect`(way: Way) async throws {
        let test = try await Fixture(way)
        let post = try test.send((0..<700).map(String.init), after: ",")
        while test.time.take() {}
        expect(test.received.all.isEmpty)
        if way == .sockJSRequest {
            expect(post?.status == 500 && test.server.sparks.count == 1)
        } else {
            expect(test.server.sparks.isEmpty)
        }
    }

    @Test(arguments: Way.allCases) func `the messages of a client that the server ends meanwhile aren't delivered any more`(
        way: Way
    ) async throws {
        let test = try await Fixture(way)
        _ = try test.send((0..<700).map(String.init))
        try #require(test.server.sparks.first).end()
        while test.time.take() {}
        expectEqual(test.received.all, (0..<256).map(String.init))
    }
}

extension SockJSMessageDivider {
    /// The parts of a message.
    fileprivate mutating func parts(_ text: String) -> [String] {
        var batch = MessageBatch()
        var position = 0
        Array(text.utf8).withUnsafeBytes { bytes in
            repeat {
                let end = self.appendPart(of: .text, bytes, from: &position, to: &batch)
                expectNil(end)
            } while position < bytes.count
        }
        return batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }
    }
}

@Suite struct SockJSMessageDividerTests {
    @Test(arguments: [0, 1, 255, 256, 257, 512, 513, 1_000]) func `the parts of an array have its elements, 256 in each`(count: Int) {
        var divider = SockJSMessageDivider()
        let values = [#""a""#, #""\\""#, #""[\"]""#, "1", "null", #"[1,[2,"]"]]"#, #"{"a":[1,2],"b":"}"}"#, "\"ß😀\""]
        let elements = (0..<count).map { values[$0 % values.count] }
        let parts = divider.parts("[\(elements.joined(separator: ","))]")
        let expected = stride(from: 0, to: max(1, count), by: 256).map { start in
            "[\(elements[start..<min(count, start + 256)].joined(separator: ","))]"
        }
        expectEqual(parts, expected)
    }

    @Test(arguments: [#"[1,2"#, #"{"a":1}"#, #""a""#, "x", #"[1,]"#, #"[1]]"#]) func `what isn't an array stays whole`(text: String) {
        var divider = SockJSMessageDivider()
        expectEqual(divider.parts(text), [text])
    }
}

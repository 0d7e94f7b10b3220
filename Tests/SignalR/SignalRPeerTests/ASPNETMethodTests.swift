import Foundation
import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Values of different types, as an array.
private struct Mixture: Encodable, Sendable {
    func encode(to encoder: any Encoder) throws {
        var values = encoder.unkeyedContainer()
        try values.encode("héllo")
        try values.encode(-70_000)
        try values.encode(1.5)
        try values.encode(true)
        try values.encode([1, 2])
        try values.encodeNil()
    }
}

/// The value that .NET writes for a `DateTimeOffset` in MessagePack: the local time as if it were UTC, and its offset in minutes.
private struct LocalTime: Encodable, Sendable {
    let local: Date
    let minutes: Int

    func encode(to encoder: any Encoder) throws {
        var values = encoder.unkeyedContainer()
        try values.encode(self.local)
        try values.encode(self.minutes)
    }
}

/// Further methods and paths of the ASP.NET Core server in its own process.
@Suite(.usesSockets, .requires(.peers("aspnet")), .timeLimit(.minutes(10)))
struct ASPNETMethodTests {
    // MARK: Calls by the server

    @Test(arguments: HubPair.allCases)
    func `a value that the server passes back is an argument of the handler`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let texts = EventRecorder<String?>()
        let numbers = EventRecorder<Double>()
        let lists = EventRecorder<[Int]>()
        let maps = EventRecorder<[String: Bool]>()
        hub.on("text") { (value: String?) in texts.record(value) }
        hub.on("number") { (value: Double) in numbers.record(value) }
        hub.on("list") { (value: [Int]) in lists.record(value) }
        hub.on("map") { (value: [String: Bool]) in maps.record(value) }
        let expectedTexts: [String?] = ["", "héllo 🌍\u{1E}\n\"\\", nil]
        let expectedNumbers: [Double] = [0, -1, 1.5, 1e300]
        let expectedLists: [[Int]] = [[], [1, -2, 70_000]]
        let expectedMaps: [[String: Bool]] = [["a": true, "B": false, "ü": true]]
        for value in expectedTexts { try await hub.invoke("CallBack", "text", value) }
        for value in expectedNumbers { try await hub.invoke("CallBack", "number", value) }
        for value in expectedLists { try await hub.invoke("CallBack", "list", value) }
        for value in expectedMaps { try await hub.invoke("CallBack", "map", value) }
        // The last call of the server: handlers are called in order.
        try await eventually { maps.all.count == expectedMaps.count }
        expectEqual(texts.all, expectedTexts)
        expectEqual(numbers.all, expectedNumbers)
        expectEqual(lists.all, expectedLists)
        expectEqual(maps.all, expectedMaps)
        try await hub.send("CallBack", "text", "sent")
        try await eventually { texts.all.last == "sent" }
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `each element that the server passes back is an argument of the handler`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let received = EventRecorder<String>()
        hub.on("six") { (text: String, number: Int, fraction: Double, flag: Bool, list: [Int], none: String?) in
            received.record("\(text) \(number) \(fraction) \(flag) \(list) \(none ?? "nil")")
        }
        hub.on("nine") { (a: Int, b: Int, c: Int, d: Int, e: Int, f: Int, g: Int, h: Int, i: Int) in
            received.record("\(a)\(b)\(c)\(d)\(e)\(f)\(g)\(h)\(i)")
        }
        hub.on("none") { received.record("none") }
        try await hub.invoke("CallBackMany", "six", Mixture())
        try await hub.invoke("CallBackMany", "nine", Array(1...9))
        // Further arguments are ignored.
        try await hub.invoke("CallBackMany", "nine", Array(1...12))
        try await hub.invoke("CallBackMany", "none", [Int]())
        try await eventually { received.all.last == "none" }
        expectEqual(received.all, ["héllo -70000 1.5 true [1, 2] nil", "123456789", "123456789", "none"])
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a call with fewer arguments than the handler has is reported, and a sequence decodes it`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let received = EventRecorder<String>()
        hub.on("pair") { (a: Int, b: Int) in received.record("\(a) \(b)") }
        let (updates, calls) = (hub.updates(), hub.invocations(of: "pair"))
        try await hub.invoke("CallBackMany", "pair", [1])
        let update = await updates.first { if case .error = $0 { true } else { false } }
        guard case .error(let error)? = update else { return expect(false, "the call should be reported") }
        expect(error.code == .decodingFailed && error.message.contains("Expected argument 2 of type Int"), "\(error.message)")
        try await hub.invoke("CallBackMany", "pair", [2, 3])
        try await eventually { received.all == ["2 3"] }
        let iterator = calls.makeAsyncIterator()
        let first = try #require(await iterator.next())
        let only: Int = try first.decode(Int.self)
        expectEqual(only, 1)
        let second = try #require(await iterator.next())
        let (a, b) = try second.decode(Int.self, Int.self)
        expect(a == 2 && b == 3)
        hub.stop()
    }

    // MARK: Values and counts

    @Test(arguments: HubPair.allCases)
    func `a date with an offset is the same point in time`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        // 2026-01-31 12:00, as if it were UTC.
        let local = 1_769_860_800.0
        for (offset, minutes) in [("+02:00", 120), ("-05:30", -330), ("+00:00", 0), ("+14:00", 840)] {
            let expected = Date(timeIntervalSince1970: local - Double(minutes) * 60)
            let result: Date
            switch pair.format {
            case .json: result = try await hub.invoke("EchoOffset", "2026-01-31T12:00:00\(offset)", as: Date.self)
            case .messagePack:
                let value = LocalTime(local: Date(timeIntervalSince1970: local), minutes: minutes)
                result = try await hub.invoke("EchoOffset", value, as: Date.self)
            }
            expectEqual(result, expected, "\(offset)")
        }
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `the server counts the streams that ended and those that were cancelled`(pair: HubPair) async throws {
        // A server of its own: other tests open streams on the shared one.
        let server = try await ASPNETServer()
        let hub = try await server.connected("/test", pair)
        try await expectEqual(hub.invoke("StreamCounts", as: [String: Int].self), ["started": 0, "cancelled": 0, "finished": 0])
        try await expectEqual(hub.stream("Counter", 3, 0, of: Int.self).all().elements, [0, 1, 2])
        try await eventually("one stream that ended") {
            try await hub.invoke("StreamCounts", as: [String: Int].self) == ["started": 1, "cancelled": 0, "finished": 1]
        }
        for try await item in try hub.stream("Counter", 1_000_000, 1, of: Int.self) where item == 3 { break }
        try await eventually("one stream that was cancelled") {
            try await hub.invoke("StreamCounts", as: [String: Int].self) == ["started": 2, "cancelled": 1, "finished": 1]
        }
        try await expectEqual(server.control("streams", "GET")["cancelled"], 1)
        hub.stop()
    }

    /// The second parameter of the method is a `CancellationToken`. ASP.NET Core 10 provides one only to methods that return a stream, and
    /// otherwise expects it from the client.
    @Test(arguments: HubPair.allCases)
    func `a call with fewer arguments than the method has is an error with both numbers`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let error = await hubError { try await hub.invoke("Optional", "text", as: String.self) }
        let text = error?.serverMessage ?? "no error"
        expect(error?.code == .invocationFailed && text.contains("1 argument(s)") && text.contains("expects 2"), "\(text)")
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
    }

    // MARK: Paths

    /// The second path allows stateful reconnect, which the client doesn't ask for.
    @Test(arguments: [HubPair.json, .messagePack], ["/ws", "/stateful"])
    func `a client connects where the server offers only WebSockets`(pair: HubPair, path: String) async throws {
        let server = try await ASPNETServer.shared.value
        for skips in [false, true] {
            let hub = try await server.connected(path, pair) { ($0.allowedTransports, $0.skipsNegotiation) = (.webSockets, skips) }
            let id = try await hub.invoke("ConnId", as: String.self)
            expectEqual(hub.connectionID, (skips ? nil : id))
            try await expectEqual(hub.invoke("Transport", as: String.self), "WebSockets")
            try await expectEqual(hub.stream("Stream", of: String.self).all().elements, ["a", "b", "c"])
            hub.on("double") { (a: Int) in 2 * a }
            try await expectEqual(hub.invoke("AskClient", "double", 21, as: Int.self), 42)
            hub.stop()
        }
    }
}

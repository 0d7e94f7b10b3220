import Foundation
import PrimusSwift
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The defects of Primus-Objc that this client doesn't have.
@Suite(.timeLimit(.minutes(10))) struct DefectTests {
    @Test(arguments: [PrimusServerConfiguration.Version.v8, .v6])
    func `the connection survives hours of heartbeats, which aren't data`(version: PrimusServerConfiguration.Version) async throws {
        var server = PrimusServerConfiguration()
        server.version = version
        let test = try await PrimusFixture(server)
        try await test.open()
        let id = test.memory.server.sparks[0].id
        for _ in 0..<1500 { test.memory.clock.advance(by: .seconds(5)) }
        expect(test.memory.server.sparks.map(\.id) == [id] && !test.trace.all.contains("data") && !test.trace.all.contains("end"))
    }

    @Test func `a lost pong is noticed`() async throws {
        var server = PrimusServerConfiguration()
        (server.version, server.silenceTimeout) = (.v6, .seconds(600))
        let test = try await PrimusFixture(server) { ($0.ping, $0.pong) = (20, 5) }
        try await test.open()
        test.memory.server.faults.isSilent = true
        for _ in 0..<27 { test.memory.clock.advance(by: .seconds(1)) }
        try await eventually { test.trace.all.contains("offline") }
    }

    @Test func `end cancels a scheduled reconnect`() async throws {
        let test = try await PrimusFixture()
        try await test.open()
        test.memory.network.cut()
        try await eventually { test.trace.all.last == "reconnect scheduled" }
        test.primus.end()
        try await test.settle()
        expect(test.trace.all.last == "end" && test.memory.server.sparks.isEmpty)
    }

    @Test func `strings with quotes, and values that aren't objects, arrive unchanged`() async throws {
        let test = try await PrimusFixture()
        let received = EventRecorder<PrimusValue>()
        let echo = test.memory.server.onMessage { message in _ = try? message.spark.write(message.value) }
        test.primus.on("data", queue: test.queue) { (value: PrimusValue) in received.record(value) }
        try await test.open()
        let text = "\"quoted\" \\ \n\u{2028}\u{2029} 🚀"
        let values: [Any] = [
            text, 0, 1.5, true, NSNull(), [1, "a", [2]] as [Any], ["a": ["b": NSNull()]] as [String: Any], NSNumber(value: 5),
        ]
        for value in values { expect(test.primus.write(value)) }
        try await eventually { received.all.count == values.count }
        expectEqual(received.all, [.string(text), 0, 1.5, true, nil, [1, "a", [2]], ["a": ["b": nil]], 5])
        withExtendedLifetime(echo) {}
    }

    private struct Reading: Codable, Hashable {
        var sensor: Int
        var data: Data?
    }

    @Test func `values of each type that can be written arrive, and come back as objects of Foundation`() async throws {
        var server = PrimusServerConfiguration()
        server.parser = .msgpack
        let test = try await PrimusFixture(server)
        let (received, seen) = (EventRecorder<PrimusValue>(), EventRecorder<String>())
        let echo = test.memory.server.onMessage { message in
            received.record((try? message.value) ?? nil)
            _ = try? message.spark.write(message.value)
        }
        test.primus.on("data", queue: test.queue) { (value: Any) in seen.record("\(type(of: value))") }
        try await test.open()
        let (date, none) = (Date(timeIntervalSince1970: 1.5), Int?.none)
        let values: [(Any, PrimusValue)] = [
            (["a": 1], ["a": 1]),
            (
                ["a": date, "b": [Data([1])], "c": none as Any] as [String: Any],
                ["a": .date(PrimusDate(milliseconds: 1500)), "b": [.bytes([1])], "c": nil]
            ),
            ([1.5, 2.5], [1.5, 2.5]), (Data([1, 2]), .bytes([1, 2])), (date, .date(PrimusDate(milliseconds: 1500))),
            (UInt8(200), 200), (Int16(-300), -300), (Float(0.5), 0.5), (NSNumber(value: true), true), (NSNumber(value: 0.5), 0.5),
            (NSString("text"), "text"), (none as Any, nil), (Reading(sensor: 7, data: Data([3])), ["sensor": 7, "data": .bytes([3])]),
            ([Reading(sensor: 8)], [["sensor": 8]]), (PrimusValue.bool(false), false),
        ]
        for (value, _) in values { expect(test.primus.write(value)) }
        try await eventually { seen.all.count == values.count }
        for (value, expected) in zip(received.all, values.map(\.1)) { expectEqual(value, expected) }
        let types = Dictionary(grouping: zip(seen.all, values.map(\.1)), by: \.0).mapValues(\.count)
        expect(types["Data"] == 1 && types["Date"] == 1 && types["NSNull"] == 1 && types["Bool"] == 2 && types["String"] == 1, "\(types)")
        withExtendedLifetime(echo) {}
    }

    @Test func `a value that can't be written is an error, and the connection survives`() async throws {
        final class Unknown {}
        let test = try await PrimusFixture()
        try await test.open()
        expect(!test.primus.write(Unknown()) && !test.primus.write(["a": [Unknown()]]) && !test.primus.write(Double.nan))
        try await eventually { test.trace.all.filter { $0 == "error" }.count == 3 }
        expect(test.primus.readyState == .open && test.primus.write(1))
    }

    @Test func `the delays of two clients differ, and aren't rounded`() async throws {
        expectEqual(Set((0..<4).map { _ in Transports.standard.seed() }).count, 4)
        var delays: Set<Double> = []
        for seed in 1...4 {
            let test = try await PrimusFixture()
            // In memory, tests have the same delays each time.
            test.options.transports = test.memory.network.transports(seed: UInt64(seed))
            let seen = EventRecorder<Double>()
            test.primus.on("reconnect scheduled", queue: test.queue) { (options: PrimusReconnectOptions) in seen.record(options.scheduled) }
            try await test.open()
            test.memory.network.cut()
            try await eventually { !seen.all.isEmpty }
            delays.formUnion(seen.all)
        }
        expect(delays.count == 4 && delays.allSatisfy { $0 >= 0.5 && $0 <= 1 && $0 != 1 })
    }

    @Test func `opening doesn't block the thread while the server is asked what it speaks`() async throws {
        let test = try await PrimusFixture()
        test.memory.network.condition = .silent
        // The server never answers, and no time passes.
        await MainActor.run {
            test.primus.open()
            expect(test.primus.readyState == .opening && !test.primus.writable)
            test.primus.end()
        }
        try await test.awaits("end")
    }

    @Test func `requests have the header fields of the application`() async throws {
        let heads = EventRecorder<HTTPHeaders>()
        var server = PrimusServerConfiguration()
        server.authorize = { head in
            heads.record(head.headers)
            return .accept
        }
        let test = try await PrimusFixture(server)
        test.primus.request.setValue("Bearer token", forHTTPHeaderField: "Authorization")
        try await test.open()
        expect(heads.all.allSatisfy { $0["Authorization"] == "Bearer token" } && !heads.all.isEmpty)
    }

    @Test func `a network that changes doesn't end or double a connection that works`() async throws {
        let monitor = NetworkPathMonitor()
        let test = try await PrimusFixture { $0.transports?.networkPath = monitor }
        try await test.open()
        let id = test.memory.server.sparks[0].id
        for _ in 0..<5 {
            monitor.pathChanged()
            test.memory.clock.advance(by: .seconds(5))
        }
        try await test.settle()
        expect(test.memory.server.sparks.map(\.id) == [id] && !test.trace.all.contains("outgoing::open"))
    }
}

import Dispatch
import Foundation
import PeerSupport
import PrimusSwift
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

/// The API of Primus-Objc with the servers of Primus 8 and 6.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)),
    .requires(.peers("primus", "primus6")))
struct PeerTests {
    @Test(arguments: ["primus", "primus6"])
    func `a session with a server of Primus has the events of the client for JavaScript`(name: String) async throws {
        let peer = try Peer(name, ["--plugins", "emitter"])
        let url = try #require(URL(string: try await peer.ready()["url"]?.string ?? ""))
        let options = PrimusConnectOptions()
        (options.manual, options.plugins, options.log) = (true, ["emitter": PrimusEmitterPlugin.self], .none)
        // Beside heavy load, connecting takes long.
        options.timeout = 300
        let primus = Primus(url: url, options: options)
        let (trace, data, queue) = (EventRecorder<String>(), EventRecorder<String>(), DispatchQueue(label: "listeners"))
        // Beside other work, the test may take longer than the interval of the heartbeat.
        let heartbeat = ["incoming::ping", "incoming::pong", "outgoing::ping", "outgoing::pong", "incoming::id", "incoming::data"]
        for event in PrimusFixture.events where !heartbeat.contains(event) && event != "reconnecting" {
            primus.on(event, queue: queue) { trace.record(event) }
        }
        primus.on("incoming::data", queue: queue) { (packet: String) in
            if !packet.contains("primus::") { trace.record("incoming::data") }
        }
        primus.on("data", queue: queue) { (text: String) in data.record(text) }
        primus.open()
        try await eventually { trace.all.last == "open" }
        primus.write("\"quoted\" \\ \u{2028}")
        try await eventually { data.all == ["\"quoted\" \\ \u{2028}"] }
        primus.end()
        try await eventually { trace.all.last == "end" }
        expectEqual(
            trace.all,
            [
                "outgoing::open", "readyStateChange", "outgoing::end", "outgoing::url", "incoming::open", "initialised", "readyStateChange",
                "open", "outgoing::data", "incoming::data", "data", "readyStateChange", "outgoing::end", "close", "end",
            ])
    }
}

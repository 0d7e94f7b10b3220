import TestSupport

// snippet:PrimusSwiftTesting
import Foundation
import PrimusSwift
import PrimusTesting
import Testing

@Test func `a reading reaches a listener`() async throws {
    let memory = try await InMemoryPrimus()
    let options = PrimusConnectOptions()
    options.transports = memory.network.transports()
    options.log = .none
    let primus = Primus(url: URL(string: memory.url)!, options: options)
    let readings = EventRecorder<Double>()
    primus.on("data") { (data: [String: Double]) in readings.record(data["celsius"] ?? 0) }

    try await eventually { primus.readyState == .open }
    try memory.server.write(["celsius": 21.5])
    try await eventually { readings.all == [21.5] }
    primus.end()
}
// end

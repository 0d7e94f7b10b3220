import PrimusClient
import PrimusServer
import PrimusTesting
import RealtimeTesting
import TestSupport

@testable import PrimusSwift

/// A server and a client, with a value of each type that one has received from the other.
struct ExchangedValues {
    let memory: InMemoryPrimus
    let client: PrimusConnection
    let spark: PrimusSpark
    let received: [Any]

    init(configure: (inout PrimusConfiguration) -> Void = { _ in }) async throws {
        var configuration = PrimusServerConfiguration()
        configuration.plugins = [.emitter, .multiplex, .substream, .responder]
        self.memory = try await InMemoryPrimus(configuration: configuration)
        let (server, received) = (self.memory.server, EventRecorder<any Sendable>())
        self.client = self.memory.client {
            $0.plugins = [.emitter, .multiplex, .substream, .responder]
            configure(&$0)
        }
        self.client.open()
        try await self.client.opened()
        let channel = self.client.channel("room")
        let observations: [Any] = [
            server.onMessage { received.record($0) }, server.on(nil) { received.record($0) },
            server.onChannel("room") { received.record($0) },
            self.client.onMessage(on: .tasks) { received.record($0) },
            self.client.emitter.on("news", on: .tasks) { received.record($0) },
            self.client.onRequest(on: .tasks) { received.record($0) },
            channel.onMessage(on: .tasks) { received.record($0) },
        ]
        try await self.client.write(["a": 1])
        try await self.client.emitter.send("hello", "x", ["b": 2])
        try await channel.write([3])
        try await eventually { server.sparks.count == 1 && received.all.count >= 3 }
        self.spark = server.sparks[0]
        try self.spark.write(["c": 4])
        try self.spark.send("news", 5, nil as Int?)
        let question = Task { [spark] in try await spark.request(6, as: Int.self) }
        for case let event as PrimusChannelEvent in received.all { if case .message(let channel, _) = event { try channel.write("d") } }
        try await eventually { received.all.count >= 7 }
        question.cancel()
        withExtendedLifetime(observations) {}
        var values: [Any] = received.all
        for value in received.all {
            switch value {
            case let call as PrimusServerCall: values.append(call.arguments)
            case let event as PrimusEmitterEvent: values.append(PrimusAcknowledgement(event))
            case let event as PrimusChannelEvent:
                if case .message(let channel, let payload) = event { values += [channel, payload] as [Any] }
            default: break
            }
        }
        self.received = values
    }
}

import PrimusServer

/// The behavior of `serve primus` and of the servers in the demo.
enum DemoSparks {
    /// Sends each message and each event to all clients, and answers what a client waits for with the same values.
    ///
    /// - Returns: The registrations. Releasing them ends the behavior.
    static func add(to server: PrimusServer) -> [CallbackObservation] {
        let plugins = server.configuration.plugins
        var registrations = [
            // The server outlives its callbacks, and must not be kept by them. What a parser can't carry has no answer.
            server.onMessage { [weak server] message in
                guard let value = try? message.value else { return }
                try? server?.write(value)
            }
        ]
        if !plugins.isDisjoint(with: [.emitter, .emit]) {
            registrations.append(
                server.on(nil) { [weak server] call in
                    guard let values = try? call.arguments.values else { return }
                    if call.expectsAcknowledgement {
                        try? call.acknowledge(values: values)
                    } else if call.channel == nil {
                        try? server?.send(call.event, values: values)
                    }
                })
        }
        if plugins.contains(.responder) {
            registrations.append(
                server.onRequest { _, payload, respond in
                    if let value = try? payload.value { respond(value) }
                })
        }
        if plugins.contains(.multiplex) {
            registrations.append(
                server.onChannel("echo") { event in
                    if case .message(let channel, let payload) = event, let value = try? payload.value { try? channel.write(value) }
                })
        }
        if plugins.contains(.substream) {
            registrations.append(
                server.onSubstream("echo") { spark, payload in
                    if let value = try? payload?.value { try? spark.write(value, toSubstream: "echo") }
                })
        }
        return registrations
    }
}

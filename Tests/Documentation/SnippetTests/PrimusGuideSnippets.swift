import PrimusTesting
import RealtimeSockets

// The snippets of the articles on Primus.

private struct Tokens: Sendable {
    func current() async throws -> String { "token" }
}

private func connect() async throws {
    // snippet:primus-connect
    let primus = PrimusConnection(try PrimusConfiguration(url: "https://example.org/primus"))
    primus.open()
    let sparkID = try await primus.opened(within: .seconds(10))
    // end
    _ = sparkID
}

private func receive(_ primus: PrimusConnection) async throws {
    struct Reading: Codable, Sendable {
        let sensor: Int
        let celsius: Double
    }
    // snippet:primus-receive
    for await reading in primus.messages(as: Reading.self) {
        print(reading.sensor, reading.celsius)
    }
    // end
    // snippet:primus-send
    try await primus.write(Reading(sensor: 7, celsius: 21.5))
    try await primus.write(["sensor": 7, "unit": "celsius"] as PrimusValue)
    primus.enqueue("started")
    // end
    // snippet:primus-value-access
    for await message in primus.messages {
        switch try message.value {
        case .string(let text): print(text)
        case let value: print(value["sensor"]?.int ?? 0, value["time"]?.date?.milliseconds ?? 0)
        }
    }
    // end
}

private func callback(_ primus: PrimusConnection) {
    // snippet:primus-callback
    let observation = primus.onMessage { message in
        print(message.raw.bytes.count)
    }
    // end
    _ = observation
}

private func observe(_ primus: PrimusConnection) async {
    // snippet:primus-states
    for await state in primus.states {
        switch state {
        case .opening: print("connecting")
        case .open: print("connected")
        case .reconnecting(let error): print("connection lost: \(error.message)")
        case .closed(let error?): print("ended: \(error.message)")
        case .closed(nil): print("not connected")
        }
    }
    // end
}

private func closeCodes(_ primus: PrimusConnection) async {
    // snippet:primus-close-code
    for await error in primus.errors where error.serverCode == .webSocket(.tooLarge) || error.serverCode == .sockJSAnotherConnection {
        print(error.serverCode?.description ?? "", error.message)
    }
    // end
}

private func end(_ primus: PrimusConnection) async throws {
    // snippet:primus-end
    try await primus.end("bye")
    primus.end()
    // end
}

private func queue(_ primus: PrimusConnection, _ configuration: inout PrimusConfiguration) async throws {
    // snippet:primus-queue
    configuration.queue = .dropOldest(100)
    try await primus.write("now or never", ifNotOpen: .failIfNotOpen)
    // end
}

private func dialect(_ configuration: inout PrimusConfiguration) {
    // snippet:primus-dialect
    configuration.detection = .off
    configuration.transformer = .engineIO
    configuration.parser = .msgpack
    // end
    // snippet:primus-custom-parser
    configuration.customParser = Lines()
    // end
}

private func polling(_ configuration: inout PrimusConfiguration, _ primus: PrimusConnection) async {
    // snippet:primus-polling-only
    configuration.allowedTransports = .polling
    // end
    // snippet:primus-starts-with-polling
    configuration.startsWithPolling = true
    // end
    // snippet:primus-transport-updates
    for await update in primus.updates() {
        if case .transport(let kind) = update { print("connected over \(kind)") }
    }
    // end
    // snippet:primus-webSockets-only
    configuration.allowedTransports = .webSockets
    // end
}

private func transformer(_ configuration: inout PrimusConfiguration) {
    // snippet:primus-custom-transformer
    struct Enveloped: PrimusCustomTransformer {
        let name = "enveloped"
        func packets(in message: TransportMessage) throws -> [TransportMessage] {
            [.text(String(decoding: message.bytes.dropFirst(), as: UTF8.self))]
        }
        func message(for packet: TransportMessage) -> TransportMessage {
            .text(">" + String(decoding: packet.bytes, as: UTF8.self))
        }
    }
    configuration.customTransformer = Enveloped()
    // end
}

private func plugins() async throws {
    // snippet:primus-plugins
    var configuration = try PrimusConfiguration(url: "https://example.org/primus")
    configuration.plugins = [.emitter, .multiplex, .responder]
    let primus = PrimusConnection(configuration)
    primus.open()
    // end
}

private func acknowledged(_ primus: PrimusConnection) async throws {
    // snippet:primus-acknowledged
    let total: Int = try await primus.emitter.send("add", 1, 2, within: .seconds(10))
    // end
    _ = total
}

private func channelEvents(_ primus: PrimusConnection) async throws {
    // snippet:primus-channel-events
    let news = primus.channel("news")
    try await news.emitter.send("read", 17)
    news.leave()
    // end
}

private func answer(_ primus: PrimusConnection) async throws {
    // snippet:primus-answer
    for await request in primus.requests {
        let question: String = try request.decode()
        try request.respond("The answer to \(question)")
    }
    // end
}

private func retry(_ configuration: inout PrimusConfiguration) {
    // snippet:primus-retry
    configuration.retry = .backoff(PrimusBackoff(minimum: .seconds(1), maximum: .seconds(60), retries: 20))
    configuration.retry = .delays([.zero, .seconds(2), .seconds(10)])
    configuration.retry = .custom { context in
        context.elapsed < .seconds(600) ? .seconds(5) : nil
    }
    // end
    // snippet:primus-strategies
    configuration.strategies = [.disconnect, .online]
    // end
    // snippet:primus-pings
    configuration.webSocketPingInterval = .seconds(15)
    // end
}

private func authorize(_ configuration: inout PrimusConfiguration, _ tokens: Tokens) throws {
    // snippet:primus-authorization
    configuration.headers["X-Device"] = "sensor-7"
    configuration.credentials = { PrimusCredentials(query: [("token", try await tokens.current())]) }
    // end
    // snippet:primus-request-url
    configuration.requestURL = { endpoint in
        var endpoint = endpoint
        endpoint.addQuery("version", "2")
        return endpoint
    }
    // end
}

private func refused(_ primus: PrimusConnection) async throws {
    // snippet:primus-refused
    do {
        try await primus.opened()
    } catch {
        print(error.code, error.status ?? 0, error.serverMessage ?? "")
    }
    // end
}

private func serverOnAPort() async throws {
    // snippet:primus-server-port
    var configuration = PrimusServerConfiguration()
    configuration.transformer = .engineIO
    configuration.plugins = .all
    let server = PrimusServer(configuration: configuration)
    let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
    let address = try await server.start(on: SocketListener(port: 8080))
    print("Clients connect to http://\(address.host):\(address.port)/primus")
    // end
    _ = echo
}

private func serverPlugins(_ server: PrimusServer) {
    // snippet:primus-server-plugins
    let sums = server.on("add") { call in
        guard let (a, b) = try? call.arguments.decode(Int.self, Int.self) else { return }
        try? call.acknowledge(a + b)
    }
    let requests = server.onRequest { spark, request, respond in
        respond("hello \(spark.id)")
    }
    // end
    _ = (sums, requests)
}

private func serverSending(_ server: PrimusServer, _ id: String) async throws {
    // snippet:primus-server-sending
    // To all clients
    try server.write(["text": "hello"])
    try server.send("price", "AAPL", 21.5)
    // To some of them
    try server.forEach { spark in
        guard spark.request.headers["User-Agent"] == "dashboard" else { return }
        try spark.send("load", 0.5)
    }
    // To one of them, with an answer
    if let spark = server.spark(id) {
        let sum = try await spark.call("add", 20, 22).decode(Int.self)
        let name = try await spark.request("name?", as: String.self)
        print(sum, name)
    }
    // end
}

private func serverChannels(_ server: PrimusServer) {
    // snippet:primus-server-channels
    let members = server.onChannel("news") { event in
        guard case .joined(let channel) = event else { return }
        try? channel.send("welcome", channel.name)
    }
    // end
    _ = members
}

private func serverAuthorization() {
    // snippet:primus-server-authorization
    var configuration = PrimusServerConfiguration()
    configuration.authorize = { request in
        request.query.contains("token=secret") ? .accept : .reject("Unknown token.", status: 401)
    }
    // end
    _ = configuration
}

private func serverLimits(_ server: PrimusServer) async throws {
    // snippet:primus-server-limits
    var limits = ListenerLimits()
    limits.messageBacklogBytes = 16 << 20
    let address = try await server.start(on: SocketListener(port: 8080, limits: limits))
    // end
    _ = address
}

private func serverFaults(_ server: PrimusServer) {
    // snippet:primus-server-faults
    server.faults.delay = .milliseconds(200)
    server.faults.dropRate = 0.05
    server.faults.stopsPings = true
    server.faults.refusalStatus = 503
    server.faults = PrimusServerFaults()
    // end
    // snippet:primus-server-one-client
    for spark in server.sparks {
        server.sendRaw(.text("{not a message"), to: spark.id)
        server.silence(spark.id)
        server.forgetSession(spark.id)
        server.drop(spark.id)
    }
    // end
}

private func updates(_ primus: PrimusConnection) async {
    // snippet:primus-updates
    for await update in primus.updates() {
        switch update {
        case .attemptFailed(let error): print("failed: \(error.message)")
        case .connectingIn(let delay): print("next attempt in \(delay)")
        case .reconnected(let retry): print("connected again at attempt \(retry.attempt)")
        case .ended(let error): print("ended: \(error?.message ?? "by this app")")
        default: break
        }
    }
    // end
}

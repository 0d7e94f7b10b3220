import CommandLineSupport
import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeCrypto
import RealtimeEncoding
import RealtimeSockets
import RealtimeTransports

/// `realtime serve primus`
struct ServePrimusCommand: Command {
    static let spec = CommandSpec(
        path: ["serve", "primus"],
        summary: "Run a Primus server to try",
        description: """
            Runs a Primus server at the path /primus until Control-C. It sends each message, and each event of the plugins emitter and emit, to \
            all clients, and answers what a client waits for with the same values: acknowledgements of emitter, requests of responder, and \
            messages on the channel echo of multiplex and the stream echo of substream. \
            With the transformers engine.io and sockjs, clients may use requests over HTTP instead of a WebSocket, and move from one to the \
            other as the transformer allows. \
            Prints connections, messages and errors. Unless the output is a terminal, its first line is {"ready":true,"url":…,"port":…}, \
            printed when the server accepts connections.
            """,
        options: [
            .host, .port, .serverTLS, .primusTransformer("The transformer:", standard: "The default is websockets."),
            .primusParser("The parser:", standard: "The default is json."), .primusPlugins("The default is none."),
            .value(
                "version", "NUMBER",
                "The version of Primus that the server resembles: 8, the default, which sends pings, or 6, whose clients send them.",
                completion: .values(["8", "6"])),
            .flag("allow-eio3", "Also accept clients of engine.io 3, with version 8 and the transformer engine.io."),
            .token(
                "Accept only clients with this access token, in the field Authorization after Bearer, as the password after Basic, or as the "
                    + "parameter token of the query.", environmentVariable: Secret.primusVariable), .tokenFile,
            .flag(
                "allow-foreign-origins",
                """
                Also serve web pages of other hosts, as Primus does. Without it, a server that is reachable only locally responds to their \
                requests with the status 403, so that no page that you visit can use it.
                """),
            .json, .timestamps,
            .verbose("Also print every message that is received or sent, with its framing."),
        ],
        examples: [
            "serve primus", "serve primus --port 8080 --plugins emitter",
            "serve primus --port 8080 --transformer engine.io --parser msgpack",
            "serve primus --port 8080 --version 6 --token token", "serve primus --port 8443 --tls certificate.pem key.pem",
        ])

    let address: ServedAddress
    let configuration: PrimusServerConfiguration
    let token: Secret?
    let isVerbose: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        self.address = ServedAddress(arguments)
        var configuration = PrimusServerConfiguration()
        if let transformer = try PrimusTransformerKind(arguments) { configuration.transformer = transformer }
        if let parser = try PrimusParserKind(arguments) { configuration.parser = parser }
        try arguments.check(configuration.transformer, configuration.parser)
        configuration.plugins = PrimusServerPlugins(rawValue: try PrimusPluginSet(arguments).rawValue)
        switch arguments.string("version") {
        case nil, "8": configuration.version = .v8
        case "6": configuration.version = .v6
        case let text?: throw arguments.usageError("Invalid value '\(text)' for '--version': must be 8 or 6")
        }
        configuration.allowsEIO3 = arguments.has("allow-eio3")
        if configuration.allowsEIO3, configuration.transformer != .engineIO || configuration.version == .v6 {
            throw arguments.usageError("The option '--allow-eio3' requires '--transformer engine.io' and version 8")
        }
        configuration.allowsForeignOrigins = arguments.has("allow-foreign-origins")
        self.configuration = configuration
        self.token = try Secret(arguments, "token")
        self.isVerbose = arguments.has("verbose")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let printer = LinePrinter(console)
        var configuration = self.configuration
        if let token = try await self.token?.load() { configuration.authorize = Self.authorization(token) }
        let trace = self.isVerbose ? Self.trace(printer) : nil
        let server = PrimusServer(configuration, log: LogSink(minimumLevel: .error) { printer.enqueue(.error($2)) }, trace: trace)
        let registrations = DemoSparks.add(to: server)
        defer { for registration in registrations { registration.cancel() } }
        let events = server.events
        let address: ListenerAddress
        do throws(TransportError) {
            // The server rejects larger messages; the listener doesn't read them. Some room between the two lets the server explain.
            address = try await server.start(
                on: self.address.listener(messageBytes: 2 * configuration.messageLimit, trace))
        } catch {
            throw ToolFailure(error)
        }
        // Doesn't use the printer: this is the first line, also if a client has connected already.
        console.print(self.ready(address))
        console.printCommands(self.commands(address), hasTLS: self.address.tls != nil)
        let coding = PrimusCoding(configuration.parser) ?? .json
        let line: @Sendable (PrimusServerEvent) -> Line? = { .event($0, coding) }
        await printer.print([(events, line)]) { await server.stop() }
    }

    /// Prints every message.
    private static func trace(_ printer: LinePrinter) -> ConnectionTrace {
        { id, action in
            switch action {
            case .sent(let kind, let payload): printer.enqueue(.message(id, PrimusFrameText.text(kind, payload), from: .server))
            case .received(let kind, let payload): printer.enqueue(.message(id, PrimusFrameText.text(kind, payload), from: .client))
            case .opened, .sentClose, .receivedClose, .abandoned, .ended: break
            }
        }
    }

    /// Accepts the clients with a token, wherever clients of Primus have one.
    static func authorization(_ token: String) -> @Sendable (HTTPRequestHead) async -> PrimusAuthorizationDecision {
        { request in
            let fields = PercentEncoding.fields(request.query) ?? []
            var candidates = fields.filter { $0.name == "token" }.map(\.value)
            // One that states several tokens could try one after the other, and proxies may see another one than the server.
            if candidates.count > 1 { candidates = [] }
            let parts = (request.headers["Authorization"] ?? "").split(separator: " ", maxSplits: 1).map(String.init)
            switch parts.first?.lowercased() {
            case "bearer": candidates += parts.dropFirst()
            case "basic":
                let text = parts.dropFirst().first.flatMap { Base64.decode($0) }.map { String(decoding: $0, as: UTF8.self) }
                candidates += (text?.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).dropFirst() ?? []).map(
                    String.init)
            default: break
            }
            if candidates.contains(where: { constantTimeEqual($0, token) }) { return .accept }
            return .reject("The access token is missing or wrong.", headers: ["WWW-Authenticate": "Bearer"])
        }
    }

    // MARK: Output

    /// The URL of the server.
    private func url(_ address: ListenerAddress) -> String {
        let origin = Endpoint(scheme: address.isSecure ? "https" : "http", host: address.host, port: address.port).origin
        return origin + self.configuration.pathname
    }

    /// The first line, which programs wait for.
    func ready(_ address: ListenerAddress) -> Line {
        let url = self.url(address)
        let how = " (transformer \(self.configuration.transformer), parser \(self.configuration.parser))"
        return Line(
            ["Server listening at ", Line.Span(url, .name), Line.Span(how, .faint)],
            ["ready": true, "url": .string(url), "port": .integer(address.port)])
    }

    /// Commands to try, as a shell in the same folder accepts them.
    func commands(_ address: ListenerAddress) -> [String] {
        let tool = Shell.executable()
        let (url, option) = (self.url(address), self.token?.optionOfClient ?? "")
        let plugins = PrimusPluginSet(rawValue: self.configuration.plugins.rawValue).names
        let pluginOption = plugins.isEmpty ? "" : " --plugins \(plugins.joined(separator: ","))"
        var commands = ["primus listen \(url)\(pluginOption)", #"primus write \#(url) '{"text":"hello"}' --count 1"#]
        if plugins.contains("emitter") {
            commands += [#"primus send \#(url) chat '"anna"' '"hello"'"#, "primus send \(url) add 20 22 --ack"]
        } else if plugins.contains("emit") {
            commands.append(#"primus send \#(url) chat '"anna"' '"hello"' --plugins emit"#)
        }
        return (commands + ["primus spec \(url)"]).map { "\(tool) \($0)\(option)" }
    }
}

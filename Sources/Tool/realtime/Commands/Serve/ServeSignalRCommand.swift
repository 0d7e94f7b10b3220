import CommandLineSupport
import RealtimeCore
import RealtimeCrypto
import RealtimeSockets
import RealtimeTransports
import SignalRServer
import SignalRWire

/// `realtime serve signalr`
struct ServeSignalRCommand: Command {
    static let spec = CommandSpec(
        path: ["serve", "signalr"],
        summary: "Run a SignalR server with hubs to try",
        description: """
            Runs a SignalR server with three hubs until Control-C. Clients connect with any transport and either hub protocol, also with stateful reconnect. \
            /chat has the method Send(user, text), which calls Receive(user, text) on all clients. \
            /clock has Now() and the stream Ticks(seconds). \
            /echo has Echo(value), Add(a, b), Fail(message), and the streams Count(last) and EchoStream(stream). \
            Prints connections, calls and errors. Unless the output is a terminal, its first line is \
            {"ready":true,"url":…,"port":…,"hubs":[…]}, printed when the server accepts connections.
            """,
        options: [
            .host, .port, .serverTLS, .transports("The transports that clients may use:"),
            .token("Accept only clients with this access token.", environmentVariable: Secret.signalRVariable), .tokenFile,
            .flag(
                "allow-foreign-origins",
                """
                Also serve web pages of other hosts. Without it, a server that is reachable only locally responds to their requests with the \
                status 403, so that no page that you visit can call its hubs.
                """),
            .json, .timestamps,
            .verbose("Also print every message that is received or sent."),
        ],
        examples: [
            "serve signalr", "serve signalr --port 8080", "serve signalr --port 8080 --token token",
            "serve signalr --port 8443 --tls certificate.pem key.pem", "serve signalr --port 8080 --transport longPolling",
        ])

    let address: ServedAddress
    let transports: HubTransportKinds
    let token: Secret?
    let allowsForeignOrigins: Bool
    let isVerbose: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        self.address = ServedAddress(arguments)
        self.transports = try HubTransportKinds(arguments)
        self.token = try Secret(arguments, "token")
        self.allowsForeignOrigins = arguments.has("allow-foreign-origins")
        self.isVerbose = arguments.has("verbose")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let printer = LinePrinter(console)
        var hooks = SignalRServerHooks()
        if let token = try await self.token?.load() {
            hooks.authenticate = { $0.token.map { constantTimeEqual($0, token) } == true ? .accept(userID: nil) : .reject(status: 401) }
        }
        var configuration = SignalRServerConfiguration()
        // A message of a developer who tries something is rarely meant to be too large.
        configuration.messageLimit = 1 << 20
        configuration.transports = self.transports
        configuration.allowsStatefulReconnects = true
        configuration.sendsDetailedErrors = true
        configuration.allowsForeignOrigins = self.allowsForeignOrigins
        configuration.adviceForForeignOrigins = "Specify --allow-foreign-origins."
        let trace = self.isVerbose ? Self.trace(printer) : nil
        let server = SignalRServer(
            configuration: configuration, hooks: hooks, time: Transports.standard.time,
            log: LogSink(minimumLevel: .warning) { printer.enqueue(.error($2)) }, trace: trace)
        DemoHubs.add(to: server)
        let events = server.events
        let address: ListenerAddress
        do throws(TransportError) {
            address = try await server.start(on: self.listener(configuration, trace))
        } catch {
            throw ToolFailure(error)
        }
        // Doesn't use the printer: this is the first line, also if a client has connected already.
        console.print(Self.ready(address))
        console.printCommands(self.commands(address), hasTLS: self.address.tls != nil)
        await printer.print([(events, Line.event)]) { await server.stop() }
    }

    private func listener(_ configuration: SignalRServerConfiguration, _ trace: ConnectionTrace?) -> any Listener {
        // The server rejects larger messages; the listener doesn't read them. Some room between the two lets the server explain.
        self.address.listener(messageBytes: 2 * configuration.messageLimit, trace)
    }

    /// Prints every message.
    private static func trace(_ printer: LinePrinter) -> ConnectionTrace {
        { id, action in
            switch action {
            case .sent(let kind, let payload): printer.enqueue(.message(id, HubMessageTrace.text(kind, payload), from: .server))
            case .received(let kind, let payload): printer.enqueue(.message(id, HubMessageTrace.text(kind, payload), from: .client))
            case .opened, .sentClose, .receivedClose, .abandoned, .ended: break
            }
        }
    }

    // MARK: Output

    /// The first line, which programs wait for.
    static func ready(_ address: ListenerAddress) -> Line {
        let url = Self.url(address)
        return Line(
            ["Server listening at ", Line.Span(url, .name), Line.Span(" (hubs: \(DemoHubs.paths.joined(separator: ", ")))", .faint)],
            ["ready": true, "url": .string(url), "port": .integer(address.port), "hubs": .strings(DemoHubs.paths)])
    }

    /// Commands to try, as a shell in the same folder accepts them.
    func commands(_ address: ListenerAddress) -> [String] {
        let tool = Shell.executable()
        let url = Self.url(address)
        let option = self.token?.optionOfClient ?? ""
        return [
            "signalr listen \(url)/chat Receive", #"signalr send \#(url)/chat Send '"anna"' '"hello"'"#,
            "signalr stream \(url)/clock Ticks 1", "signalr invoke \(url)/echo Add 20 22",
        ].map { "\(tool) \($0)\(option)" }
    }

    private static func url(_ address: ListenerAddress) -> String {
        Endpoint(scheme: address.isSecure ? "https" : "http", host: address.host, port: address.port).origin
    }
}

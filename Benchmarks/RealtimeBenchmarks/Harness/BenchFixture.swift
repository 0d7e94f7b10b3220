import CommandLineSupport
import Processes
import PusherChannels
import RealtimeCore
import SignalRHubs
import SignalRWire

/// The environment of the benchmarks: the load generator in a child process, the clients' configuration, and the output.
struct BenchFixture: Sendable {
    let console: Console
    let load: ChildProcess
    let port: Int
    /// The values of the command's options; each benchmark has its own defaults.
    let messages: Int?
    let connections: Int?

    /// Starts the load generator.
    ///
    /// - Parameters:
    ///   - console: The output for results.
    ///   - messages: The number of messages, if specified.
    ///   - connections: The number of connections, if specified.
    ///   - tls: The options that make the load generator use TLS.
    /// - Throws: `ToolFailure` when the load generator does not start.
    init(_ console: Console, messages: Int?, connections: Int?, tls: [String] = []) throws(ToolFailure) {
        self.console = console
        self.messages = messages
        self.connections = connections
        (self.load, self.port) = try Self.startLoad(tls)
    }

    /// Starts the load generator, or an embedded server, with options of `realtime bench-load`.
    static func startLoad(_ options: [String]) throws(ToolFailure) -> (process: ChildProcess, port: Int) {
        let process = try ChildProcess.start([ChildProcess.ownPath, "bench-load"] + options)
        guard let fields = process.readLine()?.split(separator: " "), fields.count == 2, fields[0] == "ready", let port = Int(fields[1])
        else {
            process.end()
            throw ToolFailure("The load generator did not start.")
        }
        return (process, port)
    }

    func print(_ result: BenchResult) { self.console.print(result.line) }

    /// Prints the baselines of a candidate, and the candidate beside each of them.
    ///
    /// - Parameters:
    ///   - rounds: The results.
    ///   - name: The candidate.
    ///   - unit: The unit of the printed values.
    ///   - scale: How many nanoseconds the unit has.
    ///   - baselines: The other candidates, with the goals for the ratios. Those without results are skipped.
    func print(
        _ rounds: Rounds, _ name: String, _ unit: String, scale: Double = 1, beside baselines: [(name: String, maximum: Double?)]
    ) {
        guard let value = rounds.median(name) else { return }
        let present = baselines.filter { rounds.median($0.name) != nil }
        for (baseline, _) in present { self.print(BenchResult(baseline, (rounds.median(baseline) ?? .nan) / scale, unit)) }
        let result = BenchResult(name, value / scale, unit)
        if present.isEmpty { self.print(result) }
        for (baseline, maximum) in present {
            self.print(result.compared(rounds.ratio(name, to: baseline), with: baseline, atMost: maximum))
        }
    }

    /// Prints that a benchmark, or a part of one, cannot run here.
    func printSkipped(_ name: String, _ reason: String) {
        self.console.print(
            Line(
                [.init(name, .name), .init(" skipped: \(reason)", .warning)],
                ["type": "skipped", "name": .string(name), "reason": .string(reason)]))
    }

    /// Returns a client that is connected to the load generator.
    func client(useTLS: Bool = false, transports: Transports? = nil) async throws(ToolFailure) -> PusherClient {
        let client = PusherClient(self.configuration(useTLS: useTLS, transports: transports))
        client.connect()
        do throws(PusherError) {
            try await client.connected()
        } catch {
            throw ToolFailure("A client failed to connect to the load generator: \(error)")
        }
        return client
    }

    /// Returns a configuration for clients of the load generator.
    func configuration(useTLS: Bool = false, transports: Transports? = nil) -> PusherConfiguration {
        var configuration = PusherConfiguration(key: "bench", host: "127.0.0.1", port: self.port, useTLS: useTLS)
        configuration.authorizer = .secret("secret", encryptionMasterKey: LoadMessage.masterKey)
        configuration.log = .none
        // A timer that is no longer needed still wakes the loop once. Long timeouts keep these wake-ups out of the measurements.
        (configuration.connectTimeout, configuration.unavailableTimeout, configuration.subscriptionTimeout) = (
            .seconds(600), .seconds(600), .seconds(600)
        )
        if let transports { configuration.transports = transports }
        return configuration
    }

    /// Returns a subscribed channel of a client.
    func channel(_ name: String, of client: PusherClient) async throws(ToolFailure) -> PusherChannel {
        do throws(PusherError) {
            let channel = try client.subscribe(name)
            try await channel.subscribed()
            return channel
        } catch {
            throw ToolFailure("A client failed to subscribe to \(name): \(error)")
        }
    }

    /// Returns a client of a hub that is connected to the load generator.
    func hubClient(
        _ format: HubFormat, over transport: HubTransport = .webSockets, transports: Transports? = nil
    ) async throws(ToolFailure) -> HubClient {
        try await Self.hubClient("http://127.0.0.1:\(self.port)\(BareInvocations.target)", format, over: transport) {
            if let transports { $0.transports = transports }
        }
    }

    /// Returns a client of a hub that is connected. Over a WebSocket, there is no negotiation.
    static func hubClient(
        _ url: String, _ format: HubFormat, over transport: HubTransport = .webSockets, change: (inout HubConfiguration) -> Void = { _ in }
    ) async throws(ToolFailure) -> HubClient {
        var configuration: HubConfiguration
        do throws(TransportError) {
            configuration = try HubConfiguration(url: url)
        } catch {
            throw ToolFailure(error)
        }
        configuration.hubProtocol = format == .json ? .json : .messagePack
        configuration.allowedTransports = HubTransportKinds(transport)
        configuration.skipsNegotiation = transport == .webSockets
        configuration.log = .none
        change(&configuration)
        let client = HubClient(configuration)
        do throws(HubError) {
            try await client.start()
        } catch {
            throw ToolFailure("A client failed to connect to \(url): \(error)")
        }
        return client
    }

    /// Makes the load generator send events on the newest connection, distributed over a number of channels.
    func burst(_ messages: Int, channels: Int = 1) { self.burst(messages, .events(channels: channels)) }

    /// Makes the load generator send messages on the newest connection.
    func burst(_ messages: Int, _ content: LoadContent) { self.load.write("burst \(messages) \(content.words)") }
}

extension ToolFailure {
    /// The failure of a benchmark whose connection was lost.
    static let connectionLost = ToolFailure("A connection was lost during a benchmark.")
}

extension ChildProcess {
    static func start(_ command: [String]) throws(ToolFailure) -> ChildProcess {
        do throws(Failure) { return try ChildProcess(command) } catch { throw ToolFailure(error.description) }
    }
}

internal import CommandLineSupport
internal import Processes
internal import PusherChannels
internal import RealtimeCore

/// What the benchmarks run on: the load, and who gets the results.
struct BenchFixture: Sendable {
    let console: Console
    let load: ChildProcess
    let port: Int
    /// As the user wishes; each benchmark has its own idea.
    let messages: Int?
    let connections: Int?

    /// Starts the load.
    init(_ console: Console, messages: Int?, connections: Int?, tls: [String] = []) throws(ToolFailure) {
        self.console = console
        self.messages = messages
        self.connections = connections
        self.load = try ChildProcess.start([ChildProcess.ownPath, "bench-load"] + tls)
        guard let words = self.load.readLine()?.split(separator: " "), words.count == 2, words[0] == "ready", let port = Int(words[1])
        else {
            self.load.end()
            throw ToolFailure("The process that makes the load did not start.")
        }
        self.port = port
    }

    func say(_ result: BenchResult) { self.console.say(result.line) }

    /// A benchmark, or a part of one, cannot be had here.
    func skip(_ name: String, _ why: String) {
        self.console.say(
            Line(
                [.init(name, .name), .init(" is left out: \(why)", .warning)],
                ["type": "skipped", "name": .string(name), "reason": .string(why)]))
    }

    /// A client of the load, connected.
    func client(useTLS: Bool = false, transports: Transports? = nil) async throws(ToolFailure) -> PusherClient {
        let client = PusherClient(self.configuration(useTLS: useTLS, transports: transports))
        client.connect()
        do throws(PusherError) {
            try await client.connected()
        } catch {
            throw ToolFailure("A client did not come to its load: \(error)")
        }
        return client
    }

    /// How clients come to the load.
    func configuration(useTLS: Bool = false, transports: Transports? = nil) -> PusherConfiguration {
        var configuration = PusherConfiguration(key: "bench", host: "127.0.0.1", port: self.port, useTLS: useTLS)
        configuration.authorizer = .secret("secret")
        configuration.log = .none
        // A deadline that was overtaken still wakes the loop once. None of them shall fall into what is measured.
        (configuration.connectTimeout, configuration.unavailableTimeout, configuration.subscriptionTimeout) = (
            .seconds(600), .seconds(600), .seconds(600)
        )
        if let transports { configuration.transports = transports }
        return configuration
    }

    /// A channel that is subscribed.
    func channel(_ name: String, of client: PusherClient) async throws(ToolFailure) -> PusherChannel {
        do throws(PusherError) {
            let channel = try client.subscribe(name)
            try await channel.subscribed()
            return channel
        } catch {
            throw ToolFailure("A client was not subscribed by its load: \(error)")
        }
    }

    /// The latest connection gets so many messages.
    func burst(_ messages: Int, channels: Int = 1) { self.load.write("burst \(messages) \(channels)") }
}

extension ChildProcess {
    static func start(_ words: [String]) throws(ToolFailure) -> ChildProcess {
        do throws(Failure) { return try ChildProcess(words) } catch { throw ToolFailure(error.description) }
    }
}

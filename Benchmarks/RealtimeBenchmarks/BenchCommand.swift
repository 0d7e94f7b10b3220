package import CommandLineSupport
import Processes
import RealtimeCore

/// The commands that measure and test this package.
package enum BenchmarkCommands {
    package static let all: [any Command.Type] = [
        BenchCommand.self, BenchLoadCommand.self, AutobahnClientCommand.self, AutobahnServerCommand.self,
    ]
}

/// The benchmarks, by their names on the command line.
enum BenchName: String, CaseIterable, Sendable {
    /// Receiving events: from the socket to a `for await` loop, as strings and decoded.
    case receive
    /// Receiving events with 1 to 10,000 subscribed channels.
    case channels
    /// Receiving encrypted events, with 1 to 1,000 channels and with data of different sizes.
    case encrypted
    /// Receiving the members who join and leave presence channels with 10 and 10,000 members.
    case presence
    /// Publishing to 1,000 subscribers with the embedded server, beside sockudo.
    case fanOut = "fan-out"
    /// Sending an event and receiving the reply.
    case roundTrip = "round-trip"
    /// Sending 64 events in a row.
    case send
    /// Encoding and decoding values in JSON and MessagePack.
    case coding
    /// Sending HTTP requests, each on a new connection or all on one that is kept.
    case http
    /// Publishing events over the HTTP API.
    case publish
    /// Receiving events from a stream over HTTP and by polling.
    case httpReceive = "http-receive"
    /// Memory and wake-ups of idle connections.
    case idle
    /// Receiving the calls of a SignalR server, and the items of its streams.
    case signalRReceive = "signalr-receive"
    /// Decoding a call of a SignalR server.
    case signalRDecode = "signalr-decode"
    /// Calling methods of a SignalR server: round trips, 64 calls in a row, and a stream to the server.
    case signalRCall = "signalr-call"
    /// Calling methods while up to 100,000 other calls are pending.
    case signalRPending = "signalr-pending"
    /// Receiving the calls of a SignalR server over Server-Sent Events and long polling, and calling its methods over long polling.
    case signalRHTTP = "signalr-http"
    /// Sending, receiving and resuming with stateful reconnect.
    case signalRStateful = "signalr-stateful"
    /// Sending to 1,000 clients over long polling with the embedded server, beside ASP.NET Core.
    case signalRFanOut = "signalr-fan-out"
    /// Receiving and calling with a server of ASP.NET Core, beside Microsoft's clients.
    case signalRASPNET = "signalr-aspnet"
    /// Receiving messages of Primus with each parser, framing and kind of connection, events with an acknowledgement, and messages in a row.
    case primus
}

/// `realtime bench`
struct BenchCommand: Command {
    static let spec = CommandSpec(
        path: ["bench"],
        summary: "Measure the library on this machine",
        description: """
            Runs benchmarks on this machine, without a network, and prints the results. Use a release build (-c release) for \
            meaningful figures.
            """,
        positionals: [
            PositionalSpec(
                "NAME", "The benchmarks to run: \(Self.names). The default is all.", .repeated(atLeast: 0),
                completion: .values(BenchName.allCases.map(\.rawValue)))
        ],
        options: [
            .value("messages", "N", "The number of messages that each benchmark sends.", as: .integer(1...100_000_000)),
            .value("connections", "N", "The number of connections of the idle and both fan-out benchmarks.", as: .integer(1...100_000)),
            .json,
        ],
        examples: ["bench", "bench --messages 100000 --json"])

    private static let names = BenchName.allCases.map(\.rawValue).joined(separator: ", ")

    let benchmarks: [BenchName]
    let messages: Int?
    let connections: Int?

    init(_ arguments: Arguments) throws(UsageError) {
        let benchmarks = try arguments.positionals("NAME").map { name throws(UsageError) in
            guard let benchmark = BenchName(rawValue: name) else {
                throw arguments.usageError("Unknown benchmark '\(name)': expected one of \(Self.names)")
            }
            return benchmark
        }
        self.benchmarks = benchmarks.isEmpty ? BenchName.allCases : benchmarks
        self.messages = arguments.integer("messages")
        self.connections = arguments.integer("connections")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        FileLimit.raise()
        #if DEBUG
        console.printNote(.init("Warning: the figures of a debug build are meaningless. Build with -c release.", .warning))
        #endif
        let fixture = try BenchFixture(console, messages: self.messages, connections: self.connections)
        defer { fixture.load.end() }
        for benchmark in self.benchmarks where !Task.isCancelled {
            switch benchmark {
            case .receive: try await ReceiveBench(fixture)()
            case .channels: try await ChannelsBench(fixture)()
            case .encrypted: try await EncryptedBench(fixture)()
            case .presence: try await PresenceBench(fixture)()
            case .fanOut: try await FanOutBench<PusherFanOut>(fixture, deliveries: 200_000)()
            case .roundTrip: try await RoundTripBench(fixture)()
            case .send: try await SendBench(fixture)()
            case .coding: try await CodingBench(fixture)()
            case .http: try await HTTPBench(fixture)()
            case .publish: try await PublishBench(fixture)()
            case .httpReceive: try await HTTPReceiveBench(fixture)()
            case .idle: try await self.runIdle(fixture)
            case .signalRReceive: try await HubReceiveBench(fixture)()
            case .signalRDecode: try await HubDecodingBench(fixture)()
            case .signalRCall: try await HubCallBench(fixture)()
            case .signalRPending: try await HubPendingBench(fixture)()
            case .signalRHTTP: try await HubHTTPBench(fixture: fixture)()
            case .signalRStateful: try await HubStatefulBench(fixture: fixture)()
            case .signalRFanOut: try await FanOutBench<HubFanOut>(fixture, deliveries: 20_000)()
            case .signalRASPNET: try await ASPNETBench(fixture)()
            case .primus:
                try await PrimusReceiveBench(fixture)()
                try await PrimusCallBench(fixture)()
                try await PrimusHTTPBench(fixture)()
            }
        }
        if let size = executableSize { fixture.print(BenchResult("size of this tool", Double(size) / 1e6, "MB")) }
    }

    private func runIdle(_ fixture: BenchFixture) async throws(ToolFailure) {
        let idle = IdleBench(fixture, tls: false)
        for count in self.connections.map({ [$0] }) ?? [1_000, 10_000] {
            try await idle(count)
            // Let the close timeouts expire before the next run counts wake-ups of the loop.
            try? await Task.sleep(for: .seconds(6))
        }
        guard let certificate = BenchCertificate.make() else {
            return fixture.printSkipped("idle, TLS", "needs the openssl command to create a certificate")
        }
        defer { certificate.remove() }
        let secure = try BenchFixture(fixture.console, messages: nil, connections: nil, tls: certificate.arguments)
        defer { secure.load.end() }
        try await IdleBench(secure, tls: true)(min(self.connections ?? 1_000, 1_000))
    }
}

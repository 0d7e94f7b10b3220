import CommandLineSupport
import RealtimeCoding
import SignalRWire

/// Microsoft's clients for SignalR, which `REALTIME_PEERS` starts, for comparison.
enum MicrosoftPeer: String, Sendable {
    case typeScript = "signalr-client"
    case dotNet = "dotnet-client"

    static let missing = "needs REALTIME_PEERS"

    var name: String { self == .typeScript ? "TypeScript client" : ".NET client" }

    var isAvailable: Bool { Console.environment("REALTIME_PEERS") != nil }

    /// Starts the client and connects it to a server on this machine. Over a WebSocket, there is no negotiation.
    ///
    /// - Parameters:
    ///   - port: The port of the server.
    ///   - format: The format of the messages.
    ///   - transport: The transport.
    ///   - target: The path of the hub, by default that of the load generator.
    func connect(
        _ port: Int, _ format: HubFormat, over transport: HubTransport = .webSockets, target: String = BareInvocations.target
    ) throws(ToolFailure) -> MicrosoftSession {
        guard let peers = Console.environment("REALTIME_PEERS") else { throw ToolFailure("REALTIME_PEERS isn't set.") }
        let session = MicrosoftSession(try CommandPeer([peers, self.rawValue], named: self.name))
        _ = try session.run(
            """
            {"do":"connect","id":1,"url":"\(self == .typeScript ? "http" : "ws")://127.0.0.1:\(port)\(target)",\
            "transport":"\(Self.name(of: transport))","protocol":"\(format == .json ? "json" : "msgpack")",\
            "skipNegotiation":\(transport == .webSockets)}
            """)
        return session
    }

    private static func name(of transport: HubTransport) -> String {
        switch transport {
        case .webSockets: "ws"
        case .serverSentEvents: "sse"
        case .longPolling: "lp"
        }
    }
}

/// A connected client in a process of its own.
final class MicrosoftSession {
    private let peer: CommandPeer

    init(_ peer: CommandPeer) { self.peer = peer }

    /// Runs a command and returns its result.
    func run(_ command: String) throws(ToolFailure) -> JSONValue { try self.peer.run(command) }

    /// Receives calls, and returns the processor time per call in nanoseconds.
    func receive(_ messages: Int, arguments: Int) throws(ToolFailure) -> Double {
        try self.receive(messages, from: LoadHub.Method.burst, "\(messages),\(arguments)")
    }

    /// Receives calls of a method that the server makes when another one is called.
    func receive(_ messages: Int, from method: String, _ arguments: String) throws(ToolFailure) -> Double {
        let burst = #"{"method":"\#(method)","args":[\#(arguments)]}"#
        let result = try self.run(
            #"{"do":"receive","id":2,"method":"\#(LoadHub.Method.price)","n":\#(messages),"invoke":\#(burst)}"#)
        return (result["cpu_us"]?.double ?? .nan) * 1000 / Double(messages)
    }

    /// Makes calls one at a time, and returns the processor time per call in nanoseconds.
    ///
    /// - Parameter addMedian: Receives the median of the time that passes during a call, in nanoseconds.
    func roundTrips(
        _ count: Int, _ method: String = LoadHub.Method.echo, addMedian: (Double) -> Void = { _ in }
    ) throws(ToolFailure) -> Double {
        let text = String(repeating: "x", count: 100)
        let result = try self.run(#"{"do":"roundtrips","id":3,"method":"\#(method)","args":["\#(text)"],"n":\#(count)}"#)
        addMedian((result["p50_us"]?.double ?? .nan) * 1000)
        return (result["cpu_us"]?.double ?? .nan) * 1000 / Double(count)
    }
}

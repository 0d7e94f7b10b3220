import CommandLineSupport
import RealtimeCore
import RealtimeSockets

// The code that the commands that run servers share.

extension OptionSpec {
    static let host = OptionSpec.value(
        "host", "HOST", "The address to listen on. The default is 127.0.0.1, which is reachable only locally.")
    static let port = OptionSpec.value(
        "port", "PORT", "The port to listen on. The default is 0, which selects a free port.", as: .integer(0...65535))
    static let serverTLS = OptionSpec.values(
        "tls", ["CERTIFICATE", "KEY"],
        """
        Serve wss and https instead of ws and http, with these two PEM files: the certificate, followed by the intermediate certificates, \
        and its private key, unencrypted.
        """, completion: .files)
}

extension TLSServerConfiguration {
    /// Creates the configuration with the files of `--tls`. A listener reads them when it starts.
    init?(_ arguments: Arguments) {
        let files = arguments.strings("tls")
        guard files.count == 2 else { return nil }
        self.init(TLSIdentity(certificateChain: .file(files[0]), privateKey: .file(files[1])))
    }
}

/// The address of a server with one listener, as the arguments of its command specify it.
struct ServedAddress: Sendable {
    let host: String
    let port: Int
    let tls: TLSServerConfiguration?

    init(_ arguments: Arguments) {
        self.host = arguments.string("host") ?? "127.0.0.1"
        self.port = arguments.integer("port") ?? 0
        self.tls = TLSServerConfiguration(arguments)
    }

    /// Returns a listener.
    ///
    /// - Parameters:
    ///   - messageBytes: The maximum size of a message.
    ///   - trace: Receives what happens on the connections; `nil` for nothing.
    func listener(messageBytes: Int, _ trace: ConnectionTrace?) -> any Listener {
        var limits = ListenerLimits()
        limits.messageBytes = messageBytes
        limits.bodyBytes = max(limits.bodyBytes, messageBytes)
        let listener = SocketListener(host: self.host, port: self.port, tls: self.tls, limits: limits)
        return trace.map { TracingListener(listener, trace: $0) } ?? listener
    }
}

extension Secret {
    /// The option with which a command of a client specifies the same token, for a shell; empty for the environment.
    var optionOfClient: String {
        switch self {
        case .option(let token): " --token \(Shell.quoted(token))"
        case .file(let path, _): " --token-file \(Shell.quoted(path))"
        case .environment: ""
        }
    }
}

extension Console {
    /// Prints commands to try with a server.
    ///
    /// - Parameters:
    ///   - commands: The commands, for a shell.
    ///   - hasTLS: Whether clients must trust the server's certificate.
    func printCommands(_ commands: [String], hasTLS: Bool) {
        self.printNote("Try one of these commands in another terminal:")
        for command in commands { self.printNote(.init("  \(command)")) }
        if hasTLS { self.printNote("Add --ca FILE if the system doesn't trust the certificate.") }
    }
}

extension LinePrinter {
    /// Prints the events of servers, and the lines that are enqueued, until the task is cancelled. Then stops the servers, and prints what
    /// happened until they had stopped, such as the end of each connection.
    ///
    /// - Parameters:
    ///   - sources: The events of each server, and what returns the line of an event, or `nil` if it isn't printed.
    ///   - stop: Stops the servers.
    nonisolated func print<Event>(
        _ sources: [(events: EventSequence<Event>, line: @Sendable (Event) -> Line?)], stop: () async -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.printQueue() }
            for source in sources { group.addTask { await self.printEvents(source.events, source.line) } }
            // The queue ends with the task alone.
            for _ in sources { await group.next() }
            group.cancelAll()
        }
        let dropped = sources.map(\.events.dropped)
        await stop()
        // In a cancelled task, a loop would leave the sequence.
        for (source, before) in zip(sources, dropped) {
            var dropped = before
            for event in source.events.takeBuffered() { await self.print(event, of: source.events, &dropped, source.line) }
        }
        await self.flush()
    }

    /// Prints events until the task is cancelled.
    private nonisolated func printEvents<Event>(_ events: EventSequence<Event>, _ line: @Sendable (Event) -> Line?) async {
        var dropped = 0
        for await event in events { await self.print(event, of: events, &dropped, line) }
    }

    /// - Parameter dropped: The number of dropped events that were reported.
    private nonisolated func print<Event>(
        _ event: Event, of events: EventSequence<Event>, _ dropped: inout Int, _ line: @Sendable (Event) -> Line?
    ) async {
        if let line = line(event) { await self.print(line) }
        let total = events.dropped
        guard total > dropped else { return }
        await self.print(.error("\(total - dropped) events are missing here, because the output is read too slowly."))
        dropped = total
    }
}

extension Line {
    /// A message on a connection of a server.
    static func message(_ id: ConnectionID, _ text: String, from sender: FrameSender) -> Line {
        let verb = sender == .client ? "received" : "sent"
        return Line(
            [Span("\(id) \(verb) \(text)", .faint)],
            ["type": "frame", "connection": .string("\(id)"), "from": .string(sender.rawValue), "data": .string(text)])
    }
}

extension CloseReason {
    /// The description of the reason from the side of the server.
    var textOfServer: String {
        guard case .peer(let code, let text) = self else { return "\(self)" }
        return "the client closed the connection with code \(code)\(text.isEmpty ? "" : ": \(text)")"
    }

    var peerCode: CloseCode? { if case .peer(let code, _) = self { code } else { nil } }
}

import CommandLineSupport
import RealtimeCore
import RealtimeSockets

// What the commands that run servers have in common.

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
        """)
}

extension TLSServerConfiguration {
    /// Creates the configuration with the files of `--tls`. A listener reads them when it starts.
    init?(_ arguments: Arguments) {
        let files = arguments.strings("tls")
        guard files.count == 2 else { return nil }
        self.init(TLSIdentity(certificateChain: .file(files[0]), privateKey: .file(files[1])))
    }
}

extension LinePrinter {
    /// Prints the events of a server until the task is cancelled, and the lines that are enqueued.
    ///
    /// - Parameters:
    ///   - events: The events.
    ///   - line: Returns the line of an event, or `nil` if it isn't printed.
    nonisolated func print<Event>(_ events: EventSequence<Event>, _ line: @escaping @Sendable (Event) -> Line?) async {
        await self.print([(events, line)])
    }

    /// Prints the events of several servers until the task is cancelled, and the lines that are enqueued.
    ///
    /// - Parameter sources: The events of each server, and what returns the line of an event, or `nil` if it isn't printed.
    nonisolated func print<Event>(_ sources: [(events: EventSequence<Event>, line: @Sendable (Event) -> Line?)]) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.printQueue() }
            for source in sources { group.addTask { await self.printEvents(source.events, source.line) } }
            // The queue ends with the task alone.
            for _ in sources { await group.next() }
            group.cancelAll()
        }
    }

    private nonisolated func printEvents<Event>(_ events: EventSequence<Event>, _ line: @Sendable (Event) -> Line?) async {
        var dropped = 0
        for await event in events {
            if let line = line(event) { await self.print(line) }
            let total = events.dropped
            if total > dropped {
                await self.print(.error("\(total - dropped) events are missing here, because the output is read too slowly."))
                dropped = total
            }
        }
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

/// Returns a text as one word for a shell, in quotes if necessary.
func shellQuoted(_ text: String) -> String {
    let needsQuotes = !text.utf8.allSatisfy {
        switch $0 {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-")...UInt8(ascii: "9"): true
        default: $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "@")
        }
    }
    return needsQuotes ? "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'" : text
}

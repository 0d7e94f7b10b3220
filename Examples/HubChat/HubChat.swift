import Foundation
import RealtimeSockets
import SignalRHubs
import SignalRServer

/// A chat at the terminal, over a hub. Without a URL, it runs a server of its own, and prints how others join:
///
///     swift run --package-path Examples HubChat anna
///     swift run --package-path Examples HubChat bert http://127.0.0.1:41234/chat
///     swift run --package-path Examples HubChat carla http://127.0.0.1:41234/chat --transport serverSentEvents,longPolling
///
/// The hub is that of the tutorial of ASP.NET Core SignalR, so the chat can join one of those as well.
@main struct HubChat {
    static func main() async throws {
        var arguments = Array(CommandLine.arguments.dropFirst())
        let transports = Self.takeTransports(&arguments)
        let name = arguments.first ?? "anna"
        var server: SignalRServer?
        let url: String
        if arguments.count > 1 {
            url = arguments[1]
        } else {
            let own = try await Self.startServer()
            (server, url) = (own.server, own.url)
            print("* others join with: swift run --package-path Examples HubChat NAME \(url)")
        }

        var configuration = try HubConfiguration(url: url)
        configuration.retry = .backoff(Backoff())
        configuration.log = .none
        configuration.allowedTransports = transports
        let client = HubClient(configuration)
        client.on("ReceiveMessage") { (user: String, message: String) in print("\(user): \(message)") }
        let updates = client.updates()
        async let watching: Void = Self.show(updates)
        do {
            try await client.start()
            for await line in Self.lines() { await Self.send(line, from: name, client) }
        } catch {
            print("* \(error)")
        }
        client.stop()
        await server?.stop()
        await watching
    }

    private static func send(_ text: String, from name: String, _ client: HubClient) async {
        do {
            try await client.invoke("SendMessage", name, text, within: .seconds(10))
        } catch {
            print("* \(error)")
        }
    }

    /// Removes the option `--transport` and returns the transports that it names, or all. Ends the program if it names no transport.
    private static func takeTransports(_ arguments: inout [String]) -> HubTransportKinds {
        guard let index = arguments.firstIndex(of: "--transport") else { return .all }
        let names = arguments.dropFirst(index + 1).first ?? ""
        arguments.removeSubrange(index..<min(index + 2, arguments.count))
        var transports: HubTransportKinds = []
        for name in names.split(separator: ",", omittingEmptySubsequences: false) {
            switch name {
            case "webSockets": transports.insert(.webSockets)
            case "serverSentEvents": transports.insert(.serverSentEvents)
            case "longPolling": transports.insert(.longPolling)
            default:
                let message = "Unknown transport '\(name)'. Use webSockets, serverSentEvents or longPolling, several of them with commas.\n"
                FileHandle.standardError.write(Data(message.utf8))
                exit(64)
            }
        }
        return transports
    }

    /// Prints what happens to the connection until the client has stopped.
    private static func show(_ updates: EventSequence<HubUpdate>) async {
        for await update in updates {
            switch update {
            case .transport(let transport): print("* connected over \(transport)")
            case .reconnecting(let error): print("* reconnecting: \(error)")
            case .state(.stopped): return
            default: break
            }
        }
    }

    /// The lines of the terminal. Reading them blocks, so it has a thread of its own.
    private static func lines() -> AsyncStream<String> {
        let (lines, input) = AsyncStream.makeStream(of: String.self)
        Thread.detachNewThread {
            while let line = readLine() { input.yield(line) }
            input.finish()
        }
        return lines
    }

    private static func startServer() async throws -> (server: SignalRServer, url: String) {
        let server = SignalRServer(log: .none)
        server.hub("/chat").on("SendMessage") { (caller, user: String, message: String) in
            try await caller.clients.all.send("ReceiveMessage", user, message)
        }
        let address = try await server.start(on: SocketListener())
        return (server, "http://\(address.host):\(address.port)/chat")
    }
}

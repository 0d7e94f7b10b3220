import Foundation
import RealtimeSockets
import SignalRHubs
import SignalRServer

/// A chat at the terminal, over a hub. Without a URL, it runs a server of its own, and prints how others join:
///
///     swift run --package-path Examples HubChat anna
///     swift run --package-path Examples HubChat bert http://127.0.0.1:41234/chat
///
/// The hub is that of the tutorial of ASP.NET Core SignalR, so the chat can join one of those as well.
@main struct HubChat {
    static func main() async throws {
        let name = CommandLine.arguments.dropFirst().first ?? "anna"
        var server: SignalRServer?
        let url: String
        if CommandLine.arguments.count > 2 {
            url = CommandLine.arguments[2]
        } else {
            let own = try await Self.startServer()
            (server, url) = (own.server, own.url)
            print("* others join with: swift run --package-path Examples HubChat NAME \(url)")
        }

        var configuration = try HubConfiguration(url: url)
        configuration.retry = .backoff(Backoff())
        configuration.log = .none
        let client = HubClient(configuration)
        client.on("ReceiveMessage") { (user: String, message: String) in print("\(user): \(message)") }
        let states = client.states
        async let watching: Void = Self.show(states)
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

    /// Prints the states of the client until it has stopped.
    private static func show(_ states: EventSequence<HubState>) async {
        // The first is the state before the start.
        for await state in states.dropFirst() {
            switch state {
            case .connecting: break
            case .connected: print("* connected")
            case .reconnecting(let error): print("* reconnecting: \(error)")
            case .stopped: return
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

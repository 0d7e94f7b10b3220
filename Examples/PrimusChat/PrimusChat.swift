import Foundation
import PrimusClient
import PrimusServer
import RealtimeSockets

/// A chat at the terminal, over events of primus-emitter. Without a URL, it runs a server of its own, and prints how others join:
///
///     swift run --package-path Examples PrimusChat anna
///     swift run --package-path Examples PrimusChat bert --url http://127.0.0.1:41234/primus
///
/// A line is the event `say` with a name and a text. The server sends both to everyone with the event `said`, and acknowledges with the
/// number of those who are connected.
@main struct PrimusChat {
    static func main() async throws {
        var arguments = Array(CommandLine.arguments.dropFirst())
        var own: OwnServer?
        let url: String
        if let given = Self.takeURL(&arguments) {
            url = given
        } else {
            let server = try await OwnServer()
            (own, url) = (server, server.url)
            print("* others join with: swift run --package-path Examples PrimusChat NAME --url \(url)")
        }

        var configuration = try PrimusConfiguration(url: url)
        configuration.plugins = [.emitter]
        configuration.log = .none
        let primus = PrimusConnection(configuration)
        let said = primus.emitter.on("said", on: .tasks) { event in
            if let (name, text) = try? event.decode(String.self, String.self) { print("\(name): \(text)") }
        }
        let updates = primus.updates()
        async let watching: Void = Self.show(updates)
        primus.open()
        do {
            try await primus.opened()
            for await line in Self.lines() { await Self.say(line, from: arguments.first ?? "anna", primus) }
        } catch {
            print("* \(error)")
        }
        primus.end()
        await watching
        said.cancel()
        await own?.stop()
    }

    private static func say(_ text: String, from name: String, _ primus: PrimusConnection) async {
        do {
            let count: Int? = try await primus.emitter.send("say", name, text, within: .seconds(10))
            if count == 1 { print("* you are alone here") }
        } catch {
            print("* \(error)")
        }
    }

    /// Removes the option `--url` and returns its value. Ends the program if the value is missing.
    private static func takeURL(_ arguments: inout [String]) -> String? {
        guard let index = arguments.firstIndex(of: "--url") else { return nil }
        guard index + 1 < arguments.count else {
            FileHandle.standardError.write(Data("The option --url needs a URL, such as http://127.0.0.1:9090/primus.\n".utf8))
            exit(64)
        }
        let url = arguments[index + 1]
        arguments.removeSubrange(index...index + 1)
        return url
    }

    /// Prints what happens to the connection until the client has ended.
    private static func show(_ updates: EventSequence<PrimusUpdate>) async {
        for await update in updates {
            switch update {
            case .state(.open): print("* connected")
            case .reconnecting(let error): print("* reconnecting: \(error)")
            case .attemptFailed(let error): print("* trying again: \(error)")
            case .ended: return
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
}

/// A server that passes what one says to everyone.
struct OwnServer {
    let url: String
    private let server: PrimusServer
    private let said: CallbackObservation

    init() async throws {
        var configuration = PrimusServerConfiguration()
        configuration.plugins = .emitter
        let server = PrimusServer(configuration: configuration, log: .none)
        // The server keeps the callback.
        self.said = server.on("say") { [weak server] call in
            guard let server, let (name, text) = try? call.arguments.decode(String.self, String.self) else { return }
            server.forEach { spark in try? spark.send("said", name, text) }
            try? call.acknowledge(server.sparks.count)
        }
        let address = try await server.start(on: SocketListener())
        (self.server, self.url) = (server, "http://\(address.host):\(address.port)/primus")
    }

    func stop() async {
        self.said.cancel()
        await self.server.stop()
    }
}

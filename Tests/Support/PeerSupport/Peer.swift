package import RealtimeCoding
import RealtimeSystem
import Processes
import Foundation
import RealtimeCore
import TestSupport

/// A third-party server or client in its own process.
///
/// `REALTIME_PEERS` is the command that starts a peer: `$REALTIME_PEERS NAME --option value …`. `$REALTIME_PEERS list` prints the names that it
/// knows, each at the beginning of a line. A server prints one line of JSON with
/// `ready`, `port` and `url`. A client responds to each line of JSON with a line that contains `done`, and prints lines with `event` as
/// events occur. Both exit when their standard input is closed. `REALTIME_PYTHON_PEERS` is the same for clients in Python, and
/// `REALTIME_BROWSER_PEERS` and `REALTIME_FEATHERS_PEERS` for a client in a browser and an application of Feathers, unless `REALTIME_PEERS`
/// starts them.
package final class Peer: Sendable {
    /// The servers, which listen on ports that no other test takes: before they listen, or between two of them on the same port.
    private static let servers = ["aspnet", "sockudo", "primus", "primus6", "feathers", "ws"]

    package struct Failure: Error, CustomStringConvertible {
        package var description: String

        package init(description: String) { self.description = description }
    }

    private struct State: Sendable {
        var lines: [JSONValue] = []
        /// The number of lines that have arrived.
        var received = 0
        var hasEnded = false
        var waiting = WaitingTasks()
    }

    /// The output of the process. The reading thread retains this instead of the peer, whose release ends the process.
    private final class Output: Sendable {
        let state = Lock(State())
    }

    private let name: String
    private let process: ChildProcess
    private let output = Output()
    private let lastID = Lock(0)

    package init(_ name: String, _ options: [String] = [], command: String? = nil) throws {
        self.name = name
        guard let command = command ?? (name == "feathers" ? PeerCommand.feathers : PeerCommand.all) else {
            throw Failure(description: "no command starts \(name)")
        }
        var options = options
        if Self.servers.contains(name), !options.contains("--port") { options += ["--port", "\(TestPort.next())"] }
        let process = try ChildProcess([command, name] + options, errors: .discarded)
        self.process = process
        // A separate thread, because reading blocks.
        Thread.detachNewThread { [output] in
            Self.read(process, output)
            process.waitForEnd()
        }
    }

    deinit { self.stop() }

    /// Ends the process by closing its standard input.
    package func stop() { self.process.endInput() }

    /// Ends the process and waits for its exit, after which its port is free.
    package func stopped() async throws {
        self.stop()
        do {
            _ = try await self.line { _ in false }
        } catch {
            guard self.output.state.withLock({ $0.hasEnded }) else { throw error }
        }
    }

    /// Waits until a server is listening, and returns the line with its port and URL.
    package func ready() async throws -> JSONValue { try await self.line { $0["ready"]?.bool == true } }

    /// Sends a command to a client, and returns its result.
    @discardableResult
    package func perform(_ command: JSONObject) async throws -> JSONValue {
        let id = self.lastID.withLock { id in
            id += 1
            return id
        }
        var command = command
        command["id"] = .number(JSONNumber(id))
        self.process.write(String(decoding: JSONValue.object(command).bytes, as: UTF8.self))
        let response = try await self.line { $0["id"]?.int == id && $0["done"] != nil }
        if let error = response["error"] { throw Failure(description: "\(self.name): \(error)") }
        return response["result"] ?? .null
    }

    /// Waits for the first line that satisfies a predicate and removes it from the output. Other lines are kept.
    package func line(where predicate: @Sendable (JSONValue) -> Bool) async throws -> JSONValue {
        let id = WaitingTasks.ID()
        while true {
            let (line, hasEnded, received) = self.output.state.withLock { state -> (JSONValue?, Bool, Int) in
                let index = state.lines.firstIndex(where: predicate)
                return (index.map { state.lines.remove(at: $0) }, state.hasEnded, state.received)
            }
            if let line { return line }
            if hasEnded { throw Failure(description: "\(self.name) has ended") }
            await suspend { wakeUp in
                self.output.state.withLock { state in
                    guard state.received == received, !state.hasEnded, !Task.isCancelled else { return false }
                    state.waiting.add(id, wakeUp)
                    return true
                }
            } onCancel: {
                self.output.state.withLock { $0.waiting.take(id) }
            }
            if Task.isCancelled { throw Failure(description: "\(self.name) did not respond in time") }
        }
    }

    private static func read(_ process: ChildProcess, _ output: Output) {
        var line: String?
        repeat {
            line = process.readLine()
            let waiting = output.state.withLock { state in
                if let value = line.flatMap({ try? JSONValue(parsing: Array($0.utf8)) }) { state.lines.append(value) }
                state.received += 1
                if line == nil { state.hasEnded = true }
                return state.waiting.takeAll()
            }
            for wakeUp in waiting { wakeUp.resume() }
        } while line != nil
    }
}

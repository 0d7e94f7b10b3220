package import RealtimeJSON
import RealtimeSystem
import Processes
import Foundation
import RealtimeCore

/// A real third-party server or client, in a process of its own.
///
/// `REALTIME_PEERS` names the command that starts them: `$REALTIME_PEERS NAME --option value …`. A server prints one
/// line of JSON with `ready`, `port` and `url`; a client answers each line of JSON with `done`, and says `event` by
/// itself. Both end with their standard input.
package final class Peer: Sendable {
    package static let command = ProcessInfo.processInfo.environment["REALTIME_PEERS"].flatMap { $0.isEmpty ? nil : $0 }

    /// Why the tests with peers are skipped.
    package static let absence = "set REALTIME_PEERS to the command that starts real third-party peers"

    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    private struct State: Sendable {
        var lines: [JSONValue] = []
        var hasEnded = false
        var waiting: [WakeUp] = []
    }

    /// What it said. The thread that reads holds this and not the peer, which ends when nobody wants it any more.
    private final class Output: Sendable {
        let state = Lock(State())
    }

    private let name: String
    private let process: ChildProcess
    private let output = Output()
    private let lastID = Lock(0)

    package init(_ name: String, _ options: [String] = []) throws {
        self.name = name
        guard let command = Self.command else { throw Failure(description: Self.absence) }
        let process = try ChildProcess([command, name] + options, errors: .discarded)
        self.process = process
        // A plain thread: reading blocks, and the task pool is not for that.
        Thread.detachNewThread { [output] in
            Self.read(process, output)
            process.waitForEnd()
        }
    }

    deinit { self.stop() }

    /// Ends it, as it does by itself when the tests end before it.
    package func stop() { self.process.endInput() }

    /// Ends it and waits until it has: its port is free then.
    package func stopped() async throws {
        self.stop()
        do {
            _ = try await self.line { _ in false }
        } catch {
            guard self.output.state.withLock({ $0.hasEnded }) else { throw error }
        }
    }

    /// What a server says when it listens.
    package func ready() async throws -> JSONValue { try await self.line { $0["ready"]?.bool == true } }

    /// Asks a client to do something, and returns its answer.
    @discardableResult
    package func ask(_ command: JSONObject) async throws -> JSONValue {
        let id = self.lastID.withLock { id in
            id += 1
            return id
        }
        var command = command
        command["id"] = .number(JSONNumber(id))
        self.process.write(String(decoding: JSONValue.object(command).bytes, as: UTF8.self))
        let answer = try await self.line { $0["id"]?.int == id && $0["done"] != nil }
        if let error = answer["error"] { throw Failure(description: "\(self.name): \(error)") }
        return answer["result"] ?? .null
    }

    /// The next thing that a client says by itself and that fits; what does not fit stays.
    package func line(where fits: @Sendable (JSONValue) -> Bool) async throws -> JSONValue {
        while true {
            let found = self.output.state.withLock { state -> (JSONValue?, Bool) in
                guard let index = state.lines.firstIndex(where: fits) else { return (nil, state.hasEnded) }
                return (state.lines.remove(at: index), false)
            }
            if let line = found.0 { return line }
            if found.1 { throw Failure(description: "\(self.name) has ended") }
            let count = self.output.state.withLock { $0.lines.count }
            await suspend { wakeUp in
                self.output.state.withLock { state in
                    guard state.lines.count == count, !state.hasEnded, !Task.isCancelled else { return false }
                    state.waiting.append(wakeUp)
                    return true
                }
            } withdraw: {
                // Everybody who waits looks again.
                for wakeUp in self.output.state.withLock({ state in
                    defer { state.waiting = [] }
                    return state.waiting
                }) { wakeUp.resume() }
                return nil
            }
            if Task.isCancelled { throw Failure(description: "\(self.name) did not answer in time") }
        }
    }

    private static func read(_ process: ChildProcess, _ output: Output) {
        var line: String?
        repeat {
            line = process.readLine()
            let waiting = output.state.withLock { state in
                if let value = line.flatMap({ try? JSONValue(parsing: Array($0.utf8)) }) { state.lines.append(value) }
                if line == nil { state.hasEnded = true }
                defer { state.waiting = [] }
                return state.waiting
            }
            for wakeUp in waiting { wakeUp.resume() }
        } while line != nil
    }
}

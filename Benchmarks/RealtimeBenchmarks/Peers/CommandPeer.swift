import CommandLineSupport
import Processes
import RealtimeCoding

/// A client of another library in a process of its own, which reads commands and writes answers and events, each as JSON on a line.
final class CommandPeer {
    private let process: ChildProcess
    private let name: String

    /// - Parameters:
    ///   - command: The program and its arguments.
    ///   - name: What failures call the client.
    init(_ command: [String], named name: String) throws(ToolFailure) {
        self.process = try ChildProcess.start(command)
        self.name = name
    }

    deinit { self.process.end() }

    /// Runs a command and returns its result.
    func run(_ command: String) throws(ToolFailure) -> JSONValue {
        self.process.write(command)
        let answer = try self.wait { $0["done"] != nil }
        if let error = answer["error"]?.string { throw ToolFailure("The \(self.name) failed: \(error)") }
        return answer["result"] ?? .null
    }

    /// Waits for a line, and discards those before it.
    @discardableResult
    func wait(for isExpected: (JSONValue) -> Bool) throws(ToolFailure) -> JSONValue {
        while let line = self.process.readLine() {
            if let line = try? JSONValue(parsing: line), isExpected(line) { return line }
        }
        throw ToolFailure("The \(self.name) ended.")
    }
}

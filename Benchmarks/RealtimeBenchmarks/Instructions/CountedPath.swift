import CommandLineSupport
import Processes
import RealtimeSystem

/// A path of messages through the library whose instructions are counted.
struct CountedPath {
    /// Makes a number of messages take the path, and runs all tasks until they have.
    typealias Run = (_ messages: Int) throws -> Void

    let name: String
    /// The number of messages that are counted: a multiple of 64, the size of reads and of rows, and of 10, the number of receivers.
    let messages: Int
    /// Connects what the path needs. The path retains it.
    let prepare: @Sendable () async throws -> Run

    init(_ name: String, messages: Int = 1920, _ prepare: @escaping @Sendable () async throws -> Run) {
        self.name = name
        self.messages = messages
        self.prepare = prepare
    }
}

/// Counts what has arrived at the end of a path.
///
/// `@unchecked Sendable`: the process has one thread.
final class Arrivals: @unchecked Sendable {
    private(set) var count = 0
    /// The sum of what the messages contain, so that no work is optimized away.
    private(set) var sum = 0
    private var expected = 0

    @inline(__always)
    func add(_ value: Int) {
        self.count += 1
        self.sum &+= value
    }

    /// Forgets what has arrived before the path is ready.
    func reset() { (self.count, self.sum) = (0, 0) }

    /// Runs a closure that makes messages arrive.
    func expect(_ messages: Int, _ body: () throws -> Void) throws {
        self.expected += messages
        try body()
        guard self.count == self.expected, self.sum > 0 else {
            throw ToolFailure("\(self.count) of \(self.expected) messages have arrived.")
        }
    }
}

/// The program `instruction-counts`, which runs under Valgrind; see `dev/instructions`.
///
/// ```
/// instruction-counts                prints the name of each path, and the number of messages to count
/// instruction-counts PATH MESSAGES  makes messages take a path, and prints the number of allocations
/// instruction-counts idle           prints the bytes of an idle connection
/// ```
package enum InstructionCounts {
    private static var paths: [CountedPath] { Self.pusher + Self.signalR + Self.primus + Self.servers + Self.coders }
    /// The messages before those that are counted, so that caches are filled and metadata exists.
    private static let warmUp = 320

    /// - Parameters:
    ///   - arguments: The arguments of the program.
    ///   - allocations: Returns the number of blocks that the process has allocated.
    /// - Returns: The status with which the program exits.
    package static func main(_ arguments: [String], allocations: () -> Int) -> Int32 {
        if arguments.isEmpty {
            for path in self.paths { print("\(path.name) \(path.messages)") }
            return 0
        }
        if arguments[0] == "idle" || arguments[0] == "bench-load" { self.runTool(arguments) }
        guard arguments.count == 2, let path = self.paths.first(where: { $0.name == arguments[0] }), let messages = Int(arguments[1]) else {
            return self.fail("usage: instruction-counts [PATH MESSAGES]")
        }
        guard MainThread.install() else { return self.fail("This version of Swift has no hook for an executor.") }
        let prepared = Prepared()
        Task {
            do { prepared.run = try await path.prepare() } catch { prepared.failure = "\(error)" }
        }
        MainThread.runAll()
        guard let run = prepared.run else { return self.fail("\(path.name): \(prepared.failure ?? "The path isn't ready.")") }
        do {
            try run(self.warmUp)
            let before = allocations()
            try countInstructions(messages, run)
            print(allocations() - before)
        } catch {
            return self.fail("\(path.name): \(error)")
        }
        return 0
    }

    /// The result of a task. `@unchecked Sendable`: the process has one thread.
    private final class Prepared: @unchecked Sendable {
        var run: CountedPath.Run?
        var failure: String?
    }

    private static func fail(_ message: String) -> Int32 {
        print(message)
        return 1
    }

    private static func runTool(_ arguments: [String]) -> Never {
        CommandLineTool(version: "", summary: "", groups: [], commands: [IdleBytesCommand.self, BenchLoadCommand.self]).main()
    }
}

/// Valgrind counts the instructions in this function; see `dev/instructions`.
@inline(never)
private func countInstructions(_ messages: Int, _ run: CountedPath.Run) throws { try run(messages) }

/// `instruction-counts idle`: prints the bytes that one idle connection of 1,000 takes.
private struct IdleBytesCommand: Command {
    static let spec = CommandSpec(path: ["idle"], summary: "Print the bytes of an idle connection", description: "")

    init(_ arguments: Arguments) throws(UsageError) {}

    func run(_ console: Console) async throws(ToolFailure) {
        let fixture = try BenchFixture(console, messages: nil, connections: nil)
        defer { fixture.load.end() }
        console.write("\(try await IdleBench(fixture, tls: false).bytes(1_000))\n")
    }
}

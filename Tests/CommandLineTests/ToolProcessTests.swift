import Processes
import Foundation
import TestSupport
import Testing

/// The tool as it is run: what only shows in a process of its own.
@Suite(.usesSockets, .enabled(if: Tool.path != nil, "the tool is not beside the tests"))
struct ToolProcessTests {
    @Test func helpAndVersionGoToStandardOutput() async throws {
        for arguments in [[], ["--help"], ["--version"], ["pusher", "publish", "--help"]] {
            let result = try await Tool.run(arguments)
            #expect(result.status == 0)
            #expect(result.output.contains("realtime") || result.output.contains("Publish"))
            #expect(result.errors.isEmpty)
        }
    }

    @Test func wrongUsageIsOneSentenceOnStandardErrorAndStatus2() async throws {
        for arguments in [["nothing"], ["serve", "pusher", "--prot", "1"], ["serve", "pusher", "--port", "x"], ["pusher"]] {
            let result = try await Tool.run(arguments)
            #expect(result.status == 2)
            #expect(result.output.isEmpty)
            #expect(result.errors.hasPrefix("realtime: "))
            #expect(result.errors.split(separator: "\n").count == 1)
        }
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func aServerSaysThatItIsReadyAndEndsWithASignal(_ signal: Int32) async throws {
        let tool = try Tool(["serve", "pusher"])
        let line = await tool.firstLine()
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        #expect(ready["ready"] as? Bool == true)
        #expect(Set(ready.keys) == ["ready", "url", "port", "app", "key", "secret"])
        tool.process.signal(signal)
        #expect(await tool.ended() == 0)
    }

    @Test func aPortThatIsTakenIsAFailureThatSaysSo() async throws {
        let first = try Tool(["serve", "pusher"])
        let ready = try JSONSerialization.jsonObject(with: Data(await first.firstLine().utf8)) as? [String: Any]
        let port = try #require(ready?["port"] as? Int)
        let second = try await Tool.run(["serve", "pusher", "--port", "\(port)"])
        #expect(second.status == 1)
        #expect(second.errors.hasPrefix("realtime: "))
        #expect(second.errors.contains("\(port)"))
        first.process.signal(SIGTERM)
        #expect(await first.ended() == 0)
    }
}

/// A run of the tool.
struct Tool {
    /// Beside the tests' own bundle, where the build put it.
    static let path: String? = {
        #if os(Linux)
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        #else
        let tests = Bundle.main.bundlePath
        #endif
        let path = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("realtime").path
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }()

    let process: ChildProcess

    init(_ arguments: [String]) throws {
        self.process = try ChildProcess([try #require(Self.path)] + arguments, errors: .kept)
    }

    /// The exit status, or a signal's number below zero.
    func ended() async -> Int32 {
        await Self.onAThread { [process] in process.waitForEnd() }
    }

    func firstLine() async -> String {
        await Self.onAThread { [process] in process.readLine() ?? "" }
    }

    static func run(_ arguments: [String]) async throws -> (status: Int32, output: String, errors: String) {
        let tool = try Tool(arguments)
        tool.process.endInput()
        // Its errors are not long enough to fill what holds them.
        return await Self.onAThread { [process = tool.process] in
            let (output, errors) = (process.readOutput(), process.readErrors())
            return (process.waitForEnd(), output, errors)
        }
    }

    /// What a person sees who runs it at a terminal.
    static func show(_ arguments: [String]) async throws -> (status: Int32, output: String) {
        let process = try ChildProcess(["env", "NO_COLOR=1", "TERM=xterm", try #require(Self.path)] + arguments, writesToTerminal: true)
        process.endInput()
        return await Self.onAThread {
            let output = process.readOutput()
            return (process.waitForEnd(), output)
        }
    }

    /// Reading waits, and must not hold a thread that the tests run on.
    private static func onAThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        let (values, continuation) = AsyncStream<Value>.makeStream()
        Thread.detachNewThread {
            continuation.yield(body())
            continuation.finish()
        }
        for await value in values { return value }
        preconditionFailure("the thread ended without a value")
    }
}

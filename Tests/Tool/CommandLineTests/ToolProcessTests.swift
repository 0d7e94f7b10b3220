@testable import CommandLineSupport
import Processes
import Foundation
import TestSupport
import Testing

/// The tool as it is run: what only shows in a process of its own.
@Suite(.usesSockets, .enabled(if: Tool.path != nil, "the tool is not beside the tests"))
struct ToolProcessTests {
    @Test func `help and version go to standard output`() async throws {
        for arguments in [[], ["--help"], ["--version"], ["pusher", "publish", "--help"]] {
            let result = try await Tool.run(arguments)
            #expect(result.status == 0)
            #expect(result.output.contains("realtime") || result.output.contains("Publish"))
            #expect(result.errors.isEmpty)
        }
    }

    @Test func `wrong usage is one sentence on standard error and status 2`() async throws {
        for arguments in [["nothing"], ["serve", "pusher", "--prot", "1"], ["serve", "pusher", "--port", "x"], ["pusher"]] {
            let result = try await Tool.run(arguments)
            #expect(result.status == 2)
            #expect(result.output.isEmpty)
            #expect(result.errors.hasPrefix("realtime: "))
            #expect(result.errors.split(separator: "\n").count == 1)
        }
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `a server says that it is ready and ends with a signal`(_ signal: Int32) async throws {
        let tool = try Tool(["serve", "pusher"])
        let line = await tool.nextLine()
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        #expect(ready["ready"] as? Bool == true)
        #expect(Set(ready.keys) == ["ready", "url", "port", "app", "key", "secret"])
        tool.process.signal(signal)
        #expect(await tool.ended() == 0)
    }

    @Test func `a port that is taken is a failure that says so`() async throws {
        let first = try Tool(["serve", "pusher"])
        let ready = try JSONSerialization.jsonObject(with: Data(await first.nextLine().utf8)) as? [String: Any]
        let port = try #require(ready?["port"] as? Int)
        let second = try await Tool.run(["serve", "pusher", "--port", "\(port)"])
        #expect(second.status == 1)
        #expect(second.errors.hasPrefix("realtime: "))
        #expect(second.errors.contains("\(port)"))
        first.process.signal(SIGTERM)
        #expect(await first.ended() == 0)
    }

    @Test func `what happens to a subscriber is told in order`() async throws {
        let server = try Tool(["serve", "pusher", "--app-id", "1", "--key", "k", "--secret", "s"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let tool = try Tool(["pusher", "subscribe", url, "--key", "k", "--secret", "s", "--count", "1", "prices", "private-a"])
        var lines: [String] = []
        while lines.last?.contains("private-a") != true { lines.append(await tool.nextLine()) }
        let published = try await Tool.run(
            ["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", "s", "prices", "price", #"{"text":"ü\n\""}"#])
        #expect(published.status == 0)
        for _ in 0..<2 { lines.append(await tool.nextLine()) }
        #expect(await tool.ended() == 0)
        lines[1].replace(/"detail":"socket [0-9.]+"/, with: #""detail":"socket""#)
        #expect(
            lines == [
                #"{"type":"state","state":"connecting"}"#,
                #"{"type":"state","state":"connected","detail":"socket"}"#,
                #"{"type":"subscribed","channel":"prices"}"#,
                #"{"type":"subscribed","channel":"private-a"}"#,
                #"{"type":"event","channel":"prices","event":"price","data":"{\"text\":\"ü\\n\\\"\"}"}"#,
                #"{"type":"state","state":"disconnected"}"#,
            ])
        server.process.signal(SIGTERM)
        #expect(await server.ended() == 0)
    }

    @Test func `a wrong key ends a subscriber with the servers reason`() async throws {
        let server = try Tool(["serve", "pusher"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let result = try await Tool.run(["pusher", "subscribe", url, "--key", "wrong", "prices"])
        #expect(result.status == 1)
        #expect(result.errors.hasPrefix("realtime: There is no application with this key") && result.errors.contains("4001"))
        #expect(result.errors.split(separator: "\n").count == 1)
        server.process.signal(SIGTERM)
        #expect(await server.ended() == 0)
    }

    @Test func `what did not come in time is said with the place and the reason`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let silent = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--count", "2", "--timeout", "0.5", "prices"])
        #expect(silent.status == 1)
        #expect(silent.errors.contains(url) && silent.errors.contains("within 0.5 s"))
        server.process.signal(SIGTERM)
        #expect(await server.ended() == 0)
        let absent = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--timeout", "0.5", "prices"])
        #expect(absent.status == 1)
        #expect(absent.errors.contains("prices at \(url)") && absent.errors.contains("Nothing listens"))
    }

    /// The next socket would get its number otherwise, and lines of output would go there.
    @Test func `an output that is closed is a failure`() async throws {
        for words in ["demo", "--help"] {
            let result = try await Tool.run(shell: "exec \"$0\" \(words) >&-")
            #expect(result.status == 1)
            #expect(result.errors == "realtime: The output cannot be written (Bad file descriptor).\n")
        }
    }

    private static func object(_ line: String) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] ?? [:]
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

    /// - Parameter shell: a line for the shell, to which the tool is `$0`.
    init(shell: String) throws {
        self.process = try ChildProcess(["/bin/sh", "-c", shell, try #require(Self.path)], errors: .kept)
    }

    /// The exit status, or a signal's number below zero.
    func ended() async -> Int32 {
        await Self.onAThread { [process] in process.waitForEnd() }
    }

    func nextLine() async -> String {
        await Self.onAThread { [process] in process.readLine() ?? "" }
    }

    static func run(_ arguments: [String]) async throws -> (status: Int32, output: String, errors: String) {
        try await Self.outcome(try Tool(arguments))
    }

    static func run(shell: String) async throws -> (status: Int32, output: String, errors: String) {
        try await Self.outcome(try Tool(shell: shell))
    }

    private static func outcome(_ tool: Tool) async throws -> (status: Int32, output: String, errors: String) {
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

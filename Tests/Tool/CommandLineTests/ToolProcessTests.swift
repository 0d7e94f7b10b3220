import Foundation
import Processes
import TestSupport
import Testing

/// Tests of the tool as a process.
@Suite(.usesSockets, .enabled(if: Tool.path != nil, "the tool is not in the folder of the tests"))
struct ToolProcessTests {
    @Test func `help and version are printed to standard output`() async throws {
        for arguments in [[], ["--help"], ["--version"], ["pusher", "publish", "--help"]] {
            let result = try await Tool.run(arguments)
            #expect(result.status == 0)
            #expect(result.output.contains("realtime") || result.output.contains("Publish"))
            #expect(result.errors.isEmpty)
        }
    }

    @Test func `a usage error is one line on standard error and exits with status 2`() async throws {
        for arguments in [["nothing"], ["serve", "pusher", "--prot", "1"], ["serve", "pusher", "--port", "x"], ["pusher"]] {
            let result = try await Tool.run(arguments)
            #expect(result.status == 2)
            #expect(result.output.isEmpty)
            #expect(result.errors.hasPrefix("realtime: "))
            #expect(result.errors.split(separator: "\n").count == 1)
        }
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `a server prints that it is ready and exits on a signal`(_ signal: Int32) async throws {
        let tool = try Tool(["serve", "pusher"])
        let line = await tool.nextLine()
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        #expect(ready["ready"] as? Bool == true)
        #expect(Set(ready.keys) == ["ready", "url", "port", "app", "key", "secret"])
        tool.process.signal(signal)
        #expect(await tool.waitForEnd() == 0)
    }

    @Test func `a port in use is a failure that names the port`() async throws {
        let first = try Tool(["serve", "pusher"])
        let ready = try JSONSerialization.jsonObject(with: Data(await first.nextLine().utf8)) as? [String: Any]
        let port = try #require(ready?["port"] as? Int)
        let second = try await Tool.run(["serve", "pusher", "--port", "\(port)"])
        #expect(second.status == 1)
        #expect(second.errors.hasPrefix("realtime: "))
        #expect(second.errors.contains("\(port)"))
        first.process.signal(SIGTERM)
        #expect(await first.waitForEnd() == 0)
    }

    @Test func `a subscriber prints updates in order`() async throws {
        let server = try Tool(["serve", "pusher", "--app-id", "1", "--key", "k", "--secret", "s"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let tool = try Tool(["pusher", "subscribe", url, "--key", "k", "--secret", "s", "--count", "1", "prices", "private-a"])
        var lines: [String] = []
        while lines.last?.contains("private-a") != true { lines.append(await tool.nextLine()) }
        let published = try await Tool.run(
            ["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", "s", "prices", "price", #"{"text":"ü\n\""}"#])
        #expect(published.status == 0)
        for _ in 0..<2 { lines.append(await tool.nextLine()) }
        #expect(await tool.waitForEnd() == 0)
        lines[1].replace(/"detail":"socket ID [0-9.]+"/, with: #""detail":"socket ID""#)
        #expect(
            lines == [
                #"{"type":"state","state":"connecting"}"#,
                #"{"type":"state","state":"connected","detail":"socket ID"}"#,
                #"{"type":"subscribed","channel":"prices"}"#,
                #"{"type":"subscribed","channel":"private-a"}"#,
                #"{"type":"event","channel":"prices","event":"price","data":"{\"text\":\"ü\\n\\\"\"}"}"#,
                #"{"type":"state","state":"disconnected"}"#,
            ])
        server.process.signal(SIGTERM)
        #expect(await server.waitForEnd() == 0)
    }

    @Test func `a wrong key ends a subscriber with the server's reason`() async throws {
        let server = try Tool(["serve", "pusher"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let result = try await Tool.run(["pusher", "subscribe", url, "--key", "wrong", "prices"])
        #expect(result.status == 1)
        #expect(result.errors.hasPrefix("realtime: Unknown app key") && result.errors.contains("4001"))
        #expect(result.errors.split(separator: "\n").count == 1)
        server.process.signal(SIGTERM)
        #expect(await server.waitForEnd() == 0)
    }

    @Test func `a timeout is a failure that names the service and the reason`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let silent = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--count", "2", "--timeout", "0.5", "prices"])
        #expect(silent.status == 1)
        #expect(silent.errors.contains(url) && silent.errors.contains("within 0.5 s"))
        server.process.signal(SIGTERM)
        #expect(await server.waitForEnd() == 0)
        let absent = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--timeout", "0.5", "prices"])
        #expect(absent.status == 1)
        #expect(absent.errors.contains("prices at \(url) within 0.5 s: "))
    }

    /// Without `Output.reserveStandardDescriptors()`, the next socket would get the number of standard output.
    @Test func `a closed standard output is a failure`() async throws {
        for arguments in ["demo", "--help"] {
            let result = try await Tool.run(shell: "exec \"$0\" \(arguments) >&-")
            #expect(result.status == 1)
            #expect(result.errors == "realtime: Cannot write to standard output: Bad file descriptor.\n")
        }
    }

    private static func object(_ line: String) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] ?? [:]
    }
}

/// A run of the tool.
struct Tool {
    /// The path of the tool in the folder of the test bundle, or `nil`.
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
        self.process = try ChildProcess([try #require(Self.path)] + arguments, errors: .captured)
    }

    /// - Parameter shell: A line for the shell, in which `$0` is the tool.
    init(shell: String) throws {
        self.process = try ChildProcess(["/bin/sh", "-c", shell, try #require(Self.path)], errors: .captured)
    }

    /// Waits until the tool has exited. Returns the exit status, or the negative number of a signal.
    func waitForEnd() async -> Int32 {
        await Self.onThread { [process] in process.waitForEnd() }
    }

    func nextLine() async -> String {
        await Self.onThread { [process] in process.readLine() ?? "" }
    }

    static func run(_ arguments: [String]) async throws -> (status: Int32, output: String, errors: String) {
        try await Self.result(try Tool(arguments))
    }

    static func run(shell: String) async throws -> (status: Int32, output: String, errors: String) {
        try await Self.result(try Tool(shell: shell))
    }

    private static func result(_ tool: Tool) async throws -> (status: Int32, output: String, errors: String) {
        tool.process.endInput()
        // Reading one after another does not deadlock: the errors fit into the buffer of their pipe.
        return await Self.onThread { [process = tool.process] in
            let (output, errors) = (process.readOutput(), process.readErrors())
            return (process.waitForEnd(), output, errors)
        }
    }

    /// Runs the tool at a terminal, without colors.
    static func runAtTerminal(_ arguments: [String]) async throws -> (status: Int32, output: String) {
        let process = try ChildProcess(["env", "NO_COLOR=1", "TERM=xterm", try #require(Self.path)] + arguments, writesToTerminal: true)
        process.endInput()
        return await Self.onThread {
            let output = process.readOutput()
            return (process.waitForEnd(), output)
        }
    }

    /// Calls a function that blocks on a separate thread, to keep the executor's threads free.
    private static func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        let (values, continuation) = AsyncStream<Value>.makeStream()
        Thread.detachNewThread {
            continuation.yield(body())
            continuation.finish()
        }
        for await value in values { return value }
        preconditionFailure("the thread ended without a value")
    }
}

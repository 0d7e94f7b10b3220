import Foundation
import Testing

/// The tool as it is run: what only shows in a process of its own.
@Suite(.enabled(if: Tool.path != nil, "the tool is not beside the tests"))
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
        kill(tool.process.processIdentifier, signal)
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
        kill(first.process.processIdentifier, SIGTERM)
        #expect(await first.ended() == 0)
    }
}

/// A run of the tool.
private struct Tool {
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

    let process = Process()
    private let output = Pipe()
    private let errors = Pipe()
    private let status: AsyncStream<Int32>

    init(_ arguments: [String]) throws {
        self.process.executableURL = URL(fileURLWithPath: try #require(Self.path))
        self.process.arguments = arguments
        self.process.standardInput = FileHandle.nullDevice
        self.process.standardOutput = self.output
        self.process.standardError = self.errors
        let (status, continuation) = AsyncStream<Int32>.makeStream()
        self.status = status
        self.process.terminationHandler = {
            continuation.yield($0.terminationReason == .exit ? $0.terminationStatus : -$0.terminationStatus)
            continuation.finish()
        }
        try self.process.run()
    }

    /// The exit status, or a signal's number below zero.
    func ended() async -> Int32? {
        for await status in self.status { return status }
        return nil
    }

    func firstLine() async -> String {
        await Self.onAThread { [output = self.output.fileHandleForReading] in
            var line = Data()
            while let byte = try? output.read(upToCount: 1), byte.first != 0x0A, !byte.isEmpty { line += byte }
            return String(decoding: line, as: UTF8.self)
        }
    }

    static func run(_ arguments: [String]) async throws -> (status: Int32?, output: String, errors: String) {
        let tool = try Tool(arguments)
        let (output, errors) = await Self.onAThread {
            [output = tool.output.fileHandleForReading, errors = tool.errors.fileHandleForReading] in
            // Neither is long enough to fill its pipe.
            let data = ((try? output.readToEnd()) ?? nil, (try? errors.readToEnd()) ?? nil)
            return (String(decoding: data.0 ?? Data(), as: UTF8.self), String(decoding: data.1 ?? Data(), as: UTF8.self))
        }
        return (await tool.ended(), output, errors)
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

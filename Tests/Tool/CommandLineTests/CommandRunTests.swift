import Foundation
import TestSupport
import Testing

@testable import CommandLineSupport

@Suite(.usesSockets) struct CommandRunTests {
    private struct TestCommand: Command {
        static let spec = CommandSpec(path: ["test"], summary: "", description: "")
        var body: @Sendable (Console) async -> ToolFailure?

        init(_ body: @escaping @Sendable (Console) async -> ToolFailure?) { self.body = body }
        init(_ arguments: Arguments) throws(UsageError) { self.body = { _ in nil } }

        func run(_ console: Console) async throws(ToolFailure) {
            if let failure = await self.body(console) { throw failure }
        }
    }

    /// Suspends until the task is cancelled.
    private static func waitForCancellation() async {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        for await _ in stream {}
        continuation.finish()
    }

    private func run(
        _ format: Console.Format = .json(isTerminal: false), signals: Signals = Signals(), closingReader: Bool = false,
        _ body: @escaping @Sendable (Console) async -> ToolFailure?
    ) async throws -> (status: ToolExitStatus, output: String, errors: String) {
        let (output, errors) = (PrivatePipe(), PrivatePipe())
        Output.ignoreBrokenPipes()
        if closingReader { try output.reading.close() }
        let console = Console(
            format, output: Output(output.writing.fileDescriptor), errors: Output(errors.writing.fileDescriptor))
        let status = await CommandRun(command: TestCommand(body), console: console, signals: signals)()
        try output.writing.close()
        try errors.writing.close()
        let written = closingReader ? Data() : try output.reading.readToEnd() ?? Data()
        let messages = try errors.reading.readToEnd() ?? Data()
        return (status, String(decoding: written, as: UTF8.self), String(decoding: messages, as: UTF8.self))
    }

    @Test func `a command that returns exits with status 0`() async throws {
        let result = try await self.run {
            $0.print(.state("connected"))
            return nil
        }
        expectEqual(result.status, .success)
        expectEqual(result.output, #"{"type":"state","state":"connected"}"# + "\n")
        expect(result.errors.isEmpty)
    }

    @Test func `a failure is printed to standard error and, as JSON, to standard output`() async throws {
        let result = try await self.run { _ in ToolFailure("Connection refused.") }
        expectEqual(result.status, .failure)
        expectEqual(result.output, #"{"type":"error","message":"Connection refused."}"# + "\n")
        expectEqual(result.errors, "realtime: Connection refused.\n")
        let asText = try await self.run(.text(isColored: false)) { _ in ToolFailure("Bad \u{1B}[2J.") }
        expect(asText.output.isEmpty)
        expectEqual(asText.errors, "realtime: Bad \\u{1b}[2J.\n")
    }

    @Test(arguments: [Console.Format.json(isTerminal: false), .text(isColored: false)])
    func `a failure is printed once where both outputs lead to the same place`(_ format: Console.Format) async throws {
        let both = PrivatePipe()
        let console = Console(format, output: Output(both.writing.fileDescriptor), errors: Output(both.writing.fileDescriptor))
        let command = TestCommand { _ in ToolFailure("Connection refused.", code: 7) }
        let status = await CommandRun(command: command, console: console, signals: Signals())()
        try both.writing.close()
        expectEqual(status, .failure)
        let text = String(decoding: try both.reading.readToEnd() ?? Data(), as: UTF8.self)
        let isText = format == .text(isColored: false)
        expectEqual(
            text, (isText ? "realtime: Connection refused." : #"{"type":"error","code":7,"message":"Connection refused."}"#) + "\n")
    }

    @Test func `a signal cancels the command and waits until it returns`() async throws {
        let signals = Signals()
        let result = try await self.run(signals: signals) { console in
            signals.record(SIGINT)
            await Self.waitForCancellation()
            console.print(.state("disconnected"))
            return nil
        }
        expectEqual(result.status, .success)
        expect(result.output.contains("disconnected"))
    }

    @Test func `a command that was cancelled by a signal prints no failure`() async throws {
        let signals = Signals()
        signals.record(SIGTERM)
        let result = try await self.run(signals: signals) { _ in
            await Self.waitForCancellation()
            return ToolFailure("Cancelled.")
        }
        expectEqual(result.status, .failure)
        expect(result.errors.isEmpty)
        expect(result.output.isEmpty)
    }

    @Test func `a reader that closes the pipe ends the command without an error`() async throws {
        let result = try await self.run(closingReader: true) { console in
            console.print(.state("connected"))
            await Self.waitForCancellation()
            console.print(.state("disconnected"))
            return nil
        }
        expectEqual(result.status, .success)
        expect(result.errors.isEmpty)
    }

    @Test(.requires(.deviceFull))
    func `a failed write to standard output is a failure`() async throws {
        let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
        let errors = PrivatePipe()
        let console = Console(
            .json(isTerminal: false), output: Output(full.fileDescriptor), errors: Output(errors.writing.fileDescriptor))
        let status = await CommandRun(
            command: TestCommand { console in
                console.print(.state("connected"))
                await Self.waitForCancellation()
                return nil
            }, console: console, signals: Signals())()
        try errors.writing.close()
        expectEqual(status, .failure)
        let message = String(decoding: try errors.reading.readToEnd() ?? Data(), as: UTF8.self)
        expectEqual(message, "realtime: Cannot write to standard output: No space left on device.\n")
    }

    @Test func `only the first signal is recorded`() async {
        let signals = Signals()
        expect(signals.record(SIGINT))
        expect(!signals.record(SIGTERM))
        await expectEqual(signals.waitForFirst(), SIGINT)
    }

    @Test func `lines from several threads do not interleave`() async throws {
        let line = Line.state(String(repeating: "x", count: 3000))
        let pipe = PrivatePipe()
        let console = Console(.json(isTerminal: false), output: Output(pipe.writing.fileDescriptor))
        // Reads on a separate thread, because the writing tasks block all threads of the executor.
        let (results, continuation) = AsyncStream<Data>.makeStream()
        Thread.detachNewThread {
            continuation.yield((try? pipe.reading.readToEnd()) ?? Data())
            continuation.finish()
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { for _ in 0..<10 { console.print(line) } } }
        }
        try pipe.writing.close()
        var written = Data()
        for await data in results { written = data }
        let lines = String(decoding: written, as: UTF8.self).split(separator: "\n")
        expectEqual(lines.count, 200)
        expectEqual(Set(lines).count, 1)
    }
}

/// A pipe that child processes do not inherit, unlike Foundation's `Pipe`. A child that another test starts would keep it open, and
/// reading to its end would wait for that child.
struct PrivatePipe {
    let reading, writing: FileHandle

    init() {
        var ends: [Int32] = [0, 0]
        #if os(Linux)
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        #else
        precondition(socketpair(AF_UNIX, SOCK_STREAM, 0, &ends) == 0)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        #endif
        self.reading = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        self.writing = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    }
}

import Foundation
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

@Suite(.usesSockets) struct CommandRunTests {
    private struct Fake: Command {
        static let spec = CommandSpec(path: ["fake"], summary: "", description: "")
        var body: @Sendable (Console) async -> ToolFailure?

        init(_ body: @escaping @Sendable (Console) async -> ToolFailure?) { self.body = body }
        init(_ arguments: Arguments) throws(UsageError) { self.body = { _ in nil } }

        func run(_ console: Console) async throws(ToolFailure) {
            if let failure = await self.body(console) { throw failure }
        }
    }

    /// Returns when its task is cancelled, and only then.
    private static func untilCancelled() async {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        for await _ in stream {}
        continuation.finish()
    }

    private func run(
        _ format: Console.Format = .json(terminal: false), signals: Signals = Signals(), closingReader: Bool = false,
        _ body: @escaping @Sendable (Console) async -> ToolFailure?
    ) async throws -> (status: ToolStatus, output: String, errors: String) {
        let (output, errors) = (ClosedPipe(), ClosedPipe())
        Output.ignoreBrokenPipes()
        if closingReader { try output.reading.close() }
        let console = Console(
            format, output: Output(output.writing.fileDescriptor), errors: Output(errors.writing.fileDescriptor))
        let status = await CommandRun(command: Fake(body), console: console, signals: signals)()
        try output.writing.close()
        try errors.writing.close()
        let written = closingReader ? Data() : try output.reading.readToEnd() ?? Data()
        let complaints = try errors.reading.readToEnd() ?? Data()
        return (status, String(decoding: written, as: UTF8.self), String(decoding: complaints, as: UTF8.self))
    }

    @Test func `a command that returns ends with zero`() async throws {
        let result = try await self.run {
            $0.say(.state("connected"))
            return nil
        }
        #expect(result.status == .done)
        #expect(result.output == #"{"type":"state","state":"connected"}"# + "\n")
        #expect(result.errors.isEmpty)
    }

    @Test func `a failure is one sentence on standard error and a line for programs`() async throws {
        let result = try await self.run { _ in ToolFailure("Nothing listens there.") }
        #expect(result.status == .failed)
        #expect(result.output == #"{"type":"error","message":"Nothing listens there."}"# + "\n")
        #expect(result.errors == "realtime: Nothing listens there.\n")
        let forPeople = try await self.run(.words(coloured: false)) { _ in ToolFailure("Bad \u{1B}[2J.") }
        #expect(forPeople.output.isEmpty)
        #expect(forPeople.errors == "realtime: Bad \\u{1b}[2J.\n")
    }

    @Test func `a signal cancels the command and waits for it to tidy up`() async throws {
        let signals = Signals()
        let result = try await self.run(signals: signals) { console in
            signals.receive(SIGINT)
            await Self.untilCancelled()
            console.say(.state("disconnected"))
            return nil
        }
        #expect(result.status == .done)
        #expect(result.output.contains("disconnected"))
    }

    @Test func `whoever stops a command is not told that it was stopped`() async throws {
        let signals = Signals()
        signals.receive(SIGTERM)
        let result = try await self.run(signals: signals) { _ in
            await Self.untilCancelled()
            return ToolFailure("Cancelled.")
        }
        #expect(result.status == .failed)
        #expect(result.errors.isEmpty)
        #expect(result.output.isEmpty)
    }

    @Test func `a reader that goes ends the command quietly`() async throws {
        let result = try await self.run(closingReader: true) { console in
            console.say(.state("connected"))
            await Self.untilCancelled()
            console.say(.state("disconnected"))
            return nil
        }
        #expect(result.status == .done)
        #expect(result.errors.isEmpty)
    }

    @Test func `an output that cannot be written is a failure`() async throws {
        let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
        let errors = ClosedPipe()
        let console = Console(
            .json(terminal: false), output: Output(full.fileDescriptor), errors: Output(errors.writing.fileDescriptor))
        let status = await CommandRun(
            command: Fake { console in
                console.say(.state("connected"))
                await Self.untilCancelled()
                return nil
            }, console: console, signals: Signals())()
        try errors.writing.close()
        #expect(status == .failed)
        let complaint = String(decoding: try errors.reading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(complaint.hasPrefix("realtime: The output cannot be written"))
    }

    @Test func `the second signal is known as such`() async {
        let signals = Signals()
        #expect(signals.receive(SIGINT))
        #expect(!signals.receive(SIGTERM))
        #expect(await signals.first() == SIGINT)
    }

    @Test func `lines of many threads do not mix`() async throws {
        let line = Line.state(String(repeating: "x", count: 3000))
        let pipe = ClosedPipe()
        let console = Console(.json(terminal: false), output: Output(pipe.writing.fileDescriptor))
        // Who reads must not wait for a thread of the tasks: those who write hold them all.
        let (results, continuation) = AsyncStream<Data>.makeStream()
        Thread.detachNewThread {
            continuation.yield((try? pipe.reading.readToEnd()) ?? Data())
            continuation.finish()
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { for _ in 0..<10 { console.say(line) } } }
        }
        try pipe.writing.close()
        var written = Data()
        for await data in results { written = data }
        let lines = String(decoding: written, as: UTF8.self).split(separator: "\n")
        #expect(lines.count == 200)
        #expect(Set(lines).count == 1)
    }
}

/// Not Foundation's `Pipe`, which children inherit: one that another test starts meanwhile would hold it open, and what
/// reads to its end would wait for that child's.
private struct ClosedPipe {
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

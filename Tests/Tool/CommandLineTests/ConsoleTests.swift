import Foundation
import RealtimeCoding
import RealtimeSystem
import TestSupport
import Testing

@testable import CommandLineSupport

@Suite struct LineTests {
    private func json(_ line: Line) -> String { String(decoding: line.json, as: UTF8.self) }
    private func text(_ line: Line, isColored: Bool = false) -> String {
        String(decoding: line.text(isColored: isColored), as: UTF8.self)
    }

    @Test func `JSON output is one object per line`() {
        expectEqual(self.json(.state("connected")), #"{"type":"state","state":"connected"}"# + "\n")
        expectEqual(self.json(.state("connected", socketID: "1.2")), #"{"type":"state","state":"connected","socket_id":"1.2"}"# + "\n")
        expectEqual(self.json(Line([], ["a": .json(["b": [1, nil]])])), #"{"a":{"b":[1,null]}}"# + "\n")
        expectEqual(self.json(.subscribed("a")), #"{"type":"subscribed","channel":"a"}"# + "\n")
        expectEqual(self.json(.error("no", code: 4001)), #"{"type":"error","code":4001,"message":"no"}"# + "\n")
        expectEqual(
            self.json(Line([], ["a": true, "b": 1, "c": .number(0.5), "d": .number(.nan), "e": .strings(["x", "y"]), "f": nil])),
            #"{"a":true,"b":1,"c":0.5,"d":null,"e":["x","y"]}"# + "\n")
        let event = Line.event(channel: "a", event: "e", data: #"{"x":"y"}"#)
        expectEqual(self.json(event), #"{"type":"event","channel":"a","event":"e","data":"{\"x\":\"y\"}"}"# + "\n")
        expectEqual(self.json(.event(channel: nil, event: "e", data: nil)), #"{"type":"event","event":"e"}"# + "\n")
    }

    @Test func `text output is styled only if colors are enabled`() {
        let event = Line.event(channel: "a", event: "e", data: "1", userID: "me")
        expectEqual(self.text(event), "a e from me 1\n")
        expectEqual(self.text(.subscribed("a"), isColored: true), "\u{1B}[32msubscribed\u{1B}[0m to \u{1B}[36ma\u{1B}[0m\n")
    }

    @Test(arguments: ["\u{1B}]0;title\u{07}", "a\nb\r\tc", "\u{9B}31m", "\u{7F}", "\u{202E}evil", "\u{2028}", "é😀"])
    func `characters that are unsafe for a terminal are escaped`(_ data: String) {
        let line = Line.event(channel: data, event: data, data: data)
        let shown = self.text(line).dropLast()
        expect(
            shown.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0 != "\u{202E}" && $0 != "\u{2028}"
            })
        let json = String(decoding: TerminalText.escaped(json: line.json), as: UTF8.self).dropLast()
        expect(
            json.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0 != "\u{202E}" && $0 != "\u{2028}" }
        )
    }

    @Test(arguments: ["", "\"\\/", "\u{0}\u{1F}\n\r\t\u{8}\u{C}", "\u{7F}\u{9B}\u{202E}", "é😀\u{10FFFF}"])
    func `JSON output preserves the data`(_ data: String) throws {
        let line = Line.event(channel: "a", event: "e", data: data)
        for bytes in [line.json, TerminalText.escaped(json: line.json)] {
            let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: String])
            expectEqual(object["data"], data)
            expectEqual(bytes.filter { $0 == 0x0A }.count, 1)
        }
    }
}

@Suite(.usesSockets) struct TimestampTests {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (999, "1970-01-01T00:00:00.999Z"), (1_767_225_599_050, "2025-12-31T23:59:59.050Z"),
            (1_709_164_800_007, "2024-02-29T00:00:00.007Z"),
        ] as [(Int64, String)])
    func `a time has milliseconds, in UTC`(_ milliseconds: Int64, _ text: String) {
        expectEqual(Console.timestamp(milliseconds), text)
    }

    /// Returns the output of a console whose clock advances by a second each time that it is read.
    private func output(_ format: Console.Format, _ body: (Console) async -> Void) async throws -> [String] {
        let pipe = PrivatePipe()
        let time = Lock<Int64>(0)
        let console = Console(format, output: Output(pipe.writing.fileDescriptor)) {
            time.withLock { time in
                time += 1000
                return time
            }
        }
        await body(console)
        try pipe.writing.close()
        return String(decoding: try pipe.reading.readToEnd() ?? Data(), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func `each line of text begins with its time`() async throws {
        let lines = try await self.output(.text(isColored: false)) { console in
            console.print(.subscribed("a"))
            console.printNote("retrying")
        }
        expectEqual(lines, ["1970-01-01T00:00:01.000Z subscribed to a", "1970-01-01T00:00:02.000Z retrying"])
        let colored = try await self.output(.text(isColored: true)) { $0.printNote("retrying") }
        expectEqual(colored, ["\u{1B}[2m1970-01-01T00:00:01.000Z \u{1B}[0mretrying"])
    }

    @Test func `each object has its time as the first field`() async throws {
        let lines = try await self.output(.json(isTerminal: false)) { console in
            console.print(.subscribed("a"))
            console.print(.error("no"))
        }
        expectEqual(
            lines,
            [
                #"{"time":"1970-01-01T00:00:01.000Z","type":"subscribed","channel":"a"}"#,
                #"{"time":"1970-01-01T00:00:02.000Z","type":"error","message":"no"}"#,
            ])
    }

    private struct TestCommand: Command {
        static let spec = CommandSpec(path: ["test"], summary: "", description: "", options: [.json, .timestamps])

        init(_ arguments: Arguments) throws(UsageError) {}
        func run(_ console: Console) async throws(ToolFailure) {}
    }

    @Test(arguments: [([], ""), (["--timestamps"], #""time":"2025-12-31T23:59:59.050Z","#)] as [([String], String)])
    func `the option selects the clock of the tool`(_ options: [String], _ time: String) throws {
        let tool = CommandLineTool(version: "1", summary: "", groups: [], commands: [TestCommand.self], clock: { 1_767_225_599_050 })
        guard case .run(let arguments) = try tool.table.parse(["test"] + options) else {
            Issue.record("the command line does not run a command")
            return
        }
        let pipe = PrivatePipe()
        tool.console(arguments, output: Output(pipe.writing.fileDescriptor)).print(.subscribed("a"))
        try pipe.writing.close()
        let text = String(decoding: try pipe.reading.readToEnd() ?? Data(), as: UTF8.self)
        expectEqual(text, #"{\#(time)"type":"subscribed","channel":"a"}"# + "\n")
    }

    @Test func `a line that waits keeps the time at which it was enqueued`() async throws {
        let lines = try await self.output(.text(isColored: false)) { console in
            let printer = LinePrinter(console)
            printer.enqueue(Line(["first"], [:]))
            _ = console.stamped(Line([], [:]))
            await printer.print(Line(["second"], [:]))
        }
        expectEqual(lines, ["1970-01-01T00:00:01.000Z first", "1970-01-01T00:00:03.000Z second"])
    }
}

@Suite struct FormatTests {
    @Test(
        arguments: [
            (false, true, ["TERM": "xterm"], Console.Format.text(isColored: true)),
            (false, true, ["TERM": "xterm", "NO_COLOR": "1"], .text(isColored: false)),
            (false, true, ["TERM": "xterm", "NO_COLOR": ""], .text(isColored: true)),
            (false, true, ["TERM": "dumb"], .text(isColored: false)),
            (false, true, [:], .text(isColored: false)),
            (true, true, ["TERM": "xterm"], .json(isTerminal: true)),
            (false, false, ["TERM": "xterm"], .json(isTerminal: false)),
            (true, false, [:], .json(isTerminal: false)),
        ] as [(Bool, Bool, [String: String], Console.Format)])
    func `the format depends on the option, the terminal and the environment`(
        _ json: Bool, _ isTerminal: Bool, _ environment: [String: String], _ format: Console.Format
    ) {
        expectEqual(Console.format(json: json, isTerminal: isTerminal) { environment[$0] }, format)
    }
}

@Suite(.usesSockets) struct LinePrinterTests {
    private func output(limit: Int, _ body: (LinePrinter) async throws -> Void) async throws -> [String] {
        let pipe = PrivatePipe()
        try await body(LinePrinter(Console(.text(isColored: false), output: Output(pipe.writing.fileDescriptor)), limit: limit))
        try pipe.writing.close()
        return String(decoding: try pipe.reading.readToEnd() ?? Data(), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private func line(_ text: String) -> Line { Line([.init(text)], [:]) }

    @Test func `enqueued lines are printed before the next line`() async throws {
        let lines = try await self.output(limit: 2) { printer in
            for name in ["a", "b"] { printer.enqueue(self.line(name)) }
            await printer.print(self.line("c"))
            printer.enqueue(self.line("d"))
            await printer.printNote("e")
            printer.enqueue(self.line("f"))
            await printer.flush()
        }
        expectEqual(lines, ["a", "b", "c", "d", "e", "f"])
    }

    @Test func `a full queue drops lines and says how many`() async throws {
        let lines = try await self.output(limit: 2) { printer in
            for name in ["a", "b", "c", "d", "e"] { printer.enqueue(self.line(name)) }
            await printer.print(self.line("f"))
            for name in ["g", "h", "i"] { printer.enqueue(self.line(name)) }
            await printer.flush()
        }
        let missing = "missing here, because the output is read too slowly."
        expectEqual(lines, ["a", "b", "error: 3 lines are \(missing)", "f", "g", "h", "error: 1 line is \(missing)"])
    }

    @Test func `lines are printed as they are enqueued, until the task is cancelled`() async throws {
        let pipe = PrivatePipe()
        let printer = LinePrinter(Console(.text(isColored: false), output: Output(pipe.writing.fileDescriptor)))
        let printing = Task { await printer.printQueue() }
        for name in ["a", "b"] {
            printer.enqueue(self.line(name))
            // Reading blocks until the task, which needs another thread, has printed the line.
            #expect(try await onOwnThread { try pipe.reading.read(upToCount: 2) } == Data("\(name)\n".utf8))
        }
        printing.cancel()
        await printing.value
    }
}

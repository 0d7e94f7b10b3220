import Foundation
import Processes
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

/// The page of `realtime manual`, and what programs for manual pages say about it.
@Suite(.usesSockets) struct ManualTests {
    private static let page = Realtime.tool.manual()
    private static let commands = CommandTableTests.specs.filter { !$0.isHidden }

    /// Runs a program with the page in its standard input.
    private func run(_ command: String) async throws -> (status: Int32, output: String, errors: String) {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("manual-\(UUID().uuidString)").path
        try Data(Self.page.utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let process = try ChildProcess(["sh", "-c", "{ \(command); } <\"$0\"", file], errors: .captured)
        process.endInput()
        return await Tool(process: process).end()
    }

    @Test(.requires(.groff)) func `groff accepts the page without warnings, and shows every command and option`() async throws {
        // Without backspaces and escape sequences for bold type.
        try await self.expectCompletePage("GROFF_NO_SGR=1 groff -man -Tutf8 -ww -P-c -P-b -P-u")
    }

    @Test(.requires(.man)) func `man accepts the page without warnings, and shows every command and option`() async throws {
        try await self.expectCompletePage("MANWIDTH=80 man --warnings -l - | col -bx")
    }

    @Test(.requires(.mandoc)) func `mandoc accepts the page without warnings, and shows every command and option`() async throws {
        // A page without a date is worth a warning to it.
        try await self.expectCompletePage("mandoc -man -Tutf8 -Werror | col -bx")
    }

    private func expectCompletePage(_ command: String) async throws {
        let shown = try await self.run(command)
        expect(shown.status == 0 && shown.errors.isEmpty, "\(shown.errors)")
        let words = shown.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        for spec in Self.commands {
            expect(words.contains("realtime " + spec.path.joined(separator: " ")))
            for option in spec.options { expect(words.contains(option.usage), "\(option.usage)") }
            // Dashes and quotes are those of the shell.
            for example in spec.examples { expect(shown.output.contains("realtime \(example)"), "\(example)") }
        }
        expect(words.contains("EXIT STATUS 0 for success") && words.contains("REALTIME_SIGNALR_TOKEN Replaces --token."))
    }

    @Test(arguments: Self.commands)
    func `the page describes a command with all arguments and options`(_ spec: CommandSpec) throws {
        let title = ".SS realtime \(spec.path.joined(separator: " "))\n"
        let start = try #require(Self.page.firstRange(of: title))
        let rest = Self.page[start.upperBound...]
        let section = rest[..<(rest.firstRange(of: "\n.S")?.lowerBound ?? rest.endIndex)]
        expect(section.hasPrefix(Manual.escaped(spec.description)))
        for option in spec.options { expect(section.contains("\n\\fB" + Manual.escaped("--\(option.name)") + "\\fR"), "\(option.name)") }
        for positional in spec.positionals { expect(section.contains("\n.I \(Manual.escaped(positional.name))\n")) }
        for option in spec.options { expect(section.contains("\n" + Manual.escaped(option.help) + "\n")) }
    }

    @Test func `characters with a meaning for roff are escaped`() {
        expectEqual(Manual.escaped(#".a \b 'c' --d "e" …"#), #"\&.a \eb \(aqc\(aq \-\-d \(dqe\(dq \[u2026]"#)
        expectEqual(
            Manual.escaped("https://example.org/a/long/path/of/a/url"), #"https:/\:/\:example.org/\:a/\:long/\:path/\:of/\:a/\:url"#)
        expectEqual(Manual.escaped("https://example.org/a/long/path/of/a/url", breaks: false), "https://example.org/a/long/path/of/a/url")
    }

    @Test func `the page has the version`() {
        expect(Self.page.contains(".TH REALTIME 1 \"\" \"realtime \(Realtime.tool.version)\" \"\"\n"))
        expect(!Self.page.contains("bench\\-load") && Self.page.contains(".SS realtime bench\n"))
    }
}

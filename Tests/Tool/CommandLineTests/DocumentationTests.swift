import Foundation
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

/// Checks what the README and the articles show of the tool, the scripts and the folders.
@Suite(.usesSockets) struct DocumentationTests {
    private struct Page {
        let path: String
        let text: String

        /// Returns the contents of the fenced blocks with a language, which is "" for none.
        func blocks(_ language: String) -> [String] {
            var blocks: [String] = []
            var current: [Substring]?
            var isIncluded = false
            for line in self.text.split(separator: "\n", omittingEmptySubsequences: false) {
                let content = line.drop { $0 == " " }
                if content.hasPrefix("```") {
                    if let lines = current {
                        if isIncluded { blocks.append(lines.joined(separator: "\n")) }
                        current = nil
                    } else {
                        (current, isIncluded) = ([], content.dropFirst(3) == language)
                    }
                } else {
                    current?.append(line)
                }
            }
            return blocks
        }

        /// The shell commands without comments: the lines of shell blocks, of which each part of a pipeline is a command, and the inline
        /// code.
        var commands: [[String]] {
            let lines = self.blocks("sh").flatMap { $0.split(separator: "\n") }.flatMap { line in
                line[..<(line.firstIndex(of: "#") ?? line.endIndex)].split(separator: "|")
            }
            let pieces = self.text.split(separator: "`", omittingEmptySubsequences: false)
            let quoted = pieces.enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
            return (lines + quoted).map { $0.split(separator: " ").map(String.init) }
        }
    }

    private static let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../..").standardized

    private static func pages() throws -> [Page] {
        let articles = try FileManager.default.subpathsOfDirectory(atPath: self.root.appendingPathComponent("Sources").path)
            .filter { $0.hasSuffix(".md") }.map { "Sources/\($0)" }
        return try (["README.md", "CONTRIBUTING.md", "Examples/README.md"] + articles.sorted()).map {
            Page(path: $0, text: try String(contentsOf: self.root.appendingPathComponent($0), encoding: .utf8))
        }
    }

    private static func page(_ path: String) throws -> Page { try #require(try self.pages().first { $0.path == path }) }

    /// Replaces what differs in each run: the ports and the IDs of connections.
    private static func normalized(_ output: String) -> String {
        output.replacing(/127\.0\.0\.1:\d+/, with: "127.0.0.1:PORT").replacing(/socket ID \d+\.\d+/, with: "socket ID X.Y")
            .replacing(/connection ID [\w-]+/, with: "connection ID X")
    }

    @Test(.requires(.tool(Tool.path)))
    func `the README shows the output of the demo`() async throws {
        let shown = try #require(try Self.page("README.md").blocks("").first { $0.contains("server listening") })
        let real = try await Tool.runAtTerminal(["demo"])
        expectEqual(real.status, 0)
        // `swift run realtime demo` names itself; another folder of builds makes the tool show its path.
        let output = real.output.replacing(Tool.path ?? "", with: "swift run realtime")
        expectEqual(Self.normalized(output), Self.normalized(shown + "\n"))
    }

    @Test func `all commands of the tool in the documentation are valid`() throws {
        var count = 0
        for page in try Self.pages() {
            for command in page.commands {
                // `swift run -c release realtime bench`
                guard command.first == "realtime" || command.starts(with: ["swift", "run"]), let tool = command.firstIndex(of: "realtime")
                else { continue }
                count += 1
                let arguments = command[(tool + 1)...].prefix { $0 != "<" }.map { $0.filter { $0 != "'" } }
                #expect(throws: Never.self, "\(page.path): \(command.joined(separator: " "))") {
                    let parsed = try Realtime.tool.table.parse(arguments) { $0 == Secret.pusherVariable ? "secret" : nil }
                    if case .run(let arguments) = parsed { _ = try Realtime.tool.command(arguments) }
                }
            }
        }
        expect(count >= 8)
    }

    @Test func `all options in the article on benchmarks exist`() throws {
        let options = BenchCommand.spec.options.map { "--\($0.name)" }
        let named = try Self.page("Sources/Core/RealtimeCore/Documentation.docc/Benchmarks.md").commands.flatMap { $0 }.filter {
            $0.hasPrefix("--")
        }
        expect(named.count >= 3)
        for option in named { expect(options.contains(option)) }
    }

    @Test func `all scripts in the documentation exist`() throws {
        var count = 0
        for page in try Self.pages() {
            for command in page.commands {
                guard let first = command.first, first.hasPrefix("dev/") || first.hasPrefix("Examples/") else { continue }
                count += 1
                expect(FileManager.default.fileExists(atPath: Self.root.appendingPathComponent(first).path), "\(page.path): \(first)")
            }
        }
        expect(count >= 8)
    }

    @Test func `the steps of dev/check are documented in order`() throws {
        let script = try String(contentsOf: Self.root.appendingPathComponent("dev/check"), encoding: .utf8)
        let steps = try #require(script.firstMatch(of: /steps=\((?<names>[^)]*)\)/)).names.split(separator: " ").map(String.init)
        let rows = try Self.page("CONTRIBUTING.md").text.split(separator: "\n").drop { !$0.hasPrefix("| step ") }.prefix {
            $0.hasPrefix("|")
        }
        let named = rows.dropFirst(2).flatMap { row in
            row.split(separator: "|")[0].split(separator: "`").map(String.init).filter { $0.allSatisfy(\.isLetter) }
        }
        expectEqual(named, steps)
    }

    @Test func `all examples and tests in the documentation exist`() throws {
        var examples: Set<String> = []
        for page in try Self.pages() {
            for command in page.commands {
                if command.starts(with: ["swift", "run", "--package-path", "Examples"]), let name = command.dropFirst(4).first {
                    examples.insert(name)
                    let folder = Self.root.appendingPathComponent("Examples/\(name)").path
                    expect(FileManager.default.fileExists(atPath: folder), "\(page.path): \(name)")
                }
                if command.starts(with: ["swift", "test", "--filter"]), let name = command.last {
                    let targets = try FileManager.default.subpathsOfDirectory(atPath: Self.root.appendingPathComponent("Tests").path)
                    expect(targets.contains { $0.hasSuffix("/\(name)") }, "\(page.path): \(name)")
                }
            }
        }
        expectEqual(
            examples,
            [
                "Chat", "FeathersTodos", "FileUpload", "HubChat", "PrimusChat", "PrimusTicker", "PusherSwiftMigration", "StockTicker",
                "Ticker",
                "Webhooks",
            ])
    }

    @Test func `Foundation is imported only where the guide for contributors says so`() throws {
        let sources = Self.root.appendingPathComponent("Sources")
        let exceptions = ["/RealtimeURLSession/", "/SignalRClient/", "/PusherSwift/", "/PrimusSwift/", "/NWWebSocket/"]
        let importing = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { path in
            guard path.hasSuffix(".swift"), !exceptions.contains(where: { path.contains($0) }) else { return false }
            return try String(contentsOf: sources.appendingPathComponent(path), encoding: .utf8).contains(/\bimport Foundation\b/)
        }
        let rule = try #require(
            try Self.page("CONTRIBUTING.md").text.firstMatch(
                of: /`Sources` doesn't import Foundation.*?`LocalizedError`/.dotMatchesNewlines()))
        let named = rule.0.matches(of: /`(\w+\.swift)`/).map { String($0.1) }
        expectEqual(importing.map { String($0.split(separator: "/").last ?? "") }.sorted(), named.sorted())
    }

    @Test func `all products in the documentation exist`() throws {
        let manifest = try String(contentsOf: Self.root.appendingPathComponent("Package.swift"), encoding: .utf8)
        let products = Set(manifest.matches(of: /\("(\w+)", \["\1"(?:, "\w+")*\]\),/).map { String($0.1) })
        expect(products.count > 5)
        var count = 0
        for page in try Self.pages() {
            for match in page.blocks("").joined().matches(of: /\.product\(name: "(\w+)", package: "swift-realtime"\)/) {
                count += 1
                expect(products.contains(String(match.1)), "\(page.path): \(match.1)")
            }
        }
        expect(count >= 3)
        let rows = try Self.page("README.md").text.split(separator: "\n").drop { !$0.hasPrefix("| product ") }.prefix { $0.hasPrefix("|") }
        expectEqual(Set(rows.dropFirst(2).map { row in String(row.split(separator: "`")[1]) }), products)
    }
}

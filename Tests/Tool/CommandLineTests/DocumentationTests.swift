import Foundation
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

/// What the README and the articles show of the tool and of the scripts is what there is.
@Suite(.usesSockets) struct DocumentationTests {
    private struct Page {
        let path: String
        let text: String

        /// What stands between the fences of blocks in this language; none is "".
        func blocks(_ language: String) -> [String] {
            var blocks: [String] = []
            var current: [Substring]?
            var isWanted = false
            for line in self.text.split(separator: "\n", omittingEmptySubsequences: false) {
                let word = line.drop { $0 == " " }
                if word.hasPrefix("```") {
                    if let lines = current {
                        if isWanted { blocks.append(lines.joined(separator: "\n")) }
                        current = nil
                    } else {
                        (current, isWanted) = ([], word.dropFirst(3) == language)
                    }
                } else {
                    current?.append(line)
                }
            }
            return blocks
        }

        /// Commands of a shell, without their comments: lines of blocks, and what stands between back quotes in the text.
        var commands: [[String]] {
            let lines = self.blocks("sh").flatMap { $0.split(separator: "\n") }.map { $0[..<($0.firstIndex(of: "#") ?? $0.endIndex)] }
            let pieces = self.text.split(separator: "`", omittingEmptySubsequences: false)
            let quoted = pieces.enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
            return (lines + quoted).map { $0.split(separator: " ").map(String.init) }
        }
    }

    private static let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../..").standardized

    private static func pages() throws -> [Page] {
        let articles = try FileManager.default.subpathsOfDirectory(atPath: self.root.appendingPathComponent("Sources").path)
            .filter { $0.hasSuffix(".md") }.map { "Sources/\($0)" }
        return try (["README.md", "CONTRIBUTING.md"] + articles.sorted()).map {
            Page(path: $0, text: try String(contentsOf: self.root.appendingPathComponent($0), encoding: .utf8))
        }
    }

    private static func page(_ path: String) throws -> Page { try #require(try self.pages().first { $0.path == path }) }

    /// With words for what is another one each time.
    private static func normalised(_ output: String) -> String {
        output.replacing(/127\.0\.0\.1:\d+/, with: "127.0.0.1:PORT").replacing(/socket \d+\.\d+/, with: "socket ID")
    }

    @Test(.enabled(if: Tool.path != nil, "the tool is not beside the tests"))
    func `the demo shows what the readme shows`() async throws {
        let shown = try #require(try Self.page("README.md").blocks("").first { $0.contains("A server listens") })
        let real = try await Tool.show(["demo"])
        #expect(real.status == 0)
        #expect(Self.normalised(real.output) == Self.normalised(shown + "\n"))
    }

    @Test func `every command of the tool that is shown is one`() throws {
        let table = CommandTable(summary: Realtime.summary, groups: Realtime.groups, commands: Realtime.commands.map { $0.spec })
        var count = 0
        for page in try Self.pages() {
            for command in page.commands {
                // `swift run -c release realtime bench`
                guard command.first == "realtime" || command.starts(with: ["swift", "run"]), let tool = command.firstIndex(of: "realtime")
                else { continue }
                count += 1
                let words = Array(command[(tool + 1)...])
                #expect(throws: Never.self, "\(page.path): \(command.joined(separator: " "))") { try table.parse(words) }
            }
        }
        #expect(count >= 4)
    }

    @Test func `every option that the benchmarks name is one`() throws {
        let options = BenchCommand.spec.options.map { "--\($0.name)" }
        let named = try Self.page("Sources/Pusher/PusherChannels/Documentation.docc/Benchmarks.md").commands.flatMap { $0 }.filter {
            $0.hasPrefix("--")
        }
        #expect(named.count >= 3)
        for option in named { #expect(options.contains(option)) }
    }

    @Test func `the scripts that are shown are there`() throws {
        var count = 0
        for page in try Self.pages() {
            for command in page.commands {
                guard let first = command.first, first.hasPrefix("dev/") || first.hasPrefix("Examples/") else { continue }
                count += 1
                #expect(FileManager.default.fileExists(atPath: Self.root.appendingPathComponent(first).path), "\(page.path): \(first)")
            }
        }
        #expect(count >= 8)
    }

    @Test func `the steps of the check are those of the table`() throws {
        let script = try String(contentsOf: Self.root.appendingPathComponent("dev/check"), encoding: .utf8)
        let steps = try #require(script.firstMatch(of: /steps=\((?<names>[^)]*)\)/)).names.split(separator: " ").map(String.init)
        let rows = try Self.page("CONTRIBUTING.md").text.split(separator: "\n").drop { !$0.hasPrefix("| step ") }.prefix {
            $0.hasPrefix("|")
        }
        let named = rows.dropFirst(2).flatMap { row in
            row.split(separator: "|")[0].split(separator: "`").map(String.init).filter { $0.allSatisfy(\.isLetter) }
        }
        #expect(named == steps)
    }

    @Test func `examples and tests that are shown are there`() throws {
        for page in try Self.pages() {
            for command in page.commands {
                if command.starts(with: ["swift", "run", "--package-path", "Examples"]), let name = command.last {
                    let folder = Self.root.appendingPathComponent("Examples/Sources/\(name)").path
                    #expect(FileManager.default.fileExists(atPath: folder), "\(page.path): \(name)")
                }
                if command.starts(with: ["swift", "test", "--filter"]), let name = command.last {
                    let targets = try FileManager.default.subpathsOfDirectory(atPath: Self.root.appendingPathComponent("Tests").path)
                    #expect(targets.contains { $0.hasSuffix("/\(name)") }, "\(page.path): \(name)")
                }
            }
        }
    }
}

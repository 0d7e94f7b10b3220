import Foundation
import PusherWire
import RealtimeCore
import Testing

/// Checks the tables of the articles against the code.
@Suite struct ArticleTests {
    /// The rows of the tables in an article, as their cells.
    private static func rows(of article: String) throws -> [[String]] {
        let path = "Sources/Pusher/PusherChannels/Documentation.docc/\(article).md"
        return try Snippets.lines(ofFile: path).filter { $0.hasPrefix("| ") && !$0.hasPrefix("| |") }.map { line in
            line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    /// Returns the pieces of inline code in a cell.
    private static func code(in cell: String) -> [String] {
        cell.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
    }

    @Test func `each message in the article on troubleshooting is in the sources`() throws {
        let messages = try Self.rows(of: "Troubleshooting").compactMap { Self.code(in: $0[0]).first }
        #expect(messages.count > 25)
        let lines = try Snippets.sourceLines().map { $0.replacing(#"\""#, with: "\"") }
        for message in messages {
            let parts = message.split(separator: "…").filter { $0.contains(where: \.isLetter) }
            #expect(!parts.isEmpty, "\(message)")
            #expect(lines.contains { Self.contains($0, parts) }, "no line of the sources contains the message: \(message)")
        }
    }

    /// Whether a line contains texts in order.
    private static func contains(_ line: String, _ parts: [Substring]) -> Bool {
        var remaining = line[...]
        for part in parts {
            guard let range = remaining.range(of: part) else { return false }
            remaining = remaining[range.upperBound...]
        }
        return true
    }

    @Test func `each call in the article on pusher-js is compiled`() throws {
        let calls = try Self.rows(of: "MigratingFromPusherJS").filter { $0[0] != "pusher-js" }.flatMap { Self.code(in: $0[1]) }
        #expect(calls.count > 25)
        let compiled = try Snippets.lines(ofFile: "Tests/Documentation/SnippetTests/PusherJSIdioms.swift").joined(separator: "\n")
        for call in calls { #expect(compiled.contains(call), "add this call to PusherJSIdioms.swift: \(call)") }
    }

    @Test(arguments: ["PusherClient", "PusherChannel", "PusherConfiguration"])
    func `the topics of a type contain all of its public members`(_ type: String) throws {
        let folder = "Sources/Pusher/PusherChannels"
        let topics = try Snippets.lines(ofFile: "\(folder)/Documentation.docc/\(type).md").compactMap { line in
            line.wholeMatch(of: /- ``(?<name>\w+)(?<arguments>\(.*\))?``/).map { String($0.name) }
        }
        let members = try Snippets.lines(ofFile: "\(folder)/Client/\(type).swift").compactMap { line in
            line.firstMatch(of: /^    public (static |convenience )*((let|var|func) )?(?<name>\w+)/).map { String($0.name) }
        }
        #expect(members.count > 10)
        #expect(topics.sorted() == members.sorted())
    }

    @Test func `the figure of the layers contains all libraries`() throws {
        let figure = try Snippets.lines(ofFile: "Sources/Pusher/PusherChannels/Documentation.docc/Resources/layers.svg").joined()
        let libraries = try Snippets.lines(ofFile: "Package.swift").compactMap { line in
            line.firstMatch(of: /library\(\s*"(?<name>\w+)", in: "Sources/).map { String($0.name) }
        }
        #expect(libraries.count > 10)
        for library in libraries + ["PusherTesting", "realtime"] { #expect(figure.contains(">\(library)<"), "\(library)") }
    }

    @Test func `the table of close codes agrees with the client`() throws {
        var codes: Set<UInt16> = []
        for row in try Self.rows(of: "Reconnection") where row.count == 3 && row[0].hasPrefix("4") {
            let limits = row[0].split(separator: " to ").compactMap { UInt16($0) }
            for code in try #require(limits.first)...(try #require(limits.last)) {
                #expect(codes.insert(code).inserted, "\(code) is in two rows")
                #expect(row[2].hasPrefix(Self.action(PusherCloseCode.reaction(to: CloseCode(rawValue: code)))), "\(row[0])")
            }
        }
        // 4002 isn't assigned.
        #expect(codes == Set(4000...4999).subtracting([4002]))
    }

    private static func action(_ reaction: PusherCloseCode.Reaction) -> String {
        switch reaction {
        case .useTLS: "Reconnects immediately with TLS"
        case .fail: "Doesn't reconnect"
        case .reconnect(.immediately): "Reconnects immediately, at most three times in a row"
        case .reconnect(.afterBackoff(let minimum)):
            minimum == .seconds(1) ? "Reconnects after a delay of at least one second" : "Reconnects after a delay"
        case .reconnect: "an action without a text"
        }
    }
}

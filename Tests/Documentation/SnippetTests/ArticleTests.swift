import Foundation
import PusherWire
import RealtimeCore
@testable import SignalRClient
import Testing

/// Checks the tables of the articles against the code.
@Suite struct ArticleTests {
    /// The rows of the tables in an article, as their cells.
    private static func rows(of article: String, in target: String = "Pusher/PusherChannels") throws -> [[String]] {
        let path = "Sources/\(target)/Documentation.docc/\(article).md"
        return try Snippets.lines(ofFile: path).filter { $0.hasPrefix("| ") && !$0.hasPrefix("| |") }.map { line in
            line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
        }
    }

    /// Returns the pieces of inline code in a cell.
    private static func code(in cell: String) -> [String] {
        cell.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
    }

    @Test(arguments: [
        ("Troubleshooting", "Pusher/PusherChannels"), ("HubTroubleshooting", "SignalR/SignalRHubs"),
        ("PrimusTroubleshooting", "Primus/PrimusClient"),
    ])
    func `each message in the articles on troubleshooting is in the sources`(article: String, target: String) throws {
        let messages = try Self.rows(of: article, in: target).compactMap { Self.code(in: $0[0]).first }
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

    @Test func `each call in the article on PusherSwift is compiled`() throws {
        var (header, here, next): ([String], [String], [String]) = ([], [], [])
        for row in try Self.rows(of: "MigratingFromPusherSwift", in: "Pusher/PusherSwift") {
            guard !["PusherSwift", "code", "snippet", "page", "here"].contains(row[0]) else {
                header = row
                continue
            }
            for (column, cell) in zip(header, row) {
                // A link is an empty piece.
                let pieces = Self.code(in: cell).filter { !$0.isEmpty }
                switch column {
                case "here": here += pieces
                case "`PusherChannels`": next += pieces
                default: break
                }
            }
        }
        #expect(here.count > 50 && next.count > 35)
        for (pieces, name) in [(here, "PusherSwiftIdioms"), (next, "PusherSwiftNextSteps")] {
            let compiled = try Snippets.lines(ofFile: "Tests/Documentation/SnippetTests/\(name).swift").joined(separator: "\n")
            for piece in pieces { #expect(compiled.contains(piece), "add this to \(name).swift: \(piece)") }
        }
    }

    @Test func `the manifests of an app before and after its migration from PusherSwift differ in one line`() throws {
        let before = try Snippets.lines(ofFile: "Examples/PusherSwiftMigration/Package.before.swift")
        let after = try Snippets.lines(ofFile: "Examples/PusherSwiftMigration/Package.after.swift")
        try #require(before.count == after.count)
        let changes = zip(before, after).filter { $0 != $1 }
        #expect(changes.count == 1)
        let article = try Snippets.lines(ofFile: "Sources/Pusher/PusherSwift/Documentation.docc/MigratingFromPusherSwift.md")
        for (old, new) in changes {
            #expect(article.contains("-\(old.trimmingCharacters(in: .whitespaces))"))
            #expect(article.contains("+\(new.trimmingCharacters(in: .whitespaces))"))
        }
    }

    @Test(arguments: [
        (
            "PusherClient", "Pusher/PusherChannels",
            ["Pusher/PusherChannels/Client/PusherClient", "Pusher/PusherChannels/Client/PusherCallbacks"]
        ),
        (
            "PusherChannel", "Pusher/PusherChannels",
            [
                "Pusher/PusherChannels/Client/PusherChannel", "Pusher/PusherChannels/Client/PusherChannel+Literals",
                "Pusher/PusherChannels/Client/PusherCallbacks",
            ]
        ),
        ("PusherConfiguration", "Pusher/PusherChannels", ["Pusher/PusherChannels/Configuration/PusherConfiguration"]),
        ("HubClient", "SignalR/SignalRHubs", ["SignalR/SignalRHubs/Client/HubClient", "SignalR/SignalRHubs/Client/HubClient+Typed"]),
        ("HubConfiguration", "SignalR/SignalRHubs", ["SignalR/SignalRHubs/Values/HubConfiguration"]),
    ])
    func `the topics of a type contain all of its public members`(_ type: String, _ target: String, _ files: [String]) throws {
        let topics = try Snippets.lines(ofFile: "Sources/\(target)/Documentation.docc/\(type).md").compactMap { line in
            line.wholeMatch(of: /- ``(?<name>\w+)(?<arguments>\(.*\)(-\w+)?)?``/).map { String($0.name) }
        }
        let members = try files.flatMap { try Self.publicMembers(of: type, inFile: "Sources/\($0).swift") }
        #expect(members.count > 10)
        #expect(topics.sorted() == members.sorted())
    }

    /// The names of the public members that a file declares in a type and its extensions.
    private static func publicMembers(of type: String, inFile path: String) throws -> [String] {
        var isInType = false
        return try Snippets.lines(ofFile: path).compactMap { line in
            if line.firstMatch(of: /^\w/) != nil {
                isInType = line.firstMatch(of: /^(public |extension )/) != nil && line.contains(" \(type)")
            }
            let member = line.firstMatch(of: /^    public (static |convenience )*((let|var|func|typealias) )?(?<name>\w+)/)
            return isInType ? member.map { String($0.name) } : nil
        }
    }

    @Test func `the figure of the layers contains all libraries`() throws {
        let figure = try Snippets.lines(ofFile: "Sources/Core/RealtimeCore/Documentation.docc/Resources/layers.svg").joined()
        let libraries = try Snippets.lines(ofFile: "Package.swift").compactMap { line in
            line.firstMatch(of: /library\(\s*"(?<name>\w+)", in: "Sources/).map { String($0.name) }
        }
        #expect(libraries.count > 10)
        for library in libraries + ["PusherTesting", "realtime"] { #expect(figure.contains(">\(library)<"), "\(library)") }
    }

    /// The articles about a protocol, with the folders of its files and tests.
    private static let protocols = [
        ("SignalR", "SignalR/SignalRHubs", ["SignalR"]), ("Pusher", "Pusher/PusherChannels", ["Pusher", "Core"]),
        ("Primus", "Primus/PrimusClient", ["Primus"]),
    ]

    @Test(arguments: Self.protocols)
    func `each file and test in the article on the rules of a protocol exists`(name: String, target: String, folders: [String]) throws {
        let paths: [String] = try folders.flatMap { try Snippets.paths(below: "Sources/\($0)", ".swift") }
        let files = Set(paths.compactMap { $0.split(separator: "/").last.map(String.init) })
        let tests = try Self.tests(in: folders)
        let rules = try Self.rows(of: "\(name)ProtocolRules", in: target).filter { $0[0] != "rule" }
        #expect(rules.count > 50)
        for rule in rules {
            let (named, proofs) = (Self.code(in: rule[2]), Self.code(in: rule[3]))
            #expect(!named.isEmpty && !proofs.isEmpty, "\(rule[0])")
            for file in named { #expect(files.contains(file), "\(rule[0]): there is no file \(file)") }
            for test in proofs where !tests.contains(test) { Issue.record("\(rule[0]): there is no test `\(test)`") }
        }
    }

    @Test(arguments: Self.protocols)
    func `each available feature of a protocol has a test that exists`(name: String, target: String, folders: [String]) throws {
        let tests = try Self.tests(in: folders + ["Documentation"])
        let features = try Self.rows(of: "\(name)Features", in: target).filter { $0[0] != "feature" }
        #expect(features.count > 20)
        for feature in features {
            let proofs = Self.code(in: feature[2])
            #expect(proofs.isEmpty == feature[1].hasPrefix("Not yet"), "\(feature[0])")
            for test in proofs where !tests.contains(test) { Issue.record("\(feature[0]): there is no test `\(test)`") }
        }
    }

    /// So the type check of the code for Apple platforms counts for each of them.
    @Test func `the package declares all platforms of Apple, and its sources are the same for each`() throws {
        let manifest = try Snippets.lines(ofFile: "Package.swift").joined()
        for platform in [".iOS(", ".macOS(", ".tvOS(", ".watchOS(", ".visionOS("] { #expect(manifest.contains(platform)) }
        let conditions = try Snippets.paths(below: "Sources", ".swift").flatMap { try Snippets.lines(ofFile: $0) }
            .filter { $0.contains("#if") || $0.contains("#elseif") }
        #expect(conditions.count > 20)
        for condition in conditions { #expect(!condition.contains(/os\((?!Linux\))|targetEnvironment\(/), "\(condition)") }
    }

    /// The names of the tests in folders.
    private static func tests(in folders: [String]) throws -> Set<String> {
        let paths = try folders.flatMap { try Snippets.paths(below: "Tests/\($0)", ".swift") }
        let lines = try paths.flatMap { try Snippets.lines(ofFile: $0) }
        return Set(lines.compactMap { line in line.firstMatch(of: /func `(?<name>[^`]+)`\(/).map { String($0.name) } })
    }

    @Test func `each piece of Swift code in the article on Primus-Objc is compiled`() throws {
        let rows = try Self.rows(of: "MigratingFromPrimusObjc", in: "Primus/PrimusSwift")
        let tables = rows.split { $0[0] == "Primus-Objc" || $0[0] == "`Primus`" }
        try #require(tables.count == 3)
        let code = tables.joined().flatMap { Self.code(in: $0[1]) }
        #expect(code.count > 50)
        let compiled = try Snippets.lines(ofFile: "Tests/Documentation/SnippetTests/PrimusObjcIdioms.swift").joined(separator: "\n")
        for piece in code { #expect(compiled.contains(piece), "add this to PrimusObjcIdioms.swift: \(piece)") }
    }

    @Test func `each line of Objective-C in the article on Primus-Objc is compiled`() throws {
        let rows = try Self.rows(of: "MigratingFromPrimusObjc", in: "Primus/PrimusSwift")
        let tables = rows.split { $0[0] == "Primus-Objc" || $0[0] == "`Primus`" }
        try #require(tables.count == 3)
        func normalized(_ code: some StringProtocol) -> String { String(code.filter { !$0.isWhitespace }) }
        let source = normalized(try Snippets.lines(ofFile: "dev/objc-sources/Primus.m").joined())
        let code = tables.prefix(2).joined().flatMap { Self.code(in: $0[0]) }
        #expect(code.count > 35)
        // The module has another name, and a list of arguments that ends with nil can't be declared in Swift.
        let replaced = ["#import <Primus/Primus.h>", #"[primus emit:@"event", argument];"#]
        for piece in code where !replaced.contains(piece) {
            // In the place of an ellipsis, there may be anything.
            for part in piece.split(separator: "…") where !part.allSatisfy({ "}]; ".contains($0) }) {
                #expect(source.contains(normalized(part)), "add this to dev/objc-sources/Primus.m: \(piece)")
            }
        }
    }

    @Test func `each setting in the article on the client of Primus for JavaScript is compiled`() throws {
        let rows = try Self.rows(of: "PrimusJSOptions", in: "Primus/PrimusClient").filter { !$0[0].hasPrefix("client for JavaScript") }
        let code = rows.flatMap { Self.code(in: $0[1]) }.filter { $0.contains("configuration.") || $0.contains("(") }
        #expect(code.count > 20)
        let compiled = try Snippets.lines(ofFile: "Tests/Documentation/SnippetTests/PrimusJSIdioms.swift").joined(separator: "\n")
        for piece in code { #expect(compiled.contains(piece), "add this to PrimusJSIdioms.swift: \(piece)") }
    }

    @Test func `each piece of Swift code in the article on signalr-client-swift is compiled`() throws {
        let rows = try Self.rows(of: "MigratingFromSignalRClientSwift", in: "SignalR/SignalRClient")
        let tables = rows.split { $0[0] == "code" || $0[0].hasPrefix("`Hub") }
        try #require(tables.count == 5)
        // Tables of code in the first column, the table of errors, and tables of code in the second column.
        let code = (tables[0] + tables[1]).flatMap { Self.code(in: $0[0]) } + (tables[3] + tables[4]).flatMap { Self.code(in: $0[1]) }
        #expect(code.count > 40)
        let compiled = try Snippets.lines(ofFile: "Tests/Documentation/SnippetTests/SignalRClientSwiftIdioms.swift").joined(separator: "\n")
        for piece in code { #expect(compiled.contains(piece), "add this to SignalRClientSwiftIdioms.swift: \(piece)") }
    }

    @Test func `the table of errors in the article on signalr-client-swift agrees with the client`() throws {
        let rows = try Self.rows(of: "MigratingFromSignalRClientSwift", in: "SignalR/SignalRClient")
        let start = try #require(rows.firstIndex { $0[0] == "`HubError.Code`" })
        var count = 0
        for row in rows[(start + 1)...].prefix(while: { !$0[0].hasPrefix("`Hub") }) {
            let expected = Self.code(in: row[1])
            for name in Self.code(in: row[0]) {
                let code = try #require(Self.codes.first { $0.description == name })
                #expect(Self.convertedName(code, isStart: false) == expected.first, "\(name)")
                #expect(Self.convertedName(code, isStart: true) == expected.last, "\(name)")
                count += 1
            }
        }
        #expect(count == Self.codes.count)
    }

    private static let codes: [HubError.Code] = [
        .notConnected, .alreadyStarted, .stopped, .connectionLost, .closedByServer, .serverTimeout, .negotiationFailed, .unauthorized,
        .tokenFailed, .handshakeFailed, .timedOut, .cancelled, .invocationFailed, .invalidMessage, .encodingFailed, .decodingFailed,
        .handlerFailed, .bufferOverflow, .invalidConfiguration, .authenticationRefreshFailed,
    ]

    /// The name of the error that a `HubConnection` throws for an error of its client.
    private static func convertedName(_ code: HubError.Code, isStart: Bool) -> String {
        let error = SignalRError.converted(HubError(code, "message"), serverTimeout: .seconds(30), isStart: isStart)
        switch error {
        // The only case here without an associated value.
        case SignalRError.connectionAborted: return "connectionAborted"
        case is SignalRError: return Mirror(reflecting: error).children.first?.label ?? ""
        default: return "\(type(of: error))"
        }
    }

    @Test(arguments: [
        ("SignalR/SignalRHubs", ["SignalR/SignalRHubs", "SignalR/SignalRWire"]),
        ("SignalR/SignalRClient", ["SignalR/SignalRClient"]),
        ("Pusher/PusherChannels", ["Pusher/PusherChannels", "Pusher/PusherWire"]),
        ("Primus/PrimusClient", ["Primus/PrimusClient", "Primus/PrimusWire"]),
        ("Primus/PrimusServer", ["Primus/PrimusServer"]), ("Primus/PrimusSwift", ["Primus/PrimusSwift"]),
    ])
    func `the topics of a module contain all public types`(module: String, folders: [String]) throws {
        let name = module.split(separator: "/").last ?? ""
        let topics = try Snippets.lines(ofFile: "Sources/\(module)/Documentation.docc/\(name).md").compactMap { line in
            line.wholeMatch(of: /- ``(PrimusServer\/)?(?<name>\w+)``/).map { String($0.name) }
        }
        let paths = try folders.flatMap { try Snippets.paths(below: "Sources/\($0)", ".swift") }
        let types = try paths.flatMap { try Snippets.lines(ofFile: $0) }.compactMap { line in
            line.firstMatch(of: /^(public|open) (final |indirect )?(class|struct|enum|protocol|actor|typealias) (?<name>\w+)/).map {
                String($0.name)
            }
        }
        #expect(types.count > 12)
        // Only the server uses the first, and exports it. The second isn't a type.
        #expect(topics.filter { $0 != "PrimusErrorDomain" }.sorted() == types.filter { $0 != "PusherDataForm" }.sorted())
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

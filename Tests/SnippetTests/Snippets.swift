import Foundation

/// A piece of code and where it stands.
struct Snippet {
    /// Without common indentation.
    let text: String
    /// File and line.
    let place: String
}

enum Snippets {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// What stands between `// snippet:NAME` and `// end` in the files of this target.
    static func ofThisTarget() throws -> [Snippet] {
        try self.files(below: "Tests/SnippetTests", [".swift"]).flatMap { path, text in
            self.pieces(of: text, place: path) { $0.hasPrefix("// snippet:") } until: { $0 == "// end" }
        }
    }

    /// The Swift blocks of the README, of the articles and of the comments on declarations.
    static func ofTheDocumentation() throws -> [Snippet] {
        let readme = try String(contentsOf: self.root.appendingPathComponent("README.md"), encoding: .utf8)
        return try self.blocks(in: readme, place: "README.md", isSwift: false)
            + self.files(below: "Sources", [".md", ".swift"]).flatMap { path, text in
                self.blocks(in: text, place: path, isSwift: path.hasSuffix(".swift"))
            }
    }

    /// - Parameter isSwift: the text is Swift code, with its blocks in comments.
    static func blocks(in text: String, place: String, isSwift: Bool) -> [Snippet] {
        let marker = isSwift ? "/// " : ""
        let fence = "```"
        return self.pieces(of: text, place: place) { $0 == marker + fence + "swift" } until: { $0 == marker + fence } line: { line in
            guard isSwift else { return line }
            return line.drop { $0 == " " }.dropFirst(3)
        }
    }

    private static func pieces(
        of text: String, place: String, from isStart: (Substring) -> Bool, until isEnd: (Substring) -> Bool,
        line content: (Substring) -> Substring = { $0 }
    ) -> [Snippet] {
        var pieces: [Snippet] = []
        var open: (line: Int, lines: [Substring])?
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let word = line.drop { $0 == " " }
            if let (start, lines) = open, isEnd(word) {
                pieces.append(Snippet(text: self.unindented(lines), place: "\(place):\(start)"))
                open = nil
            } else if open != nil {
                open?.lines.append(content(line))
            } else if isStart(word) {
                open = (index + 1, [])
            }
        }
        return pieces
    }

    private static func unindented(_ lines: [Substring]) -> String {
        let filled = lines.filter { !$0.allSatisfy { $0 == " " } }
        let indentation = filled.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return lines.map { $0.dropFirst(indentation) }.joined(separator: "\n")
    }

    private static func files(below folder: String, _ endings: [String]) throws -> [(path: String, text: String)] {
        let start = self.root.appendingPathComponent(folder)
        let paths = (FileManager.default.enumerator(atPath: start.path)?.allObjects ?? []).compactMap { $0 as? String }
        return try paths.sorted().filter { path in endings.contains { path.hasSuffix($0) } }.map { path in
            ("\(folder)/\(path)", try String(contentsOf: start.appendingPathComponent(path), encoding: .utf8))
        }
    }
}

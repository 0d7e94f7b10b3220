import Foundation

/// A piece of code and where it stands.
struct Snippet {
    /// Without common indentation.
    let text: String
    /// File and line.
    let place: String
}

enum Snippets {
    /// What stands between `// snippet:NAME` and `// end` in the files of this target.
    static func ofThisTarget() throws -> [Snippet] {
        try self.files(below: "Tests/Documentation/SnippetTests", [".swift"]).flatMap { path, text in
            self.pieces(of: self.lines(of: text), place: path, from: { $0.hasPrefix("// snippet:") }, until: { $0 == "// end" })
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
        let lines = self.lines(of: text).map { isSwift ? self.comment($0) : $0 }
        return self.pieces(of: lines, place: place, from: { $0 == "```swift" }, until: { $0 == "```" })
    }

    /// What is still open at the end of a file counts too: it fits nothing, and so is found.
    private static func pieces(
        of lines: [Substring], place: String, from isStart: (Substring) -> Bool, until isEnd: (Substring) -> Bool
    ) -> [Snippet] {
        var pieces: [Snippet] = []
        var start: Int?
        for (index, line) in lines.enumerated() {
            let word = line.drop { $0 == " " }
            if let first = start, isEnd(word) || index == lines.count - 1 {
                pieces.append(Snippet(text: self.unindented(lines[first..<index]), place: "\(place):\(first)"))
                start = nil
            } else if start == nil, isStart(word) {
                start = index + 1
            }
        }
        return pieces
    }

    private static func unindented(_ lines: ArraySlice<Substring>) -> String {
        let filled = lines.filter { !$0.allSatisfy { $0 == " " } }
        let indentation = filled.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return lines.map { $0.dropFirst(indentation) }.joined(separator: "\n")
    }

    private static func lines(of text: String) -> [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    /// What a comment on a declaration says; nothing for a line of code.
    private static func comment(_ line: Substring) -> Substring {
        let word = line.drop { $0 == " " }
        return word.hasPrefix("///") ? word.dropFirst(3) : ""
    }

    private static var root: URL {
        URL(fileURLWithPath: #filePath).appendingPathComponent("../../../..").standardized
    }

    private static func files(below folder: String, _ endings: [String]) throws -> [(path: String, text: String)] {
        let start = self.root.appendingPathComponent(folder)
        let paths = (FileManager.default.enumerator(atPath: start.path)?.allObjects ?? []).compactMap { $0 as? String }
        let wanted = paths.sorted().filter { path in endings.contains { path.hasSuffix($0) } }
        return try wanted.map { ("\(folder)/\($0)", try String(contentsOf: start.appendingPathComponent($0), encoding: .utf8)) }
    }
}

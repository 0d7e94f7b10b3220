import Foundation

/// A piece of code and its location.
struct Snippet {
    /// The code without common indentation.
    let text: String
    /// The file and the line.
    let location: String
}

enum Snippets {
    /// Returns the code between `// snippet:NAME` and `// end` in the files of this target.
    static func ofThisTarget() throws -> [Snippet] {
        try self.files(below: "Tests/Documentation/SnippetTests", [".swift"]).flatMap { path, text in
            self.pieces(of: self.lines(of: text), location: path, from: { $0.hasPrefix("// snippet:") }, until: { $0 == "// end" })
        }
    }

    /// Returns the Swift blocks of the README, of the first page of the documentation, of the articles and of documentation comments.
    static func ofTheDocumentation() throws -> [Snippet] {
        let pages = try ["README.md", "dev/first-page.md"].flatMap { path in
            let text = try String(contentsOf: self.root.appendingPathComponent(path), encoding: .utf8)
            return self.blocks(in: text, location: path, isSwift: false)
        }
        return try pages
            + self.files(below: "Sources", [".md", ".swift"]).flatMap { path, text in
                self.blocks(in: text, location: path, isSwift: path.hasSuffix(".swift"))
            }
    }

    /// Returns the lines of a file of the package.
    static func lines(ofFile path: String) throws -> [String] {
        self.lines(of: try String(contentsOf: self.root.appendingPathComponent(path), encoding: .utf8)).map(String.init)
    }

    /// Returns the lines of all Swift files in the sources.
    static func sourceLines() throws -> [String] {
        try self.files(below: "Sources", [".swift"]).flatMap { self.lines(of: $0.text).map(String.init) }
    }

    /// Returns the Swift blocks of a text.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - location: The file, for messages.
    ///   - isSwift: Whether the text is Swift code, with the blocks in documentation comments.
    static func blocks(in text: String, location: String, isSwift: Bool) -> [Snippet] {
        let lines = self.lines(of: text).map { isSwift ? self.comment($0) : $0 }
        return self.pieces(of: lines, location: location, from: { $0 == "```swift" }, until: { $0 == "```" })
    }

    /// A piece that is still open at the end of the text is included, so that the tests report it.
    private static func pieces(
        of lines: [Substring], location: String, from isStart: (Substring) -> Bool, until isEnd: (Substring) -> Bool
    ) -> [Snippet] {
        var pieces: [Snippet] = []
        var start: Int?
        for (index, line) in lines.enumerated() {
            let content = line.drop { $0 == " " }
            if let first = start, isEnd(content) || index == lines.count - 1 {
                pieces.append(Snippet(text: self.unindented(lines[first..<index]), location: "\(location):\(first)"))
                start = nil
            } else if start == nil, isStart(content) {
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

    /// Returns the text of a line of a documentation comment, or an empty string for a line of code.
    private static func comment(_ line: Substring) -> Substring {
        let content = line.drop { $0 == " " }
        return content.hasPrefix("///") ? content.dropFirst(3) : ""
    }

    private static var root: URL {
        URL(fileURLWithPath: #filePath).appendingPathComponent("../../../..").standardized
    }

    /// Returns the paths of the files in a folder and its folders whose names have an ending, sorted.
    static func paths(below folder: String, _ ending: String) throws -> [String] { try self.paths(below: folder, [ending]) }

    private static func paths(below folder: String, _ endings: [String]) throws -> [String] {
        let start = self.root.appendingPathComponent(folder)
        let paths = (FileManager.default.enumerator(atPath: start.path)?.allObjects ?? []).compactMap { $0 as? String }
        return paths.sorted().filter { path in endings.contains { path.hasSuffix($0) } }.map { "\(folder)/\($0)" }
    }

    private static func files(below folder: String, _ endings: [String]) throws -> [(path: String, text: String)] {
        try self.paths(below: folder, endings).map { path in
            (path, try String(contentsOf: self.root.appendingPathComponent(path), encoding: .utf8))
        }
    }
}

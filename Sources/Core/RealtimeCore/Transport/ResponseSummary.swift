import RealtimeSystem

extension HTTPResponse {
    /// The maximum number of characters of the body in a summary.
    private static let summaryLimit = 200

    /// The status, and what the body says in one line, for error messages: `404 Not Found: no such app.`
    ///
    /// For a web page, includes only the title: it usually comes from an unintended server.
    package var summary: String {
        let text = self.start
        guard !self.isWebPage(text), !text.isEmpty else { return self.statusSummary }
        let excerpt = Self.cut(text)
        return "\(self.status): \(excerpt)\(excerpt.last.map { ".!?…".contains($0) } == true ? "" : ".")"
    }

    /// The summary without the body, of which only the title of a web page is included: `404 Not Found.`
    package var statusSummary: String {
        let text = self.start
        guard self.isWebPage(text) else { return "\(self.status)." }
        let title = Self.title(of: text).map { " titled \"\(Self.cut($0))\"" } ?? ""
        return "\(self.status) and a web page\(title). Check the host, the port and the path."
    }

    private var status: String {
        self.head.reason.isEmpty ? "\(self.head.status)" : "\(self.head.status) \(Excerpt.of(self.head.reason, limit: Self.summaryLimit))"
    }

    /// A few characters more than a summary has, in one language or another.
    private var start: String { Self.line(self.body.prefix(16 * Self.summaryLimit)) }

    private func isWebPage(_ text: String) -> Bool {
        self.head.headers["content-type"]?.lowercased().containsText("html") == true || text.first == "<"
    }

    /// Returns the text in one line, or an empty string if it isn't text.
    private static func line(_ bytes: some Collection<UInt8>) -> String {
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || (0x09...0x0D).contains($0) }) else { return "" }
        var text = String(decoding: bytes, as: UTF8.self)
        // The last character may be incomplete, because only the beginning of the body is decoded.
        while text.last == "\u{FFFD}" { text.removeLast() }
        guard !text.contains("\u{FFFD}") else { return "" }
        return text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    private static func cut(_ text: String) -> String {
        text.count > Self.summaryLimit ? text.prefix(Self.summaryLimit) + "…" : text
    }

    private static func title(of page: String) -> String? {
        let lowercased = page.lowercased()
        // Lowercasing can change the number of characters, in which case the positions don't match.
        guard lowercased.count == page.count else { return nil }
        let (text, pattern) = (Array(page), Array(lowercased))
        func position(of tag: String, from start: Int) -> Int? {
            let tag = Array(tag)
            guard pattern.count >= start + tag.count else { return nil }
            return (start...pattern.count - tag.count).first { pattern[$0..<$0 + tag.count].elementsEqual(tag) }
        }
        guard let tag = position(of: "<title", from: 0), let start = position(of: ">", from: tag),
            let end = position(of: "</title", from: start)
        else { return nil }
        let title = String(text[start + 1..<end]).split(separator: " ").joined(separator: " ")
        return title.isEmpty ? nil : title
    }
}

/// Resolution of a URL reference against a base URL (RFC 3986 section 5.2).
enum RelativeURL {
    private struct Parts {
        var scheme: Substring?
        var authority: Substring?
        var path: Substring
        var query: Substring?
        var fragment: Substring?

        init(_ text: String) {
            var rest = text[...]
            if let mark = rest.firstIndex(of: "#") {
                self.fragment = rest[rest.index(after: mark)...]
                rest = rest[..<mark]
            }
            if let mark = rest.firstIndex(of: "?") {
                self.query = rest[rest.index(after: mark)...]
                rest = rest[..<mark]
            }
            if let mark = rest.firstIndex(where: { $0 == ":" || $0 == "/" }), rest[mark] == ":", mark != rest.startIndex {
                self.scheme = rest[..<mark]
                rest = rest[rest.index(after: mark)...]
            }
            if rest.hasPrefix("//") {
                rest = rest.dropFirst(2)
                let end = rest.firstIndex(of: "/") ?? rest.endIndex
                self.authority = rest[..<end]
                rest = rest[end...]
            }
            self.path = rest
        }
    }

    static func resolve(_ reference: String, against base: String) -> String {
        let relative = Parts(reference)
        let base = Parts(base)
        if relative.scheme != nil { return reference }
        var path: String
        var query = relative.query
        let authority = relative.authority ?? base.authority
        if relative.authority != nil {
            path = self.removingDotSegments(relative.path)
        } else if relative.path.isEmpty {
            path = String(base.path)
            query = query ?? base.query
        } else if relative.path.hasPrefix("/") {
            path = self.removingDotSegments(relative.path)
        } else {
            let folder = base.path.lastIndex(of: "/").map { base.path[...$0] } ?? (base.authority != nil && base.path.isEmpty ? "/" : "")
            path = self.removingDotSegments(folder + relative.path)
        }
        var result = ""
        if let scheme = base.scheme { result += scheme + ":" }
        if let authority { result += "//" + authority }
        result += path
        if let query { result += "?" + query }
        if let fragment = relative.fragment { result += "#" + fragment }
        return result
    }

    /// Resolves `.` and `..` (RFC 3986 section 5.2.4).
    private static func removingDotSegments(_ path: Substring) -> String {
        var kept: [Substring] = []
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { kept.append("") }
            case "..":
                if kept.count > 1 || (kept.count == 1 && !kept[0].isEmpty) { kept.removeLast() }
                if isLast { kept.append("") }
            default: kept.append(segment)
            }
        }
        return kept.joined(separator: "/")
    }
}

/// Suggestions for names that were probably misspelled.
enum Suggestion {
    /// Returns the candidate that was probably meant, or `nil` if none is similar.
    ///
    /// That is the candidate with the smallest edit distance, or the only one that starts with the name.
    static func nearest(to name: String, in candidates: [String]) -> String? {
        let limit = max(1, min(3, name.count / 3))
        let near = candidates.map { (name: $0, distance: Self.distance(name, $0)) }.filter { $0.distance <= limit }
        if let best = near.min(by: { ($0.distance, $0.name) < ($1.distance, $1.name) }) { return best.name }
        let longer = candidates.filter { name.count >= 2 && $0.hasPrefix(name) }
        return longer.count == 1 ? longer[0] : nil
    }

    /// Returns the edit distance: insertions, deletions, substitutions and transpositions of adjacent characters.
    static func distance(_ lhs: String, _ rhs: String) -> Int {
        let (a, b) = (Array(lhs.unicodeScalars), Array(rhs.unicodeScalars))
        if a.isEmpty || b.isEmpty { return max(a.count, b.count) }
        var beforeLast: [Int] = []
        var last = Array(0...b.count)
        for i in 1...a.count {
            var row = [i]
            for j in 1...b.count {
                var best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { best = min(best, beforeLast[j - 2] + 1) }
                row.append(best)
            }
            (beforeLast, last) = (last, row)
        }
        return last[b.count]
    }
}

/// What an option's value has to be.
package enum ValueKind: Sendable, Equatable {
    case text
    case integer(ClosedRange<Int>)
    /// Seconds, or a number with `ms`, `s`, `m` or `h`.
    case duration(ClosedRange<Duration>)

    /// What a value has to look like, for an error: "a whole number from 0 to 65535".
    package var expectation: String {
        switch self {
        case .text: "something that is not empty"
        case .integer(let range) where range.upperBound == .max: "a whole number from \(range.lowerBound) on"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .duration(let range):
            "a time from \(Self.words(range.lowerBound)) to \(Self.words(range.upperBound)), such as 5, 0.5, 500ms or 2m"
        }
    }

    /// `nil` when the text is not of this kind.
    package func parse(_ text: String) -> Value? {
        switch self {
        case .text: text.isEmpty ? nil : .text(text)
        case .integer(let range): Self.integer(text).flatMap { range.contains($0) ? .integer($0) : nil }
        case .duration(let range): Self.duration(text).flatMap { range.contains($0) ? .duration($0) : nil }
        }
    }

    package enum Value: Sendable, Equatable {
        case text(String)
        case integer(Int)
        case duration(Duration)
    }

    private static func integer(_ text: String) -> Int? {
        // Int("+5") would do, and nobody means it.
        text.first == "+" ? nil : Int(text)
    }

    private static func duration(_ text: String) -> Duration? {
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard let whole = parts.first, parts.count <= 2, let seconds = Int64(whole) else { return nil }
        let fraction = parts.count == 2 ? parts[1] : "0"
        guard (1...9).contains(fraction.utf8.count),
            let nanoseconds = Int64(fraction + String(repeating: "0", count: 9 - fraction.utf8.count))
        else {
            return nil
        }
        // Above this no unit can overflow a duration's nanoseconds.
        guard seconds <= 1_000_000 else { return nil }
        let asSeconds = Duration.seconds(seconds) + .nanoseconds(nanoseconds)
        switch text.dropFirst(number.count) {
        case "", "s": return asSeconds
        case "ms": return asSeconds / 1000
        case "m": return asSeconds * 60
        case "h": return asSeconds * 3600
        default: return nil
        }
    }

    private static func words(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        if attoseconds != 0 { return "\(seconds * 1000 + attoseconds / 1_000_000_000_000_000) ms" }
        return seconds == 1 ? "1 second" : "\(seconds) seconds"
    }
}

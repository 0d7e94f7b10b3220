/// The type of an option's value.
package enum ValueKind: Sendable, Equatable {
    /// Text that is not empty.
    case text
    /// An integer in a range.
    case integer(ClosedRange<Int>)
    /// A duration in a range: seconds, or a number with the unit `ms`, `s`, `m` or `h`.
    case duration(ClosedRange<Duration>)

    enum Value: Sendable, Equatable {
        case text(String)
        case integer(Int)
        case duration(Duration)
    }

    /// The requirement a value must meet, to follow "Invalid value '…' for '…': ".
    var requirement: String {
        switch self {
        case .text: "must not be empty"
        case .integer(let range) where range.upperBound == .max: "must be an integer of at least \(range.lowerBound)"
        case .integer(let range): "must be an integer from \(range.lowerBound) to \(range.upperBound)"
        case .duration(let range):
            "must be a duration from \(Self.format(range.lowerBound)) to \(Self.format(range.upperBound)), such as 5, 0.5, 500ms or 2m"
        }
    }

    /// Returns the value of a text, or `nil` if it does not meet the requirement.
    func parse(_ text: String) -> Value? {
        switch self {
        case .text: text.isEmpty ? nil : .text(text)
        case .integer(let range): Self.integer(text).flatMap { range.contains($0) ? .integer($0) : nil }
        case .duration(let range): Self.duration(text).flatMap { range.contains($0) ? .duration($0) : nil }
        }
    }

    private static func integer(_ text: String) -> Int? {
        // `Int` accepts a leading "+"; options do not.
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
        // Up to this number, no unit overflows a duration's nanoseconds.
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

    private static func format(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        if attoseconds != 0 { return "\(seconds * 1000 + attoseconds / 1_000_000_000_000_000) ms" }
        return seconds == 1 ? "1 second" : "\(seconds) seconds"
    }
}

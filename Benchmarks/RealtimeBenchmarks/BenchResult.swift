internal import CommandLineSupport
/// One line of a benchmark.
struct BenchResult: Sendable {
    var name: String
    var value: Double
    var unit: String
    /// What it is compared with, and how many times that it is.
    var ratio: Double?
    var against: String?
    /// The goal in words, and whether it was met.
    var goal: String?
    var isMet: Bool?

    init(_ name: String, _ value: Double, _ unit: String) {
        self.name = name
        self.value = value
        self.unit = unit
    }

    /// With a ratio, and the most that it should be.
    func compared(_ ratio: Double?, with other: String, atMost most: Double? = nil) -> BenchResult {
        guard let ratio else { return self }
        var result = self
        (result.ratio, result.against) = (ratio, other)
        if let most {
            result.goal = "at most \(Self.words(most)) of \(other)"
            result.isMet = ratio <= most
        }
        return result
    }

    /// With the most that the value should be.
    func atMost(_ most: Double) -> BenchResult {
        var result = self
        result.goal = "at most \(Self.words(most)) \(self.unit)"
        result.isMet = self.value <= most
        return result
    }

    var line: Line {
        var words: [Line.Span] = [
            .init(Self.padded(self.name, 44), .name), .init(Self.left(Self.words(self.value), 9)), .init(" " + Self.padded(self.unit, 12)),
        ]
        if let ratio, let against { words.append(.init(Self.padded("\(Self.words(ratio)) x \(against)", 30), .faint)) }
        if let goal, let isMet { words.append(.init("\(isMet ? "met" : "missed"): \(goal)", isMet ? .good : .bad)) }
        return Line(
            words,
            [
                "type": "bench", "name": .string(self.name), "value": .number(Self.rounded(self.value)), "unit": .string(self.unit),
                "goal": self.goal.map(Line.Value.string), "against": self.against.map(Line.Value.string),
                "ratio": self.ratio.map { .number(Self.rounded($0)) }, "met": self.isMet.map(Line.Value.bool),
            ])
    }

    private static func rounded(_ value: Double) -> Double {
        abs(value) >= 100 ? value.rounded() : (value * 1000).rounded() / 1000
    }

    /// With three figures or so.
    static func words(_ value: Double) -> String {
        if value.rounded() == value || abs(value) >= 100 { return "\(Int(value.rounded()))" }
        return "\((value * 100).rounded() / 100)"
    }

    private static func padded(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(1, width - text.count)) }

    private static func left(_ text: String, _ width: Int) -> String { String(repeating: " ", count: max(0, width - text.count)) + text }
}

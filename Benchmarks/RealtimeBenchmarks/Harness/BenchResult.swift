import CommandLineSupport

/// One figure of a benchmark, with its comparison and its goal.
struct BenchResult: Sendable {
    private let name: String
    private let value: Double
    private let unit: String
    private var ratio: Double?
    /// The name of the figure that `ratio` refers to.
    private var baseline: String?
    private var goal: String?
    private var isMet: Bool?

    init(_ name: String, _ value: Double, _ unit: String) {
        self.name = name
        self.value = value
        self.unit = unit
    }

    /// Returns the result with a ratio.
    ///
    /// - Parameters:
    ///   - ratio: The multiple of the baseline. If it is `nil`, the result is returned unchanged.
    ///   - baseline: The name of the baseline.
    ///   - maximum: The goal: the largest acceptable ratio.
    func compared(_ ratio: Double?, with baseline: String, atMost maximum: Double? = nil) -> BenchResult {
        guard let ratio else { return self }
        var result = self
        (result.ratio, result.baseline) = (ratio, baseline)
        if let maximum {
            result.goal = "at most \(Self.format(maximum)) of \(baseline)"
            result.isMet = ratio <= maximum
        }
        return result
    }

    /// Returns the result with a goal: the largest acceptable value.
    func atMost(_ maximum: Double) -> BenchResult {
        var result = self
        result.goal = "at most \(Self.format(maximum)) \(self.unit)"
        result.isMet = self.value <= maximum
        return result
    }

    var line: Line {
        var spans: [Line.Span] = [
            .init(Self.leftAligned(self.name, 44), .name), .init(Self.rightAligned(Self.format(self.value), 9)),
            .init(" " + Self.leftAligned(self.unit, 12)),
        ]
        if let ratio, let baseline { spans.append(.init(Self.leftAligned("\(Self.format(ratio)) x \(baseline)", 30), .faint)) }
        if let goal, let isMet { spans.append(.init("\(isMet ? "met" : "missed"): \(goal)", isMet ? .success : .error)) }
        return Line(
            spans,
            [
                "type": "bench", "name": .string(self.name), "value": .number(Self.rounded(self.value)), "unit": .string(self.unit),
                "goal": self.goal.map(Line.Value.string), "against": self.baseline.map(Line.Value.string),
                "ratio": self.ratio.map { .number(Self.rounded($0)) }, "met": self.isMet.map(Line.Value.bool),
            ])
    }

    private static func rounded(_ value: Double) -> Double {
        abs(value) >= 100 ? value.rounded() : (value * 1000).rounded() / 1000
    }

    /// Returns a value with about three significant digits.
    private static func format(_ value: Double) -> String {
        if value.rounded() == value || abs(value) >= 100 { return "\(Int(value.rounded()))" }
        return "\((value * 100).rounded() / 100)"
    }

    private static func leftAligned(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }

    private static func rightAligned(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}

import CommandLineSupport

/// One of several implementations that are compared.
struct Candidate {
    var name: String
    /// Runs it once, and returns the processor time per message in nanoseconds, of this process or of the peer's.
    var run: () async throws(ToolFailure) -> Double
}

/// The time that has passed per message in each run of some candidates, in nanoseconds, beside the processor time that they return. Used by one
/// task at a time.
final class WallTimes {
    private var values: [String: [Double]] = [:]

    func add(_ value: Double, _ name: String) { self.values[name, default: []].append(value) }

    /// Returns the rounds of all candidates.
    var rounds: Rounds { Rounds(values: self.values.mapValues { Array($0.dropFirst()) }) }
}

/// The results of interleaved runs. They are compared round by round, because a disturbance affects one round.
struct Rounds {
    private(set) var values: [String: [Double]] = [:]

    /// Runs each candidate once to warm up, and then once per round in random order.
    static func run(_ candidates: [Candidate], rounds: Int) async throws(ToolFailure) -> Rounds {
        var result = Rounds()
        for candidate in candidates { _ = try await candidate.run() }
        for _ in 0..<rounds {
            for candidate in candidates.shuffled() {
                let value = try await candidate.run()
                result.values[candidate.name, default: []].append(value)
            }
        }
        return result
    }

    func median(_ name: String) -> Double? { self.values[name].map(Self.median) }

    /// Returns the median of the ratios of two candidates in each round.
    func ratio(_ name: String, to other: String) -> Double? {
        guard let values = self.values[name], let others = self.values[other], values.count == others.count else { return nil }
        return Self.median(zip(values, others).map { $0 / $1 })
    }

    static func median(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}

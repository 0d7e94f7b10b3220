internal import CommandLineSupport
/// One of several ways that are compared.
struct Candidate {
    var name: String
    /// One run: what it took for one message, in nanoseconds of this or the peer's process.
    var run: () async throws(ToolFailure) -> Double
}

/// What interleaved runs gave: round by round, since what disturbs a machine disturbs a round.
struct Rounds {
    private(set) var values: [String: [Double]] = [:]

    /// Each runs once before it counts, and then once in each round, in an order that changes.
    static func run(_ contenders: [Candidate], rounds: Int) async throws(ToolFailure) -> Rounds {
        var result = Rounds()
        for contender in contenders { _ = try await contender.run() }
        for _ in 0..<rounds {
            for contender in contenders.shuffled() {
                let value = try await contender.run()
                result.values[contender.name, default: []].append(value)
            }
        }
        return result
    }

    func has(_ name: String) -> Bool { self.values[name] != nil }

    func median(_ name: String) -> Double? { self.values[name].map(Self.median) }

    /// The median of what the one was to the other in each round.
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

import Foundation
import RealtimeSystem
import TestSupport

/// The seeds that a simulation runs; see ``simulate(runs:_:)``.
struct SimulationSeeds: Sequence, IteratorProtocol {
    private var first: [UInt64]
    private(set) var following: UInt64
    private var remaining: Int
    let end: ContinuousClock.Instant?

    init(runs: Int) {
        if let chosenSeed {
            (self.first, self.following, self.remaining, self.end) = ([chosenSeed], 0, 0, nil)
            return
        }
        self.first = Self.kept().reversed()
        self.following = Self.number("REALTIME_SIMULATION_BASE") ?? 0
        self.remaining = scaled(runs)
        self.end = Self.number("REALTIME_SIMULATION_SECONDS").map { .now + .seconds($0) }
    }

    mutating func next() -> UInt64? {
        if let seed = self.first.popLast() { return seed }
        guard self.remaining > 0 || self.end.map({ .now < $0 }) == true else { return nil }
        defer { (self.following, self.remaining) = (self.following + 1, self.remaining - 1) }
        return self.following
    }

    private static func number(_ name: String) -> UInt64? { ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) } }

    // MARK: Seeds that failed

    private static let file = ProcessInfo.processInfo.environment["REALTIME_SIMULATION_KEPT"].map { URL(fileURLWithPath: $0) }
    /// Simulations of several protocols change the file at the same time.
    private static let lock = Lock(())

    private static func kept() -> [UInt64] {
        guard let file, let text = self.lock.withLock({ _ in try? String(contentsOf: file, encoding: .utf8) }) else { return [] }
        return text.split(separator: "\n").compactMap { UInt64($0) }
    }

    /// Adds seeds that failed to the file, with which later runs start.
    static func keep(_ seeds: [UInt64]) throws {
        guard let file, chosenSeed == nil, !seeds.isEmpty else { return }
        try self.lock.withLock { _ in
            let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
            let known = Set(text.split(separator: "\n").compactMap { UInt64($0) })
            let new = seeds.filter { !known.contains($0) }.map { "\($0)\n" }.joined()
            try (text + new).write(to: file, atomically: true, encoding: .utf8)
        }
    }
}

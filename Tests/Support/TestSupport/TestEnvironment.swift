import RealtimeSystem

/// How many of something a test runs: fewer with `REALTIME_TEST_SCALE=10` (percent), as under the sanitizers.
package func scaled(_ count: Int) -> Int {
    max(1, count * (environment("REALTIME_TEST_SCALE").flatMap { Int($0) } ?? 100) / 100)
}

/// The seed that `REALTIME_TEST_SEED` names, to run that one alone.
package let chosenSeed = environment("REALTIME_TEST_SEED").flatMap { UInt64($0) }

/// So many, scaled; or only the chosen one.
package func seeds(_ count: Int) -> Range<UInt64> { chosenSeed.map { $0..<$0 + 1 } ?? 0..<UInt64(scaled(count)) }

/// Words for a failure that say how to see it again.
package func replay(_ seed: UInt64) -> String { "seen again with REALTIME_TEST_SEED=\(seed)" }

private func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

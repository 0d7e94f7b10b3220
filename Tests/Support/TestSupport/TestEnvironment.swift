import RealtimeSystem

/// Scales a number of repetitions by the percentage in `REALTIME_TEST_SCALE`, for example 10 when running with sanitizers. Without it, all are
/// made if `REALTIME_ALL_TESTS` is set, and a tenth otherwise.
package func scaled(_ count: Int) -> Int {
    let standard = environment("REALTIME_ALL_TESTS") == nil ? 10 : 100
    return max(1, count * (environment("REALTIME_TEST_SCALE").flatMap { Int($0) } ?? standard) / 100)
}

/// The only seed to run, from `REALTIME_TEST_SEED`.
package let chosenSeed = environment("REALTIME_TEST_SEED").flatMap { UInt64($0) }

/// The seeds to run: a scaled number of them, or only the chosen one.
package func seeds(_ count: Int) -> Range<UInt64> { chosenSeed.map { $0..<$0 + 1 } ?? 0..<UInt64(scaled(count)) }

/// A message for a failure that states how to reproduce it.
package func replay(_ seed: UInt64) -> String { "reproduce with REALTIME_TEST_SEED=\(seed)" }

func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

/// Test vectors: files that were recorded, generated or copied from a standard.
package enum Vectors {
    /// Returns the path of a file, for example `certificates/root.pem`.
    package static func path(_ name: String) -> String {
        let tests = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        return "\(tests)/Vectors/\(name)"
    }
}

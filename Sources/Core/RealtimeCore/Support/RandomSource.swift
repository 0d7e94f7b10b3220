/// The random numbers of a server.
package enum RandomSource: RandomNumberGenerator, Sendable {
    /// The system's random numbers, which clients can't predict.
    case system
    /// A reproducible sequence, for tests.
    case seeded(SplitMix64)

    /// - Parameter seed: The seed of a reproducible sequence; `nil` for the system's random numbers.
    package init(seed: UInt64?) {
        self = seed.map { .seeded(SplitMix64(seed: $0)) } ?? .system
    }

    package mutating func next() -> UInt64 {
        switch self {
        case .system:
            var system = SystemRandomNumberGenerator()
            return system.next()
        case .seeded(var generator):
            defer { self = .seeded(generator) }
            return generator.next()
        }
    }
}

import RealtimeCore

/// The random numbers of socket IDs.
enum SocketIDGenerator: RandomNumberGenerator, Sendable {
    /// The system's random numbers. Subscriptions are signed for a socket ID, so a client must not be able to predict those of others.
    case system
    /// A reproducible sequence, for tests.
    case seeded(SplitMix64)

    mutating func next() -> UInt64 {
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

import TestSupport
import Testing

/// Expects that a connection through a proxy can last for some time although nothing but the messages of the server keeps it alive.
///
/// While other tests use the processor, a message may be late, and a proxy ends the connection all the same. Then, the next one counts.
///
/// - Parameter open: Opens a connection, and returns closures that say whether it was never lost, and end it.
package func expectConnection(
    lasts duration: Duration, _ open: () async throws -> (isUninterrupted: () -> Bool, end: () -> Void)
) async throws {
    for _ in 0..<10 {
        // It may be late already while the connection opens.
        guard let connection = try? await open() else { continue }
        let clock = ContinuousClock()
        let end = clock.now.advanced(by: duration)
        try await eventually { clock.now >= end }
        let isUninterrupted = connection.isUninterrupted()
        connection.end()
        if isUninterrupted { return }
    }
    Issue.record("Connections end in spite of the server's messages.")
}

import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The texts of all clients while there is no connection.
@Suite struct OutageTests {
    @Test func `the first failed attempt of each outage is a warning`() {
        var (log, effects) = (OutageLog(), Effects<ToySession>(logLevel: .debug))
        for outage in 1...2 {
            for attempt in 1...3 { log.attemptFailed("Failure \(outage).\(attempt).", &effects) }
            log.reset()
        }
        let lines = effects.commands.map { if case .log(let level, let text) = $0 { "\(level) \(text)" } else { "" } }
        expectEqual(
            lines,
            [
                "warning Failure 1.1. The client keeps trying.", "info Failure 1.2.", "info Failure 1.3.",
                "warning Failure 2.1. The client keeps trying.", "info Failure 2.2.", "info Failure 2.3.",
            ])
    }

    @Test(arguments: [
        (
            WaitLimit.time(.seconds(2)), nil,
            "Timed out after 2.0 seconds without a connection to http://host; the client is still trying. Use a longer limit, or check the server."
        ),
        (
            .time(.seconds(2)), "It was refused",
            "Timed out after 2.0 seconds without a connection to http://host; the client is still retrying. It was refused."
        ),
        (
            .standstill(.seconds(2)), nil,
            "Waited 2.0 seconds of real time while the test clock did not advance without a connection to http://host; the client is still trying. "
                + "Advance the clock if something is to happen later."
        ),
        (
            .standstill(.seconds(2)), "It was refused.",
            "Waited 2.0 seconds of real time while the test clock did not advance without a connection to http://host; the client is still "
                + "retrying. It was refused. Advance the clock if something is to happen later."
        ),
    ])
    func `a wait without a connection names the failure, and advises more time only if there is none`(
        limit: WaitLimit, failure: String?, expected: String
    ) {
        expectEqual(limit.withoutConnection(to: "http://host", after: failure), expected)
    }
}

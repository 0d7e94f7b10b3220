import RealtimeTesting

/// Waits as the function of `RealtimeTesting` does, but longer: the limit is only for code that hangs, and other tests use the processor.
/// After some checks, the call sleeps between two of them, since a task that only yields takes the processor from what it waits for.
package func eventually(
    _ description: String? = nil, within limit: Duration = .seconds(300), fileID: String = #fileID, line: Int = #line,
    _ condition: () async throws -> Bool
) async throws {
    var checks = 0
    try await RealtimeTesting.eventually(description, within: limit, fileID: fileID, line: line) {
        if try await condition() { return true }
        checks += 1
        // A pause between checks, not a wait for an event: a loop without it would take the processor from the code that it waits for.
        if checks > 100 { try await Task.sleep(for: .milliseconds(1)) }
        return false
    }
}

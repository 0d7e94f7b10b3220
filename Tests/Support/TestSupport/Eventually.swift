import RealtimeTesting

/// Waits as the function of `RealtimeTesting` does, but longer: the limit is only for code that hangs, and other tests use the processor.
package func eventually(
    _ description: String? = nil, within limit: Duration = .seconds(300), fileID: String = #fileID, line: Int = #line,
    _ condition: () async throws -> Bool
) async throws {
    try await RealtimeTesting.eventually(description, within: limit, fileID: fileID, line: line, condition)
}

import Foundation
package import Testing

// The expansion of `#expect` and its type check take about 10 ms of compilation, a third of the time of all tests; these take a tenth of it.

/// Records an issue if a condition is false, with the text of the call.
///
/// Use ``expectEqual(_:_:_:fileID:filePath:line:column:)`` and ``expectNil(_:_:fileID:filePath:line:column:)`` for what they compare, because the
/// issue then contains the values, and `#expect(throws:)` and `#require` for what has no function here.
package func expect(
    _ condition: Bool, _ comment: @autoclosure () -> Comment? = nil, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column
) {
    guard !condition else { return }
    record("false", comment(), SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column))
}

/// Records an issue with both values if a value is not the expected one.
package func expectEqual<Value: Equatable>(
    _ value: Value, _ expected: Value, _ comment: @autoclosure () -> Comment? = nil, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column
) {
    guard value != expected else { return }
    let texts = "\(String(reflecting: value)) is not \(String(reflecting: expected))"
    record(texts, comment(), SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column))
}

/// Records an issue with the value if there is one.
package func expectNil<Value>(
    _ value: Value?, _ comment: @autoclosure () -> Comment? = nil, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column
) {
    guard let value else { return }
    let text = "\(String(reflecting: value)) is not nil"
    record(text, comment(), SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column))
}

private func record(_ values: String, _ comment: Comment?, _ location: SourceLocation) {
    let call = callText(in: location.filePath, at: location.line)
    Issue.record("\([call, values, comment?.rawValue].compactMap(\.self).joined(separator: ": "))", sourceLocation: location)
}

/// The text of a call in a source file, on one line, or `nil` if the file can't be read.
func callText(in path: String, at line: Int) -> String? {
    guard let source = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
    var text = ""
    for line in source.split(separator: "\n", omittingEmptySubsequences: false).dropFirst(line - 1).prefix(10) {
        let trimmed = line.trimmingCharacters(in: .whitespaces)
        text += text.isEmpty || text.hasSuffix("(") || trimmed.hasPrefix(")") ? trimmed : " " + trimmed
        if text.count(where: { $0 == "(" }) <= text.count(where: { $0 == ")" }) { break }
    }
    return text
}

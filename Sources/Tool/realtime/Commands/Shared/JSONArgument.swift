import CommandLineSupport
import RealtimeCoding

/// A JSON value, as the arguments of a command specify it.
enum JSONArgument: Sendable, Equatable {
    case value(JSONValue)
    /// `-`: the JSON in standard input.
    case standardInput

    /// Above what servers accept by default, so that their error states the limit.
    private static let inputLimit = 16 << 20

    /// Returns why a protocol can't carry a value as it is, or `nil`. It begins with the part of the value in single quotes.
    typealias Problem = (JSONValue) -> String?

    /// Returns the arguments `JSON` of a command.
    ///
    /// - Throws: `UsageError` for the first one that isn't JSON, or that the protocol would change, and for a second `-`.
    static func all(_ arguments: Arguments, problem: Problem = { _ in nil }) throws(UsageError) -> [JSONArgument] {
        let values = try arguments.positionals("JSON").map { text throws(UsageError) in
            if text == "-" { return JSONArgument.standardInput }
            let value: JSONValue
            do throws(JSONError) {
                value = try JSONValue(parsing: text)
            } catch {
                let quoted = Shell.quoted(JSONValue.string(text).description)
                throw arguments.usageError("Invalid argument '\(text)': must be JSON. If it is a string, specify \(quoted)")
            }
            if let problem = problem(value) { throw arguments.usageError("Invalid argument \(problem)") }
            return .value(value)
        }
        if values.count(where: { $0 == .standardInput }) > 1 {
            throw arguments.usageError("Only one argument can be '-', because standard input is read to its end")
        }
        return values
    }

    /// Returns the value, which may be read from standard input.
    ///
    /// - Throws: `ToolFailure` when it can't be read, isn't JSON, or the protocol would change it.
    func load(problem: Problem = { _ in nil }) async throws(ToolFailure) -> JSONValue {
        switch self {
        case .value(let value): return value
        case .standardInput:
            let text = try await Input.standard(limit: Self.inputLimit)
            let value: JSONValue
            do throws(JSONError) {
                value = try JSONValue(parsing: text)
            } catch {
                throw ToolFailure(
                    "Cannot read standard input: \(error.message). It must be JSON, in which a string has quotes: \"hello\".")
            }
            if let problem = problem(value) { throw ToolFailure("Invalid value in standard input \(problem).") }
            return value
        }
    }
}

extension [JSONArgument] {
    /// Returns the values, of which one may be read from standard input.
    ///
    /// - Throws: The errors of ``JSONArgument/load(problem:)``.
    func load(problem: JSONArgument.Problem = { _ in nil }) async throws(ToolFailure) -> [JSONValue] {
        var values: [JSONValue] = []
        for argument in self { values.append(try await argument.load(problem: problem)) }
        return values
    }
}

/// A command line that was understood: every value is of its option's kind, and what is required is there.
package struct Arguments: Sendable, Equatable {
    package let path: [String]
    private(set) var values: [String: [ValueKind.Value]] = [:]
    private(set) var positionals: [String: [String]] = [:]

    package init(path: [String]) {
        self.path = path
    }

    package mutating func add(_ value: ValueKind.Value, option: String) { self.values[option, default: []].append(value) }

    package mutating func add(_ text: String, positional: String) { self.positionals[positional, default: []].append(text) }

    package func has(_ option: String) -> Bool { self.values[option] != nil }

    package func text(_ option: String) -> String? { self.texts(option).first }

    package func texts(_ option: String) -> [String] {
        (self.values[option] ?? []).map { value in
            guard case .text(let text) = value else { preconditionFailure("--\(option) is not declared as text") }
            return text
        }
    }

    package func integer(_ option: String) -> Int? {
        self.values[option]?.first.map { value in
            guard case .integer(let integer) = value else { preconditionFailure("--\(option) is not declared as a number") }
            return integer
        }
    }

    package func duration(_ option: String) -> Duration? {
        self.values[option]?.first.map { value in
            guard case .duration(let duration) = value else { preconditionFailure("--\(option) is not declared as a time") }
            return duration
        }
    }

    package func positional(_ name: String) -> String? { self.positionals[name]?.first }

    package func all(_ name: String) -> [String] { self.positionals[name] ?? [] }

    /// What is declared as required is there, or the parser would not have come this far.
    package func required(option: String) -> String {
        guard let text = self.text(option) else { preconditionFailure("--\(option) is not declared as required") }
        return text
    }

    package func required(positional: String) -> String {
        guard let text = self.positional(positional) else { preconditionFailure("\(positional) is not declared as required") }
        return text
    }

    /// A rule between arguments was broken.
    package func wrong(_ message: String) -> UsageError { UsageError(self.path, message) }
}

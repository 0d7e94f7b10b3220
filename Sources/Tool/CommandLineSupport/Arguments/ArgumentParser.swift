/// Reads the arguments of one command: a value, no printing, no exit.
package struct ArgumentParser {
    package enum Outcome: Equatable {
        case help
        case run(Arguments)
    }

    private let spec: CommandSpec
    private var arguments: Arguments
    private var places: [String] = []

    package static func parse(_ words: some Sequence<String>, for spec: CommandSpec) throws(UsageError) -> Outcome {
        var parser = ArgumentParser(spec)
        return try parser.parse(Array(words)[...])
    }

    private init(_ spec: CommandSpec) {
        self.spec = spec
        self.arguments = Arguments(path: spec.path)
    }

    private mutating func parse(_ words: ArraySlice<String>) throws(UsageError) -> Outcome {
        var rest = words
        while let word = rest.popFirst() {
            if word == "--" {
                self.places += rest
                break
            }
            if word == "--help" || word == "-h" { return .help }
            if word.hasPrefix("--") {
                try self.option(word.dropFirst(2), &rest)
            } else if word.hasPrefix("-"), word.count > 1, !Self.isNumber(word) {
                let hint = Suggestion.nearest(to: String(word.dropFirst()), in: self.names).map { "; did you mean --\($0)?" } ?? ""
                throw self.error("There is no option \(word), and an argument that begins with a dash goes after --\(hint)")
            } else {
                self.places.append(word)
            }
        }
        try self.bindPlaces()
        for option in self.spec.options where option.isRequired && !self.arguments.has(option.name) {
            throw self.error("The option \(option.usage) is missing")
        }
        return .run(self.arguments)
    }

    private mutating func option(_ text: Substring, _ rest: inout ArraySlice<String>) throws(UsageError) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        guard let option = self.spec.options.first(where: { $0.name == name }) else {
            let hint = Suggestion.nearest(to: name, in: self.names).map { "; did you mean --\($0)?" } ?? ""
            throw self.error("There is no option --\(name)\(hint)")
        }
        guard option.isRepeatable || !self.arguments.has(name) else { throw self.error("The option --\(name) is given twice") }
        if option.isFlag {
            guard parts.count == 1 else { throw self.error("The option --\(name) takes no value") }
            self.arguments.add(.text(""), option: name)
            return
        }
        let value: String
        if parts.count == 2 {
            value = String(parts[1])
        } else if let next = rest.first, !next.hasPrefix("--") {
            value = next
            rest.removeFirst()
        } else {
            let remedy = rest.isEmpty ? "" : "; write --\(name)=VALUE if it begins with dashes"
            throw self.error("The option \(option.usage) needs a value\(remedy)")
        }
        guard let parsed = option.kind.parse(value) else {
            throw self.error("The value of --\(name) has to be \(option.kind.expectation), not '\(value)'")
        }
        self.arguments.add(parsed, option: name)
    }

    private mutating func bindPlaces() throws(UsageError) {
        var rest = self.places[...]
        for positional in self.spec.positionals {
            switch positional.presence {
            case .requiredWithout(let option) where self.arguments.has(option): continue
            case .required, .requiredWithout:
                guard let word = rest.popFirst() else { throw self.missing(positional) }
                self.arguments.add(word, positional: positional.name)
            case .optional:
                if let word = rest.popFirst() { self.arguments.add(word, positional: positional.name) }
            case .repeated(let minimum):
                guard rest.count >= minimum else { throw self.missing(positional) }
                for word in rest { self.arguments.add(word, positional: positional.name) }
                rest = []
            }
        }
        if let word = rest.first { throw self.error("There is no use for the argument '\(word)'") }
    }

    private func missing(_ positional: PositionalSpec) -> UsageError {
        if case .requiredWithout(let option) = positional.presence {
            return self.error("The argument \(positional.name) is missing; give it or --\(option)")
        }
        return self.error("The argument \(positional.name) is missing")
    }

    private func error(_ message: String) -> UsageError { UsageError(self.spec.path, message) }

    private var names: [String] { self.spec.allOptions.map(\.name) }

    /// `-1` is data and no option.
    private static func isNumber(_ word: String) -> Bool {
        word.utf8.dropFirst().first.map { (0x30...0x39).contains($0) } ?? false
    }
}

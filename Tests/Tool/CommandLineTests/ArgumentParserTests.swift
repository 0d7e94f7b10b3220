import TestSupport
import Testing

@testable import CommandLineSupport

@Suite struct ArgumentParserTests {
    static let spec = CommandSpec(
        path: ["fetch"],
        summary: "Fetch",
        description: "Fetches.",
        positionals: [
            PositionalSpec("SOURCE", "The source.", .requiredWithout(option: "default")),
            PositionalSpec("NAME", "The names.", .repeated(atLeast: 1)),
        ],
        options: [
            .flag("default", "The default source."),
            .flag("json", "JSON."),
            .value("key", "KEY", "A key.", presence: .required),
            .value("event", "NAME", "An event.", isRepeatable: true),
            .value("count", "N", "The count.", as: .integer(1...10)),
            .value("timeout", "SECONDS", "The timeout.", as: .duration(.milliseconds(100) ... .seconds(60))),
            .values("range", ["FIRST", "LAST"], "A range."),
        ])

    private func parse(_ line: String) throws -> Arguments {
        guard case .run(let arguments) = try ArgumentParser.parse(line.split(separator: " ").map(String.init), for: Self.spec) else {
            throw UsageError([], "unexpected request for help")
        }
        return arguments
    }

    @Test func `options are accepted in any position, with a space or an equals sign before the value`() throws {
        for line in ["file a b --key k --count 3 --json", "--key=k file --json a --count=3 b", "--json --count 3 --key k -- file a b"] {
            let arguments = try self.parse(line)
            expectEqual(arguments.positional("SOURCE"), "file")
            expectEqual(arguments.positionals("NAME"), ["a", "b"])
            expectEqual(arguments.string("key"), "k")
            expectEqual(arguments.integer("count"), 3)
            expect(arguments.has("json"))
        }
    }

    @Test func `values of a repeatable option keep their order`() throws {
        try expectEqual(self.parse("file a --key k --event x --event=y").strings("event"), ["x", "y"])
    }

    @Test func `an option can have several values`() throws {
        for line in ["file --range x y a --key k", "file a --key k --range=x y"] {
            let arguments = try self.parse(line)
            expectEqual(arguments.strings("range"), ["x", "y"])
            expectEqual(arguments.positionals("NAME"), ["a"])
        }
    }

    @Test func `an option replaces the positional that requires its absence`() throws {
        let arguments = try self.parse("--default a b --key k")
        expectNil(arguments.positional("SOURCE"))
        expectEqual(arguments.positionals("NAME"), ["a", "b"])
    }

    @Test func `everything after two dashes is positional`() throws {
        try expectEqual(self.parse("--key k -- file --json -h --").positionals("NAME"), ["--json", "-h", "--"])
    }

    @Test func `a single dash and a negative number are positional`() throws {
        try expectEqual(self.parse("file - -1 --key k").positionals("NAME"), ["-", "-1"])
    }

    @Test func `a value can contain an equals sign and start with a dash`() throws {
        try expectEqual(self.parse("file a --key=a=b=").string("key"), "a=b=")
        try expectEqual(self.parse("file a --key -x").string("key"), "-x")
        try expectEqual(self.parse("file a --key=--x").string("key"), "--x")
    }

    @Test(arguments: ["--help", "-h", "file --count 3 --help", "--json -h --nothing"])
    func `help takes precedence over missing and unknown arguments`(_ line: String) throws {
        try expectEqual(ArgumentParser.parse(line.split(separator: " ").map(String.init), for: Self.spec), .help(["fetch"]))
    }

    @Test(arguments: [
        ("a b --kye k", "Unknown option '--kye'. Did you mean '--key'?"),
        ("a b --zzzzzz k", "Unknown option '--zzzzzz'"),
        ("a b --cou 1 --key k", "Unknown option '--cou'. Did you mean '--count'?"),
        ("a b -key k", "Unknown option '-key'; put '--' before arguments that start with a dash. Did you mean '--key'?"),
        ("a b --key", "Missing value for '--key KEY'"),
        ("a b --key --json", "Missing value for '--key KEY'; use '--key=VALUE' if the value starts with dashes"),
        ("a b --key k --range x", "Missing value for '--range FIRST LAST'"),
        ("a b --range x --key k", "Missing value for '--range FIRST LAST'"),
        ("a b --key k --range x y --range x y", "Option '--range' is specified more than once"),
        ("a b --key=", "Invalid value '' for '--key': must not be empty"),
        ("a b --key k --key l", "Option '--key' is specified more than once"),
        ("a b --json=yes --key k", "Option '--json' does not take a value"),
        ("a b", "Missing argument '--key KEY'"),
        ("--default --key k", "Missing argument 'NAME'"),
        ("a --key k", "Missing argument 'NAME'"),
        ("--key k", "Missing arguments 'SOURCE' (or '--default'), 'NAME'"),
        ("--count 2", "Missing arguments 'SOURCE' (or '--default'), 'NAME', '--key KEY'"),
        ("a b -key=k", "Unknown option '-key'; put '--' before arguments that start with a dash. Did you mean '--key'?"),
        ("a b --key k --count 0", "Invalid value '0' for '--count': must be an integer from 1 to 10"),
        ("a b --key k --count 1x", "Invalid value '1x' for '--count': must be an integer from 1 to 10"),
        (
            "a b --key k --timeout 0",
            "Invalid value '0' for '--timeout': must be a duration from 100 ms to 60 seconds, such as 5, 0.5, 500ms or 2m"
        ),
    ])
    func `arguments that do not match the declaration are errors with a remedy`(_ line: String, _ message: String) {
        #expect(throws: UsageError(["fetch"], message)) { try self.parse(line) }
    }

    @Test func `another option or an environment variable replaces a required option`() throws {
        let spec = CommandSpec(
            path: ["x"], summary: "", description: "",
            options: [
                .value("secret", "TEXT", "", presence: .requiredWithout(option: "file"), environmentVariable: "SECRET"),
                .value("file", "FILE", ""),
            ])
        func parse(_ arguments: [String], _ environment: [String: String] = [:]) throws -> Arguments? {
            guard case .run(let arguments) = try ArgumentParser.parse(arguments, for: spec, environment: { environment[$0] }) else {
                return nil
            }
            return arguments
        }
        try expectEqual(parse(["--secret", "a"])?.string("secret"), "a")
        try expectNil(parse(["--file", "f"])?.environment("secret"))
        let fromEnvironment = try parse([], ["SECRET": "b"])
        expectEqual(fromEnvironment?.environment("secret"), "b")
        expectEqual(fromEnvironment?.has("secret"), false)
        for environment in [[:], ["SECRET": ""], ["FILE": "f"]] {
            #expect(throws: UsageError(["x"], "Missing argument '--secret TEXT' (or '--file FILE')")) { try parse([], environment) }
        }
    }

    @Test func `arguments that are missing because of others are named with all that are missing`() {
        let spec = CommandSpec(
            path: ["x"], summary: "", description: "", positionals: [PositionalSpec("ONE", "")],
            options: [.value("key", "KEY", "", presence: .required), .flag("signed", "")],
            missing: { $0.has("signed") ? ["'--secret' for '\($0.positional("ONE") ?? "none")'"] : [] })
        for (arguments, missing) in [
            (["a", "--signed"], "s '--key KEY', '--secret' for 'a'"), (["a", "--key", "k", "--signed"], " '--secret' for 'a'"),
            (["--signed"], "s 'ONE', '--key KEY', '--secret' for 'none'"), (["a"], " '--key KEY'"),
        ] {
            #expect(throws: UsageError(["x"], "Missing argument\(missing)")) { try ArgumentParser.parse(arguments, for: spec) }
        }
    }

    @Test func `an extra argument is an error`() {
        let spec = CommandSpec(path: ["x"], summary: "", description: "", positionals: [PositionalSpec("ONE", "", .optional)])
        #expect(throws: UsageError(["x"], "Unexpected argument 'b'")) { try ArgumentParser.parse(["a", "b"], for: spec) }
    }

    @Test func `an error message escapes control characters and points to the help`() {
        let error = UsageError(["x"], "Unknown option '--\u{1B}[2J'")
        expectEqual(error.fullMessage, "Unknown option '--\\u{1b}[2J'. See 'realtime x --help'.")
        expectEqual(UsageError([], "Did you mean x?").fullMessage, "Did you mean x? See 'realtime --help'.")
        expectEqual(UsageError([], "Invalid URL.").fullMessage, "Invalid URL. See 'realtime --help'.")
    }
}

@Suite struct ValueKindTests {
    @Test(arguments: [
        ("5", Duration.seconds(5)), ("0.5", .milliseconds(500)), ("1.25s", .milliseconds(1250)), ("250ms", .milliseconds(250)),
        ("2m", .seconds(120)), ("1h", .seconds(3600)), ("0", .zero), ("0.000000001", .nanoseconds(1)),
    ])
    func `durations with and without units are parsed`(_ text: String, _ duration: Duration) {
        expectEqual(ValueKind.duration(.zero ... .seconds(100_000)).parse(text), .duration(duration))
    }

    @Test(arguments: [
        "", ".5", "5.", "1.2.3", "-1", "+1", "1e3", "nan", "inf", "0x10", "5 s", "5d", "1000001", "99999999999999999999", "٣",
        "0.0000000001",
    ])
    func `malformed durations are rejected`(_ text: String) {
        expectNil(ValueKind.duration(.zero ... .seconds(10_000_000)).parse(text))
    }

    @Test(arguments: ["", "1.0", "+1", "0x1", " 1", "1_000", "9223372036854775808", "-1", "11"])
    func `malformed integers and integers out of range are rejected`(_ text: String) {
        expectNil(ValueKind.integer(0...10).parse(text))
    }
}

@Suite struct SuggestionTests {
    @Test(arguments: [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 1), ("count", "cuont", 1), ("same", "same", 0)])
    func `the distance counts edits and transpositions`(_ lhs: String, _ rhs: String, _ distance: Int) {
        expectEqual(Suggestion.distance(lhs, rhs), distance)
        expectEqual(Suggestion.distance(rhs, lhs), distance)
    }

    @Test func `only a similar name or a unique prefix is suggested`() {
        expectNil(Suggestion.nearest(to: "x", in: ["json", "help"]))
        expectEqual(Suggestion.nearest(to: "publsh", in: ["publish", "subscribe"]), "publish")
        expectEqual(Suggestion.nearest(to: "sub", in: ["publish", "subscribe"]), "subscribe")
    }
}

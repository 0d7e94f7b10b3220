import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

@Suite struct ArgumentParserTests {
    static let spec = CommandSpec(
        path: ["fetch"],
        summary: "Fetch",
        description: "Fetches.",
        positionals: [
            PositionalSpec("PLACE", "Where.", .requiredWithout(option: "default")),
            PositionalSpec("NAME", "What.", .repeated(atLeast: 1)),
        ],
        options: [
            .flag("default", "The usual place."),
            .flag("json", "JSON."),
            .value("key", "KEY", "A key.", isRequired: true),
            .value("event", "NAME", "An event.", isRepeatable: true),
            .value("count", "N", "How many.", as: .integer(1...10)),
            .value("timeout", "SECONDS", "How long.", as: .duration(.milliseconds(100) ... .seconds(60))),
        ])

    private func parse(_ line: String) throws -> Arguments {
        guard case .run(let arguments) = try ArgumentParser.parse(line.split(separator: " ").map(String.init), for: Self.spec) else {
            throw UsageError([], "help was asked for")
        }
        return arguments
    }

    @Test func `options may stand anywhere and take their value either way`() throws {
        for line in ["here a b --key k --count 3 --json", "--key=k here --json a --count=3 b", "--json --count 3 --key k -- here a b"] {
            let arguments = try self.parse(line)
            #expect(arguments.positional("PLACE") == "here")
            #expect(arguments.all("NAME") == ["a", "b"])
            #expect(arguments.text("key") == "k")
            #expect(arguments.integer("count") == 3)
            #expect(arguments.has("json"))
        }
    }

    @Test func `a repeatable option keeps its order`() throws {
        #expect(try self.parse("here a --key k --event x --event=y").texts("event") == ["x", "y"])
    }

    @Test func `an option stands in for its positional`() throws {
        let arguments = try self.parse("--default a b --key k")
        #expect(arguments.positional("PLACE") == nil)
        #expect(arguments.all("NAME") == ["a", "b"])
    }

    @Test func `after two dashes everything is an argument`() throws {
        #expect(try self.parse("--key k -- here --json -h --").all("NAME") == ["--json", "-h", "--"])
    }

    @Test func `a dash alone and a negative number are arguments`() throws {
        #expect(try self.parse("here - -1 --key k").all("NAME") == ["-", "-1"])
    }

    @Test func `a value may hold an equals sign and begin with a dash`() throws {
        #expect(try self.parse("here a --key=a=b=").text("key") == "a=b=")
        #expect(try self.parse("here a --key -x").text("key") == "-x")
        #expect(try self.parse("here a --key=--x").text("key") == "--x")
    }

    @Test(arguments: ["--help", "-h", "here --count 3 --help", "--json -h --nothing"])
    func `help needs nothing else`(_ line: String) throws {
        #expect(try ArgumentParser.parse(line.split(separator: " ").map(String.init), for: Self.spec) == .help)
    }

    @Test(arguments: [
        ("a b --kye k", "There is no option --kye; did you mean --key?"),
        ("a b --zzzzzz k", "There is no option --zzzzzz"),
        ("a b --cou 1 --key k", "There is no option --cou; did you mean --count?"),
        ("a b -key k", "There is no option -key, and an argument that begins with a dash goes after --; did you mean --key?"),
        ("a b --key", "The option --key KEY needs a value"),
        ("a b --key --json", "The option --key KEY needs a value; write --key=VALUE if it begins with dashes"),
        ("a b --key=", "The value of --key has to be something that is not empty, not ''"),
        ("a b --key k --key l", "The option --key is given twice"),
        ("a b --json=yes --key k", "The option --json takes no value"),
        ("a b", "The option --key KEY is missing"),
        ("--key k", "The argument PLACE is missing; give it or --default"),
        ("a --key k", "The argument NAME is missing"),
        ("a b --key k --count 0", "The value of --count has to be a whole number from 1 to 10, not '0'"),
        ("a b --key k --count 1x", "The value of --count has to be a whole number from 1 to 10, not '1x'"),
        (
            "a b --key k --timeout 0",
            "The value of --timeout has to be a time from 100 ms to 60 seconds, such as 5, 0.5, 500ms or 2m, not '0'"
        ),
    ])
    func `what is wrong is said`(_ line: String, _ message: String) {
        #expect(throws: UsageError(["fetch"], message)) { try self.parse(line) }
    }

    @Test func `what is left over is refused`() {
        let spec = CommandSpec(path: ["x"], summary: "", description: "", positionals: [PositionalSpec("ONE", "", .optional)])
        #expect(throws: UsageError(["x"], "There is no use for the argument 'b'")) { try ArgumentParser.parse(["a", "b"], for: spec) }
    }

    @Test func `an error carries no control characters to the terminal`() {
        let error = UsageError(["x"], "There is no option --\u{1B}[2J")
        #expect(error.sentence == "There is no option --\\u{1b}[2J; see 'realtime x --help'.")
        #expect(UsageError([], "What? Did you mean x?").sentence == "What? Did you mean x? See 'realtime --help'.")
    }
}

@Suite struct ValueKindTests {
    @Test(arguments: [
        ("5", Duration.seconds(5)), ("0.5", .milliseconds(500)), ("1.25s", .milliseconds(1250)), ("250ms", .milliseconds(250)),
        ("2m", .seconds(120)), ("1h", .seconds(3600)), ("0", .zero), ("0.000000001", .nanoseconds(1)),
    ])
    func `times are read`(_ text: String, _ duration: Duration) {
        #expect(ValueKind.duration(.zero ... .seconds(100_000)).parse(text) == .duration(duration))
    }

    @Test(arguments: [
        "", ".5", "5.", "1.2.3", "-1", "+1", "1e3", "nan", "inf", "0x10", "5 s", "5d", "1000001", "99999999999999999999", "٣",
        "0.0000000001",
    ])
    func `what is no time is refused`(_ text: String) {
        #expect(ValueKind.duration(.zero ... .seconds(10_000_000)).parse(text) == nil)
    }

    @Test(arguments: ["", "1.0", "+1", "0x1", " 1", "1_000", "9223372036854775808", "-1", "11"])
    func `what is no number of the range is refused`(_ text: String) {
        #expect(ValueKind.integer(0...10).parse(text) == nil)
    }
}

@Suite struct SuggestionTests {
    @Test(arguments: [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 1), ("count", "cuont", 1), ("same", "same", 0)])
    func `distance counts changes and swaps`(_ lhs: String, _ rhs: String, _ distance: Int) {
        #expect(Suggestion.distance(lhs, rhs) == distance)
        #expect(Suggestion.distance(rhs, lhs) == distance)
    }

    @Test func `what is far is not suggested`() {
        #expect(Suggestion.nearest(to: "x", in: ["json", "help"]) == nil)
        #expect(Suggestion.nearest(to: "publsh", in: ["publish", "subscribe"]) == "publish")
        #expect(Suggestion.nearest(to: "sub", in: ["publish", "subscribe"]) == "subscribe")
    }
}

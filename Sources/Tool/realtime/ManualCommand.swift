import CommandLineSupport

/// `realtime manual`
struct ManualCommand: Command {
    static let spec = CommandSpec(
        path: ["manual"],
        summary: "Print the manual page, for man",
        description: """
            Prints the manual page of the tool in the format of man. To read it, run realtime manual | man -l - or, where man has no option \
            -l, realtime manual | mandoc -a. To install it, write it to a file realtime.1 in a folder man1 of the manual path.
            """,
        examples: ["manual"])

    init(_ arguments: Arguments) throws(UsageError) {}

    func run(_ console: Console) async throws(ToolFailure) { console.write(Realtime.tool.manual()) }
}

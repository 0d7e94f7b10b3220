import CommandLineSupport
import RealtimeBenchmarks

/// The tool `realtime`.
@main
enum Realtime {
    /// The tool with all its commands. Add a new command to `commands`.
    static let tool = CommandLineTool(
        version: "0.1.0",
        summary: "Clients and servers for realtime protocols",
        groups: [
            GroupSpec(path: ["serve"], summary: "Run a server for development and tests"),
            GroupSpec(path: ["pusher"], summary: "Act as a Pusher Channels client or publisher"),
        ],
        commands: [
            DemoCommand.self, ServePusherCommand.self, PusherSubscribeCommand.self, PusherPublishCommand.self,
        ] + BenchmarkCommands.all)

    static func main() { self.tool.main() }
}

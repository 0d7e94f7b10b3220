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
            GroupSpec(path: ["signalr"], summary: "Call and listen to the hubs of a SignalR server"),
            GroupSpec(path: ["primus"], summary: "Exchange messages and events with a Primus server"),
        ],
        commands: [
            DemoCommand.self, ServePusherCommand.self, ServeSignalRCommand.self, ServePrimusCommand.self, PusherSubscribeCommand.self,
            PusherTriggerCommand.self, PusherPublishCommand.self, PusherChannelsCommand.self, PusherUsersCommand.self,
            PusherTerminateCommand.self,
            PusherSignCommand.self,
            SignalRInvokeCommand.self, SignalRSendCommand.self, SignalRStreamCommand.self, SignalRListenCommand.self,
            PrimusListenCommand.self, PrimusWriteCommand.self, PrimusSendCommand.self, PrimusSpecCommand.self,
            CompletionCommand.self, ManualCommand.self,
        ] + BenchmarkCommands.all)

    static func main() { self.tool.main() }
}

import PusherChannels

// The snippets of the article Troubleshooting.

func traceSnippet() {
    // snippet:troubleshooting-trace
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.log = LogSink(minimumLevel: .trace) { level, subsystem, message in
        print(level, subsystem, message)
    }
    // end
    _ = configuration
}

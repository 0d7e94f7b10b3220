import PrimusClient
import PusherChannels

// The snippets of the articles Troubleshooting and PrimusTroubleshooting.

func traceSnippet() {
    // snippet:troubleshooting-trace
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.log = LogSink(minimumLevel: .trace) { level, subsystem, message in
        print(level, subsystem, message)
    }
    // end
    _ = configuration
}

func primusTraceSnippet() throws {
    // snippet:primus-troubleshooting-trace
    var configuration = try PrimusConfiguration(url: "https://example.org/primus")
    configuration.log = LogSink(minimumLevel: .trace) { level, subsystem, message in
        print(level, subsystem, message)
    }
    // end
    _ = configuration
}

func primusErrorsSnippet(_ primus: PrimusConnection) async {
    // snippet:primus-troubleshooting-errors
    for await error in primus.errors {
        print(error.code, error.message)
    }
    // end
}

func primusFramesSnippet(_ primus: PrimusConnection) async {
    // snippet:primus-troubleshooting-frames
    for await frame in primus.frames() {
        print(frame.direction == .sent ? "sent:" : "received:", frame.text)
    }
    // end
}

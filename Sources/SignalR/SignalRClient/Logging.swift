import RealtimeCore

/// The severity of a log message.
public enum LogLevel: Int, Sendable {
    case debug, information, warning, error

    init(_ level: LogSink.Level) {
        switch level {
        case .trace, .debug: self = .debug
        case .info: self = .information
        case .warning: self = .warning
        case .error: self = .error
        }
    }

    var sinkLevel: LogSink.Level {
        switch self {
        case .debug: .debug
        case .information: .info
        case .warning: .warning
        case .error: .error
        }
    }
}

/// A destination of log messages.
public protocol LogHandler: Sendable {
    /// Logs a message.
    ///
    /// Called on any thread, possibly on several at the same time. It should return quickly.
    ///
    /// - Parameters:
    ///   - logLevel: The severity.
    ///   - message: The message. It contains no access token, and arguments of calls only if
    ///     ``HttpConnectionOptions/logMessageContent`` is set.
    ///   - file: The name of the module that logs.
    ///   - function: The part of the module that logs.
    ///   - line: Always 0.
    func log(logLevel: LogLevel, message: LogMessage, file: String, function: String, line: UInt)
}

/// The text of a log message.
public struct LogMessage: ExpressibleByStringInterpolation, CustomStringConvertible, Sendable {
    /// The text.
    public let description: String

    /// Creates a message.
    public init(stringLiteral value: String) {
        self.description = value
    }
}

extension LogSink {
    /// Creates a sink that passes messages to a handler, or to the system's log.
    ///
    /// - Parameter includesContent: Whether the level `debug` contains the messages of the connection.
    init(_ handler: (any LogHandler)?, _ level: LogLevel, includesContent: Bool) {
        let minimumLevel = level == .debug && includesContent ? Level.trace : level.sinkLevel
        guard let handler else {
            self = .standard
            self.minimumLevel = minimumLevel
            return
        }
        self.init(minimumLevel: minimumLevel) { level, subsystem, message in
            handler.log(
                logLevel: LogLevel(level), message: LogMessage(stringLiteral: message), file: "SignalRClient", function: subsystem, line: 0)
        }
    }
}

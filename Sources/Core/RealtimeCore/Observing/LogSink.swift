import RealtimeSystem
#if canImport(os)
import os
#endif

#if !canImport(os)
/// The C library's `write`, which the `write` property of `LogSink` hides.
private let writeBytes: @Sendable (Int32, UnsafeRawPointer?, Int) -> Int = write
#endif

/// A destination for log messages.
///
/// ```swift
/// configuration.log = LogSink(minimumLevel: .debug) { level, subsystem, message in
///     print(level, subsystem, message)
/// }
/// ```
/// Messages never contain secrets, signatures or tokens of a configuration. Only messages of the level ``Level/trace`` contain the data of
/// events.
public struct LogSink: Sendable {
    /// The severity of a log message.
    public enum Level: Int, Comparable, Sendable, CustomStringConvertible {
        /// Every message that is sent or received, without signatures and tokens, but with the data of events.
        ///
        /// Frames are only traced if it is the minimum level when the client is created.
        case trace
        /// Every step, for debugging.
        case debug
        /// Normal events, such as a connection or a subscription.
        case info
        /// An error that the library recovers from.
        case warning
        /// An error that the library can't recover from.
        case error

        /// Returns whether the left level is less severe than the right one.
        public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }

        /// The name of the level, for example `warning`.
        public var description: String {
            switch self {
            case .trace: "trace"
            case .debug: "debug"
            case .info: "info"
            case .warning: "warning"
            case .error: "error"
            }
        }
    }

    /// The lowest level that is logged. The text of a message below it isn't created.
    public var minimumLevel: Level
    private let write: @Sendable (_ level: Level, _ subsystem: String, _ message: String) -> Void

    /// Creates a log sink that calls a closure.
    ///
    /// - Parameters:
    ///   - minimumLevel: The lowest level that is logged.
    ///   - write: A closure that receives each message, together with its level and the part of the library it comes from. Called on
    ///     any thread, possibly on several at the same time, and while the library holds no lock. It should return quickly.
    public init(minimumLevel: Level, write: @escaping @Sendable (_ level: Level, _ subsystem: String, _ message: String) -> Void) {
        self.minimumLevel = minimumLevel
        self.write = write
    }

    /// A sink that writes warnings and errors: to the unified logging system on Apple platforms, to standard error elsewhere.
    public static let standard = LogSink(minimumLevel: .warning, write: Self.writeToSystem)

    /// A sink that discards all messages.
    public static let none = LogSink(minimumLevel: .error) { _, _, _ in }

    /// Logs a message. Evaluates `message` only if its level is logged.
    package func log(_ level: Level, _ subsystem: String, _ message: @autoclosure () -> String) {
        guard level >= self.minimumLevel else { return }
        self.write(level, subsystem, message())
    }

    private static func writeToSystem(_ level: Level, _ subsystem: String, _ message: String) {
        #if canImport(os)
        let logger = Logger(subsystem: "swift-realtime", category: subsystem)
        switch level {
        case .trace: logger.trace("\(message, privacy: .public)")
        case .debug: logger.debug("\(message, privacy: .public)")
        case .info: logger.info("\(message, privacy: .public)")
        case .warning: logger.warning("\(message, privacy: .public)")
        case .error: logger.error("\(message, privacy: .public)")
        }
        #else
        var line = Array("\(subsystem) \(level): \(message)\n".utf8)
        // A single call, so that lines of several threads don't interleave. A failure to log is ignored.
        _ = writeBytes(STDERR_FILENO, &line, line.count)
        #endif
    }
}

extension LogSink: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("minimumLevel", self.minimumLevel)] }
}

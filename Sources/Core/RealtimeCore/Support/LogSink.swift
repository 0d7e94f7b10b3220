import RealtimeSystem
#if canImport(os)
import os
#endif

#if !canImport(os)
/// The C library's `write`, under a name that `LogSink`'s own property does not hide.
private let writeBytes: @Sendable (Int32, UnsafeRawPointer?, Int) -> Int = write
#endif

/// Where log messages go. No message ever holds a secret, a token or a payload.
///
/// ```swift
/// configuration.log = LogSink(minimumLevel: .debug) { level, subsystem, message in
///     print(level, subsystem, message)
/// }
/// ```
public struct LogSink: Sendable {
    /// How much a log message matters.
    public enum Level: Int, Comparable, Sendable, CustomStringConvertible {
        /// Every step, for whoever looks for a fault.
        case debug
        /// What happens in the ordinary course: connected, subscribed.
        case info
        /// Something went wrong and the library deals with it.
        case warning
        /// Something went wrong and stays so.
        case error

        /// Whether the left one matters less.
        public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }

        /// The level's name, as in `warning`.
        public var description: String {
            switch self {
            case .debug: "debug"
            case .info: "info"
            case .warning: "warning"
            case .error: "error"
            }
        }
    }

    /// What is below this is not even put into words.
    public var minimumLevel: Level
    private let write: @Sendable (_ level: Level, _ subsystem: String, _ message: String) -> Void

    /// A sink of your own. `write` is called outside all locks, on whatever thread had something to say, so it
    /// should be quick.
    public init(minimumLevel: Level, write: @escaping @Sendable (_ level: Level, _ subsystem: String, _ message: String) -> Void) {
        self.minimumLevel = minimumLevel
        self.write = write
    }

    /// Warnings and errors, to the unified log on Apple's systems and to standard error elsewhere.
    public static let standard = LogSink(minimumLevel: .warning, write: Self.writeToSystem)

    /// Nothing.
    public static let none = LogSink(minimumLevel: .error) { _, _, _ in }

    /// Says something. `message` is evaluated only when somebody wants it.
    package func log(_ level: Level, _ subsystem: String, _ message: @autoclosure () -> String) {
        guard level >= self.minimumLevel else { return }
        self.write(level, subsystem, message())
    }

    private static func writeToSystem(_ level: Level, _ subsystem: String, _ message: String) {
        #if canImport(os)
        let logger = Logger(subsystem: "swift-realtime", category: subsystem)
        switch level {
        case .debug: logger.debug("\(message, privacy: .public)")
        case .info: logger.info("\(message, privacy: .public)")
        case .warning: logger.warning("\(message, privacy: .public)")
        case .error: logger.error("\(message, privacy: .public)")
        }
        #else
        var line = Array("\(subsystem) \(level): \(message)\n".utf8)
        // One call, so that lines of several threads do not mix; a failure to log is nobody's business.
        _ = writeBytes(STDERR_FILENO, &line, line.count)
        #endif
    }
}

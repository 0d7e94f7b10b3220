/// The messages of the log, in the words of PusherSwift.
struct LogText: Sendable, Hashable {
    enum Level: String { case debug = "[PUSHER DEBUG]", warning = "[PUSHER WARNING]", error = "[PUSHER ERROR]" }

    /// The complete message.
    let text: String

    init(_ message: String, _ context: String? = nil) { self.init(.debug, message, context) }

    init(_ level: Level, _ message: String, _ context: String? = nil) {
        self.text = "\(level.rawValue) \(message)" + (context.map { " \($0)" } ?? "")
    }

    static func received(_ text: String) -> LogText { LogText("websocketDidReceiveMessage", text) }
    static func unhandled(_ text: String) -> LogText { LogText("Unable to handle incoming Websocket message", text) }
    static func unhandledError(_ text: String) -> LogText { LogText("Unable to handle incoming error", text) }
    static func sentEvent(_ text: String) -> LogText { LogText("sendEvent", text) }
    static func sentClientEvent(_ text: String) -> LogText { LogText("sendClientEvent", text) }
    static let pingSent = LogText("Ping sent")
    static let pongReceived = LogText("Websocket received pong")
    static func established(_ socketID: String) -> LogText { LogText("Socket established with socket ID:", socketID) }
    static func viable(_ isViable: Bool) -> LogText { LogText("Network connection became \(isViable ? "viable" : "unviable")") }
    static func transportError(_ text: String) -> LogText { LogText("Websocket received error.", text) }
    static func unableToConnect(_ reason: String) -> LogText { LogText(.error, "Unable to connect:", reason) }
    static let intentionalDisconnection = LogText("Deliberate disconnection - skipping reconnect attempts")
    static let attemptsExhausted = LogText("Max reconnect attempts reached")
    static func unableToSubscribe(_ channel: String) -> LogText { LogText("Unable to subscribe to channel:", channel) }
    static func invalidAuthorization(_ channel: String, _ reason: String) -> LogText {
        LogText(.error, "Unable to authorize the subscription to \(channel):", reason)
    }

    static let channelDataMissing = LogText("Attempting to subscribe to presence channel but no channelData value provided")
    static let authorizationMissing = LogText("Auth info passed to authorizer completionHandler was nil")
    static let authUnsupported = LogText(
        .warning,
        "Passing an auth value to 'subscribe' is not supported for encrypted channels. Event decryption will fail. You must use one of the "
            + "following auth methods: 'endpoint', 'authRequestBuilder', 'authorizer'")
    static let clientEventNotAllowed = LogText("You must be subscribed to a private or presence channel to send client events")
    static func clientEventEncrypted(_ channel: String, _ event: String) -> LogText {
        LogText(
            .error, "Client events are not supported on encrypted channels:", "'\(channel)'. Client event '\(event)' will not be sent")
    }
    static func undecryptable(_ channel: String) -> LogText { LogText("Skipping event that failed to decrypt on channel", channel) }
    static func unparsable(_ text: String) -> LogText { LogText("Unable to parse string as JSON:", text) }
    static let memberNotAdded = LogText("Unable to add member to channel")
    static let memberNotRemoved = LogText("Unable to remove member from channel")
    static func notJSON(_ event: String) -> LogText {
        LogText(.error, "The data of the event can't be converted to JSON, so the event isn't sent:", event)
    }

    static func disconnected(_ code: UInt16, _ reason: String?) -> LogText {
        LogText(
            "Websocket is disconnected but no error received", "Close code: \(code)." + (reason.map { " Reason: \($0)." } ?? ""))
    }

    /// - Parameters:
    ///   - delay: The delay in seconds, or `nil` for an attempt without one.
    ///   - attempt: The number of the attempt since the loss, from 1.
    ///   - limit: The maximum number of attempts.
    static func reconnecting(after delay: Double?, attempt: Int, of limit: Int?) -> LogText {
        let count = "(attempt \(attempt)" + (limit.map { " of \($0)" } ?? "") + ")"
        guard let delay else { return LogText("Attempting to reconnect immediately", count) }
        return LogText("Attempting to reconnect after waiting", "\(delay) seconds \(count)")
    }
}

import RealtimeJSON
import RealtimeSystem
package import RealtimeCore

/// Describes frames in a trace: without signatures, tokens, and the user data that signatures cover, but with the data of events.
package struct FrameTrace: Sendable {
    /// The members of the protocol's frames whose values are secrets or are covered by a signature.
    private static let secretMembers: Set<String> = ["auth", "channel_data", "shared_secret", "user_data"]
    private static let errors: Set<String> = [EventName.error, EventName.subscriptionError, EventName.internalSubscriptionError]
    /// The maximum length of the text of a frame, in bytes.
    private static let limit = 4096

    private enum Part {
        /// The data of the application.
        case data
        /// A frame of the protocol.
        case frame
        /// A frame of the protocol with an error, which may quote a signature and the user data that it covers.
        case error
    }

    private let secrets: [String]

    /// Creates a description of frames.
    ///
    /// - Parameter secrets: Texts that are removed wherever they appear, because the server may repeat them.
    package init(secrets: [String] = []) {
        self.secrets = secrets
    }

    /// Returns the text of a message.
    package func text(_ kind: WebSocketMessage.Kind, _ payload: ArraySlice<UInt8>) -> String {
        guard kind == .text else { return "\(kind) of \(payload.count) bytes" }
        guard let json = try? JSONValue(parsing: Array(payload)), case .object(let frame) = json else {
            return "\(payload.count) bytes that aren't a JSON object"
        }
        let text = self.redacted(frame).description
        guard text.utf8.count > Self.limit else { return text }
        return String(decoding: text.utf8.prefix(Self.limit), as: UTF8.self) + "… (\(payload.count) bytes)"
    }

    private func redacted(_ frame: JSONObject) -> JSONValue {
        // In version 2, the protocol's events have another prefix.
        let event = EventName.version7(frame["event"]?.string ?? "")
        guard EventName.isReserved(event) else { return self.redacted(.object(frame), in: .data) }
        var frame = frame
        // The data may be a text that contains JSON.
        if let text = frame["data"]?.string, let data = try? JSONValue(parsing: text) { frame["data"] = data }
        return self.redacted(.object(frame), in: Self.errors.contains(event) ? .error : .frame)
    }

    private func redacted(_ value: JSONValue, in part: Part) -> JSONValue {
        switch value {
        case .object(let members):
            .object(
                JSONObject(
                    members.map { key, value in
                        let isSecret = part != .data && Self.secretMembers.contains(key)
                        return (key, isSecret ? .string("\(Redacted.secret)") : self.redacted(value, in: part))
                    }))
        case .array(let elements): .array(elements.map { self.redacted($0, in: part) })
        case .string(let text):
            .string(
                self.secrets.reduce(part == .error ? ServerError.redacted(text) : text) { text, secret in
                    text.replacingText(secret, with: "\(Redacted.secret)")
                })
        case .null, .bool, .number: value
        }
    }
}

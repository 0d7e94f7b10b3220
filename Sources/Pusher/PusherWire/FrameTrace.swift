import RealtimeCoding
import RealtimeSystem
package import RealtimeCore

/// Describes frames in a trace: without signatures, tokens, and the user data that signatures cover, but with the data of events.
package struct FrameTrace: Sendable {
    /// The members of the protocol's frames whose values are secrets or are covered by a signature.
    private static let secretMembers: Set<String> = ["auth", "channel_data", "shared_secret", "user_data"]
    private static let errors: Set<String> = [EventName.error, EventName.subscriptionError, EventName.internalSubscriptionError]

    private enum Part {
        /// The data of the application.
        case data
        /// A frame of the protocol.
        case frame
        /// A frame of the protocol with an error, which may quote a signature and the user data that it covers.
        case error
    }

    private let filter: SecretFilter

    /// Creates a description of frames.
    ///
    /// - Parameter secrets: Texts that are removed wherever they appear, because the server may repeat them.
    package init(secrets: [String] = []) {
        self.filter = SecretFilter(secrets, replacement: "\(Redacted.secret)")
    }

    /// Returns the text of a message.
    package func text(_ kind: TransportMessage.Kind, _ payload: ArraySlice<UInt8>) -> String {
        guard kind == .text else { return "\(kind) of \(payload.count) bytes" }
        guard let json = try? JSONValue(parsing: Array(payload)), case .object(let frame) = json else {
            return "\(payload.count) bytes that aren't a JSON object"
        }
        return TracedFrame.excerpt(of: self.redacted(frame).description, byteCount: payload.count)
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
            .string(self.filter.redacted(part == .error ? ServerError.redacted(text) : text))
        case .null, .bool, .number: value
        }
    }
}

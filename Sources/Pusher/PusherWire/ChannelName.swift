/// The kind of a channel, as given by the prefix of its name.
public enum PusherChannelKind: Sendable, Hashable {
    /// A public channel. Anyone may subscribe.
    case `public`
    /// A private channel (`private-…`). Subscribing requires authorization by the application server.
    case `private`
    /// A presence channel (`presence-…`). Subscribing requires authorization, and every subscriber receives the list of members.
    case presence
    /// An encrypted channel (`private-encrypted-…`). Subscribing requires authorization, and the service can't read the events.
    case encrypted

    /// Whether subscribing requires authorization by the application server.
    public var needsAuthorization: Bool { self != .public }
    /// Whether clients may send events on the channel.
    public var allowsClientEvents: Bool { self == .private || self == .presence }
}

/// Rules for channel names.
package enum ChannelName {
    package static let maximumLength = 200

    /// Returns the kind of a channel. A prefix counts only with its trailing hyphen.
    package static func kind(of name: String) -> PusherChannelKind {
        if EventName.hasPrefix(name, "private-encrypted-") { return .encrypted }
        if EventName.hasPrefix(name, "private-") { return .private }
        if EventName.hasPrefix(name, "presence-") { return .presence }
        return .public
    }

    /// Returns a message that says why the name is invalid, or `nil` if the name is valid.
    package static func validationError(_ name: String, limit: Int = Self.maximumLength) -> String? {
        if name.isEmpty { return "A channel name must not be empty." }
        let length = name.utf8.count
        if length > limit {
            return "The channel name has \(length) characters; use at most \(limit)."
        }
        for byte in name.utf8 where !self.isAllowed(byte) {
            let quoted = String(reflecting: name)
            return "The channel name \(quoted) contains an invalid character; use letters, digits and _ - = @ , . ;"
        }
        return nil
    }

    /// Whether the text contains the channel name as a whole word, because one channel name may be a prefix of another.
    package static func isNamed(_ name: String, in text: String) -> Bool {
        let (text, name) = (Array(text.utf8), Array(name.utf8))
        guard !name.isEmpty, text.count >= name.count else { return false }
        for start in 0...(text.count - name.count) where text[start..<(start + name.count)].elementsEqual(name) {
            guard start == 0 || !self.isWordPart(text[start - 1]) else { continue }
            // Punctuation after the name ends the word, unless more of a name follows it.
            let rest = text[(start + name.count)...].drop { self.isAllowed($0) && !self.isWordPart($0) }
            if rest.first.map({ !self.isWordPart($0) }) ?? true { return true }
        }
        return false
    }

    private static func isWordPart(_ byte: UInt8) -> Bool {
        self.isAllowed(byte) && byte != UInt8(ascii: ",") && byte != UInt8(ascii: ".") && byte != UInt8(ascii: ";")
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "="), UInt8(ascii: "@"), UInt8(ascii: ","), UInt8(ascii: "."),
            UInt8(ascii: ";"):
            true
        default: false
        }
    }
}

import RealtimeCore

/// The kind of a channel, as given by the prefix of its name.
///
/// Cache channels remember the last event that a server published. A client that subscribes receives it right away, or the event
/// `pusher:cache_miss` if there is none.
public enum PusherChannelKind: Sendable, Hashable {
    /// A public channel. Anyone may subscribe.
    case `public`
    /// A private channel (`private-…`). Subscribing requires authorization by the application server.
    case `private`
    /// A presence channel (`presence-…`). Subscribing requires authorization, and every subscriber receives the list of members.
    case presence
    /// An encrypted channel (`private-encrypted-…`). Subscribing requires authorization, and the service can't read the events.
    case encrypted
    /// A public channel with a cache (`cache-…`).
    case cache
    /// A private channel with a cache (`private-cache-…`).
    case privateCache
    /// A presence channel with a cache (`presence-cache-…`).
    case presenceCache
    /// An encrypted channel with a cache (`private-encrypted-cache-…`).
    case encryptedCache

    /// Whether subscribing requires authorization by the application server.
    public var needsAuthorization: Bool {
        switch self {
        case .public, .cache: false
        case .private, .presence, .encrypted, .privateCache, .presenceCache, .encryptedCache: true
        }
    }

    /// Whether clients may send events on the channel.
    public var allowsClientEvents: Bool {
        switch self {
        case .private, .presence, .privateCache, .presenceCache: true
        case .public, .encrypted, .cache, .encryptedCache: false
        }
    }

    /// Whether the channel has a list of members.
    public var isPresence: Bool { self == .presence || self == .presenceCache }

    /// Whether the events of servers are encrypted.
    public var isEncrypted: Bool { self == .encrypted || self == .encryptedCache }

    /// Whether the channel remembers the last event that a server published.
    public var isCache: Bool {
        switch self {
        case .cache, .privateCache, .presenceCache, .encryptedCache: true
        case .public, .private, .presence, .encrypted: false
        }
    }
}

/// Rules for channel names.
package enum ChannelName {
    package static let maximumLength = 200

    /// Returns the kind of a channel. A prefix counts only with its trailing hyphen.
    package static func kind(of name: String) -> PusherChannelKind {
        if EventName.hasPrefix(name, "private-") {
            if EventName.hasPrefix(name, "private-cache-") { return .privateCache }
            guard EventName.hasPrefix(name, "private-encrypted-") else { return .private }
            return EventName.hasPrefix(name, "private-encrypted-cache-") ? .encryptedCache : .encrypted
        }
        if EventName.hasPrefix(name, "presence-") { return EventName.hasPrefix(name, "presence-cache-") ? .presenceCache : .presence }
        return EventName.hasPrefix(name, "cache-") ? .cache : .public
    }

    /// Returns a message that says why the name is invalid, or `nil` if the name is valid.
    ///
    /// - Parameter checksCharacters: Whether characters that the Pusher service doesn't allow are an error.
    package static func validationError(
        _ name: String, limit: Int = Self.maximumLength, checksCharacters: Bool = true
    ) -> String? {
        if name.isEmpty { return "A channel name must not be empty." }
        let length = name.utf8.count
        if length > limit {
            return "The channel name has \(length) characters; use at most \(limit)."
        }
        guard checksCharacters else { return nil }
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

    fileprivate static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "="), UInt8(ascii: "@"), UInt8(ascii: ","), UInt8(ascii: "."),
            UInt8(ascii: ";"):
            true
        default: false
        }
    }
}

/// Rules for the IDs of users who sign in. Such an ID is a part of the name of the user's channel.
package enum UserID {
    package static let maximumLength = 128
    private static let channelPrefix = "#server-to-user-"

    /// Returns a message that says why the ID is invalid, or `nil` if it is valid.
    ///
    /// - Parameter checksCharacters: Whether characters that the Pusher service doesn't allow are an error.
    package static func validationError(_ id: String, limit: Int = Self.maximumLength, checksCharacters: Bool = true) -> String? {
        if id.isEmpty { return "A user ID must not be empty." }
        guard checksCharacters else {
            let length = id.unicodeScalars.count
            return length > limit ? "The user ID has \(length) characters; use at most \(limit)." : nil
        }
        // Only ASCII characters are allowed, so that bytes and characters are the same.
        guard id.utf8.allSatisfy(ChannelName.isAllowed) else {
            let quoted = String(reflecting: Excerpt.of(id, limit: limit))
            return "The user ID \(quoted) contains an invalid character; use letters, digits and _ - = @ , . ;"
        }
        return id.utf8.count > limit ? "The user ID has \(id.utf8.count) characters; use at most \(limit)." : nil
    }

    /// Returns the name of the channel whose events a user receives on all connections.
    package static func channel(of id: String) -> String { self.channelPrefix + id }

    /// Returns the ID of the user to whom a channel belongs, or `nil` if it is an ordinary channel.
    package static func user(ofChannel name: String) -> String? {
        guard name.utf8.starts(with: self.channelPrefix.utf8) else { return nil }
        return String(decoding: name.utf8.dropFirst(self.channelPrefix.utf8.count), as: UTF8.self)
    }
}

extension ChannelName {
    /// Returns a message that says why the name is invalid, or `nil` if the name is valid.
    ///
    /// - Parameter allowsUsers: Whether the name may be the name of a user's channel, on which servers publish.
    package static func validationError(
        _ name: String, limit: Int = Self.maximumLength, checksCharacters: Bool = true, allowsUsers: Bool
    ) -> String? {
        guard allowsUsers, checksCharacters, let userID = UserID.user(ofChannel: name) else {
            return self.validationError(name, limit: limit, checksCharacters: checksCharacters)
        }
        guard name.utf8.count <= limit else { return "The channel name has \(name.utf8.count) characters; use at most \(limit)." }
        return UserID.validationError(userID, limit: limit).map { _ in
            "The channel name \(String(reflecting: name)) contains no valid user ID; use letters, digits and _ - = @ , . ;"
        }
    }
}

/// What a channel's name says about it.
public enum PusherChannelKind: Sendable, Hashable {
    /// Anybody may subscribe.
    case `public`
    /// `private-…`: the application's server has to allow it.
    case `private`
    /// `presence-…`: as private, and everybody knows who is there.
    case presence
    /// `private-encrypted-…`: as private, and the service cannot read the events.
    case encrypted

    /// Whether subscribing needs the application's server.
    public var needsAuthorization: Bool { self != .public }
    /// Whether clients may send events on it themselves.
    public var allowsClientEvents: Bool { self == .private || self == .presence }
}

/// Rules for channels' names.
package enum ChannelName {
    package static let maximumLength = 200

    /// By its prefix, with the dash.
    package static func kind(of name: String) -> PusherChannelKind {
        if name.hasPrefix("private-encrypted-") { return .encrypted }
        if name.hasPrefix("private-") { return .private }
        if name.hasPrefix("presence-") { return .presence }
        return .public
    }

    /// What is wrong with the name; `nil` when nothing is.
    package static func problem(_ name: String) -> String? {
        if name.isEmpty { return "A channel's name cannot be empty." }
        if name.utf8.count > self.maximumLength { return "A channel's name has at most \(self.maximumLength) characters." }
        for byte in name.utf8 where !self.isAllowed(byte) {
            let quoted = String(reflecting: name)
            return "The channel name \(quoted) holds a character that is not allowed; use letters, digits and _ - = @ , . ;"
        }
        return nil
    }

    /// Whether a text names the channel: as a whole word, since one channel's name may begin with another's.
    package static func isNamed(_ name: String, in words: String) -> Bool {
        let (text, name) = (Array(words.utf8), Array(name.utf8))
        guard !name.isEmpty, text.count >= name.count else { return false }
        for start in 0...(text.count - name.count) where text[start..<(start + name.count)].elementsEqual(name) {
            guard start == 0 || !self.isWordPart(text[start - 1]) else { continue }
            // A full stop after the name ends the sentence, unless the name goes on behind it.
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

import RealtimeSystem

/// Encodes each large message once for all clients that receive it, in whatever order they ask for several messages.
///
/// The encoded forms of the messages that were asked for last are kept, up to a limit.
package final class SharedEncoding: Sendable {
    private typealias Entry = (message: [UInt8], encoded: [UInt8])

    /// The number of bytes that are kept: those of messages and of their encoded forms.
    private static let limit = 32 << 20

    /// The entry that was used last is the last one.
    private let entries = Lock<[Entry]>([])

    package init() {}

    /// Returns the encoded bytes of a message. All calls must encode in the same way.
    package func encode(_ message: [UInt8], _ encode: ([UInt8]) -> [UInt8]) -> [UInt8] {
        guard SharedBody.isLarge(message) else { return encode(message) }
        if let known = self.entries.withLock({ Self.use(message, &$0) }) { return known }
        let encoded = encode(message)
        guard message.count + encoded.count <= Self.limit else { return encoded }
        // Released outside the lock.
        let earlier = self.entries.withLock { entries in
            defer { Self.add((message, encoded), to: &entries) }
            return entries
        }
        _ = earlier
        return encoded
    }

    /// Forgets all messages, because no client waits for them.
    package func removeAll() {
        // Released outside the lock.
        let earlier = self.entries.withLock { entries in
            defer { entries = [] }
            return entries
        }
        _ = earlier
    }

    private static func use(_ message: [UInt8], _ entries: inout [Entry]) -> [UInt8]? {
        guard let index = entries.lastIndex(where: { $0.message.isIdentical(to: message) }) else { return nil }
        let entry = entries.remove(at: index)
        entries.append(entry)
        return entry.encoded
    }

    private static func add(_ entry: Entry, to entries: inout [Entry]) {
        entries.append(entry)
        var bytes = 0
        guard
            let last = entries.lastIndex(where: { entry in
                bytes += entry.message.count + entry.encoded.count
                return bytes > self.limit
            })
        else { return }
        entries.removeSubrange(...last)
    }
}

extension [UInt8] {
    /// Whether two arrays are copies of each other that share their memory.
    fileprivate func isIdentical(to other: [UInt8]) -> Bool {
        self.count == other.count && self.withUnsafeBytes { own in other.withUnsafeBytes { $0.baseAddress == own.baseAddress } }
    }
}

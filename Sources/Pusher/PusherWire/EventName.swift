/// The names of the protocol's own events.
package enum EventName {
    package static let connectionEstablished = "pusher:connection_established"
    package static let error = "pusher:error"
    package static let ping = "pusher:ping"
    package static let pong = "pusher:pong"
    package static let subscribe = "pusher:subscribe"
    package static let unsubscribe = "pusher:unsubscribe"
    package static let subscriptionError = "pusher:subscription_error"
    package static let cacheMiss = "pusher:cache_miss"

    package static let subscriptionSucceeded = "pusher_internal:subscription_succeeded"
    package static let internalSubscriptionError = "pusher_internal:subscription_error"
    package static let memberAdded = "pusher_internal:member_added"
    package static let memberRemoved = "pusher_internal:member_removed"
    package static let subscriptionCount = "pusher_internal:subscription_count"

    package static let maximumLength = 200
    /// What a client or a publisher may send at most as an event's data.
    package static let maximumDataSize = 10 << 10

    package static func isClientEvent(_ name: String) -> Bool { self.begins(name, "client-") }

    /// Names that the service keeps to itself.
    package static func isReserved(_ name: String) -> Bool { self.begins(name, "pusher:") || self.begins(name, "pusher_internal:") }

    /// Byte by byte, as servers compare. `hasPrefix` compares characters, which takes several times as long.
    @inline(__always)
    private static func begins(_ name: String, _ prefix: StaticString) -> Bool {
        var name = name
        return name.withUTF8 { $0.count >= prefix.utf8CodeUnitCount && self.isEqual($0, prefix) }
    }

    @inline(__always)
    private static func isEqual(_ bytes: UnsafeBufferPointer<UInt8>, _ prefix: StaticString) -> Bool {
        for index in 0..<prefix.utf8CodeUnitCount where bytes[index] != prefix.utf8Start[index] { return false }
        return true
    }

    /// What is wrong with the name of an event to publish; `nil` when nothing is.
    package static func problem(_ name: String) -> String? {
        if name.isEmpty { return "An event's name cannot be empty." }
        if name.utf8.count > self.maximumLength { return "An event's name has at most \(self.maximumLength) characters." }
        if self.isReserved(name) { return "Names that begin with pusher: or pusher_internal: belong to the service; use another." }
        return nil
    }
}

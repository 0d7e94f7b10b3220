/// The names of the protocol's events, and rules for event names.
package enum EventName {
    package static let connectionEstablished = "pusher:connection_established"
    package static let error = "pusher:error"
    package static let ping = "pusher:ping"
    package static let pong = "pusher:pong"
    package static let subscribe = "pusher:subscribe"
    package static let unsubscribe = "pusher:unsubscribe"
    package static let subscriptionError = "pusher:subscription_error"
    package static let cacheMiss = "pusher:cache_miss"
    package static let signIn = "pusher:signin"
    package static let signInSucceeded = "pusher:signin_success"

    package static let subscriptionSucceeded = "pusher_internal:subscription_succeeded"
    package static let internalSubscriptionError = "pusher_internal:subscription_error"
    package static let memberAdded = "pusher_internal:member_added"
    package static let memberRemoved = "pusher_internal:member_removed"
    package static let subscriptionCount = "pusher_internal:subscription_count"
    package static let watchlistEvents = "pusher_internal:watchlist_events"

    // Events of version 2, which sockudo has added. A server accepts either prefix.
    package static let resume = "pusher:resume"
    package static let resumeSucceeded = "pusher:resume_success"
    package static let resumeFailed = "pusher:resume_failed"
    package static let enableDeltaCompression = "pusher:enable_delta_compression"
    package static let deltaCompressionEnabled = "pusher:delta_compression_enabled"
    package static let delta = "pusher:delta"
    package static let deltaCacheSync = "pusher:delta_cache_sync"
    package static let deltaSyncError = "pusher:delta_sync_error"

    package static let maximumLength = 200
    /// The maximum size of an event's data, in bytes.
    package static let maximumDataSize = 10 << 10

    /// Returns the name under which an event of the service is known to users, such as `pusher:member_added`, or `nil` if it isn't theirs.
    package static func publicName(of name: String) -> String? {
        switch name {
        case self.subscriptionSucceeded: "pusher:subscription_succeeded"
        case self.internalSubscriptionError: self.subscriptionError
        case self.memberAdded: "pusher:member_added"
        case self.memberRemoved: "pusher:member_removed"
        case self.subscriptionCount: "pusher:subscription_count"
        default: self.hasPrefix(name, "pusher:") ? name : nil
        }
    }

    /// Whether the name has the prefix of events that clients send to each other.
    package static func isClientEvent(_ name: String) -> Bool { self.hasPrefix(name, "client-") }

    /// Whether the name has a prefix that is reserved for the service.
    package static func isReserved(_ name: String) -> Bool { self.hasPrefix(name, "pusher:") || self.hasPrefix(name, "pusher_internal:") }

    /// Returns the name that an event of version 2 has in version 7: `pusher:error` for `sockudo:error`. Other names stay the same.
    package static func version7(_ name: String) -> String {
        guard self.isReservedInVersion2(name) else { return name }
        return "pusher" + name.dropFirst("sockudo".utf8.count)
    }

    /// Whether the name has a prefix that is reserved for the service in version 2, in addition to the prefixes of version 7.
    package static func isReservedInVersion2(_ name: String) -> Bool {
        self.hasPrefix(name, "sockudo:") || self.hasPrefix(name, "sockudo_internal:")
    }

    /// Compares bytes, as servers do. `hasPrefix` compares characters, which takes several times as long.
    @inline(__always)
    static func hasPrefix(_ name: String, _ prefix: StaticString) -> Bool {
        var name = name
        return name.withUTF8 { $0.count >= prefix.utf8CodeUnitCount && self.isEqual($0, prefix) }
    }

    @inline(__always)
    private static func isEqual(_ bytes: UnsafeBufferPointer<UInt8>, _ prefix: StaticString) -> Bool {
        for index in 0..<prefix.utf8CodeUnitCount where bytes[index] != prefix.utf8Start[index] { return false }
        return true
    }

    /// Returns a message that says why an event with this name cannot be published, or `nil` if it can.
    package static func validationError(_ name: String, limit: Int = Self.maximumLength) -> String? {
        if name.isEmpty { return "An event name must not be empty." }
        let length = name.utf8.count
        if length > limit { return "The event name has \(length) characters; use at most \(limit)." }
        if self.isReserved(name) { return "Event names that start with pusher: or pusher_internal: are reserved; use another name." }
        return nil
    }
}

/// Limits of a request that publishes events.
package enum PublicationLimit {
    /// The maximum number of channels of an event.
    package static let channels = 100
    /// The maximum number of events in a batch.
    package static let events = 10
}

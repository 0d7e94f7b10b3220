import PusherWire
import RealtimeCore

/// The keys of encrypted channels, and the events that wait for new ones.
///
/// A key comes with each authorization. The session requests further ones, in the order of its other authorizations; see
/// ``ChannelDecryption``.
struct ChannelKeys: Sendable {
    /// An event after its decryption.
    enum Event: Sendable {
        case decrypted(EventNames, String)
        case failed(PusherError)
    }

    enum Reception: Sendable {
        case deliver(String)
        case fail(PusherError)
        case wait
        /// The event waits for a new key, which must be requested now.
        case reload
        /// The channel has no key: the event belongs to a subscription that is no longer wanted.
        case ignore
    }

    private var channels = ChannelMap<ChannelDecryption>()
    /// Draws the delays between requests for keys.
    private var generator: SplitMix64

    init(seed: UInt64) {
        self.generator = SplitMix64(seed: seed)
    }

    /// Returns the key that an authorization contains.
    static func key(in authorization: PusherChannelAuthorization, of channel: String) throws(PusherError) -> EncryptionKey {
        func invalid(_ reason: String) -> PusherError {
            .authorizationFailed(channel, "", "the \"shared_secret\" of an encrypted channel \(reason).")
        }
        guard let secret = authorization.sharedSecret else { throw invalid("is missing") }
        do throws(EncryptionError) {
            return try EncryptionKey(base64: secret)
        } catch {
            throw invalid("is invalid: \(error)")
        }
    }

    /// Receives an event of an encrypted channel.
    mutating func received(_ names: EventNames, _ data: [UInt8], on id: ChannelID, now: Instant) -> Reception {
        let event = ChannelDecryption.WaitingEvent(names: names, data: data)
        switch self.channels[id]?.received(event, now: now) {
        case .deliver(let text): return .deliver(text)
        case .fail(let reason): return .fail(Self.failure(event, reason))
        case .wait: return .wait
        case .reload: return .reload
        case nil: return .ignore
        }
    }

    /// Whether a new key must be requested as soon as the channel is subscribed.
    func mustReload(_ id: ChannelID) -> Bool { self.channels[id]?.state == .reloading(nil) }

    /// Whether an authorization was requested for its key.
    func isReloading(_ id: ChannelID, _ work: WorkID) -> Bool { self.channels[id]?.state == .reloading(work) }

    /// The authorization that brings a new key was requested.
    mutating func started(_ id: ChannelID, _ work: WorkID) { self.channels[id]?.started(work) }

    /// Returns the authorization that is no longer needed for its key. The events still wait.
    mutating func stopReloading(_ id: ChannelID) -> WorkID? { self.channels[id]?.stopLoading() }

    /// Sets the key of a channel.
    ///
    /// - Returns: The events that waited for it, in their order.
    mutating func set(_ key: EncryptionKey, of id: ChannelID, backoff: Backoff, now: Instant) -> [Event] {
        var generator = self.generator
        defer { self.generator = generator }
        let results = self.channels[id]?.loaded(key, now: now) { backoff.delay(failures: $0, minimum: .zero, using: &generator) }
        guard let results else {
            self.channels[id] = ChannelDecryption(key: key)
            return []
        }
        return results.map { event, result in
            switch result {
            case .success(let text): .decrypted(event.names, text)
            case .failure(let reason): .failed(Self.failure(event, reason))
            }
        }
    }

    /// There is no new key for the events that wait for one.
    ///
    /// - Returns: The errors of these events.
    mutating func failed(_ id: ChannelID, backoff: Backoff, now: Instant) -> [PusherError] {
        var generator = self.generator
        defer { self.generator = generator }
        let events = self.channels[id]?.failed(now: now) { backoff.delay(failures: $0, minimum: .zero, using: &generator) } ?? []
        return events.map { Self.failure($0, .keyUnavailable) }
    }

    /// Forgets the key of a channel, without the events that wait for one.
    ///
    /// - Returns: The authorization that is no longer needed for its key.
    @discardableResult
    mutating func removed(_ id: ChannelID) -> WorkID? {
        var removed = self.channels[id].take()
        return removed?.stopLoading()
    }

    private static func failure(_ event: ChannelDecryption.WaitingEvent, _ reason: PusherDecryptionFailure.Reason) -> PusherError {
        let data = String(decoding: event.data, as: UTF8.self)
        let event = PusherEvent(name: event.names.event, channel: event.names.channel, data: data)
        return .decryptionFailed(PusherDecryptionFailure(event: event, reason: reason))
    }
}

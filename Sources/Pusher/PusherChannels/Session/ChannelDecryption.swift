import PusherWire
import RealtimeCore

/// The key of an encrypted channel, and the events that wait for a new one, as a value.
///
/// ```
///   ready ──an event was encrypted with another key──▶ reloading ──the new key fits all events──▶ ready
///     ▲                                                    │
///     │ a new authorization                                │ no new key, or it doesn't fit
///     └───────────────────────── backingOff ◀──────────────┘
/// ```
/// While a key is reloading, all events of the channel wait, so that they keep their order. In `backingOff`, events that can't be decrypted
/// fail immediately until the delay has passed: otherwise, a channel whose publishers have different keys would reload for every event. For
/// the same reason, events that can be decrypted don't end the delay.
///
/// While an application changes its key, some publishers still use the previous one. It therefore remains valid for ``previousKeyLifetime``.
struct ChannelDecryption: Sendable {
    enum State: Hashable, Sendable {
        case ready
        /// The work is `nil` while it waits to start, and after a loss, when the authorization of the next subscription takes its place.
        case reloading(WorkID?)
        case backingOff(until: Instant)
    }

    struct WaitingEvent: Sendable {
        var names: EventNames
        var data: [UInt8]
    }

    /// The decision about an event.
    enum Action: Sendable {
        case deliver(String)
        case fail(PusherDecryptionFailure.Reason)
        case wait
        /// The event waits for a new key, which must be loaded now.
        case reload
    }

    /// The limits of what waits for a new key.
    static let countLimit = 1_000, byteLimit = 1 << 20
    /// How long events that were encrypted with the previous key are decrypted after a new key was loaded.
    static let previousKeyLifetime = Duration.seconds(600)

    private(set) var state = State.ready
    private var key: EncryptionKey
    private var previous: (key: EncryptionKey, until: Instant)?
    private var waiting: [WaitingEvent] = []
    private var waitingBytes = 0
    /// The number of reloads in a row that didn't help.
    private(set) var failures = 0

    init(key: EncryptionKey) {
        self.key = key
    }

    mutating func received(_ event: WaitingEvent, now: Instant) -> Action {
        switch self.state {
        case .reloading: return self.wait(event) ? .wait : .fail(.tooManyEvents)
        case .ready, .backingOff: break
        }
        switch self.decrypt(event, now: now) {
        case .success(let text): return .deliver(text)
        case .failure(.wrongKey):
            if case .backingOff(let until) = self.state, now < until { return .fail(.wrongKey) }
            self.state = .reloading(nil)
            _ = self.wait(event)
            return .reload
        case .failure(let reason): return .fail(reason)
        }
    }

    /// The work that loads the key has started.
    mutating func started(_ work: WorkID) { self.state = .reloading(work) }

    /// Stops the work that loads the key. The events still wait.
    mutating func stopLoading() -> WorkID? {
        guard case .reloading(let work?) = self.state else { return nil }
        self.state = .reloading(nil)
        return work
    }

    /// Decrypts the events that waited for this key.
    ///
    /// - Parameter delay: Returns the delay until the next reload, for the number of reloads in a row that didn't help.
    mutating func loaded(
        _ key: EncryptionKey, now: Instant, delay: (Int) -> Duration
    ) -> [(WaitingEvent, Result<String, PusherDecryptionFailure.Reason>)] {
        if key != self.key { self.previous = (self.key, now.advanced(by: Self.previousKeyLifetime)) }
        self.key = key
        let results = self.takeWaiting().map { ($0, self.decrypt($0, now: now)) }
        if results.contains(where: { if case (_, .failure(.wrongKey)) = $0 { true } else { false } }) {
            self.backOff(now: now, delay)
        } else {
            (self.state, self.failures) = (.ready, 0)
        }
        return results
    }

    /// The key couldn't be loaded. Returns the events that waited for it.
    mutating func failed(now: Instant, delay: (Int) -> Duration) -> [WaitingEvent] {
        guard case .reloading = self.state else { return [] }
        self.backOff(now: now, delay)
        return self.takeWaiting()
    }

    private mutating func backOff(now: Instant, _ delay: (Int) -> Duration) {
        self.failures += 1
        self.state = .backingOff(until: now.advanced(by: delay(self.failures)))
    }

    private mutating func wait(_ event: WaitingEvent) -> Bool {
        guard self.waiting.count < Self.countLimit, self.waitingBytes + event.data.count <= Self.byteLimit || self.waiting.isEmpty else {
            return false
        }
        self.waiting.append(event)
        self.waitingBytes += event.data.count
        return true
    }

    private mutating func takeWaiting() -> [WaitingEvent] {
        defer { (self.waiting, self.waitingBytes) = ([], 0) }
        return self.waiting
    }

    private mutating func decrypt(_ event: WaitingEvent, now: Instant) -> Result<String, PusherDecryptionFailure.Reason> {
        if let previous, previous.until <= now { self.previous = nil }
        do throws(EncryptionError) {
            let payload = try EncryptedPayload(parsing: event.data)
            do throws(EncryptionError) {
                return .success(try payload.decrypt(key: self.key))
            } catch {
                guard error == .wrongKey, let previous else { throw error }
                return .success(try payload.decrypt(key: previous.key))
            }
        } catch {
            return .failure(error == .wrongKey ? .wrongKey : .invalidData)
        }
    }
}

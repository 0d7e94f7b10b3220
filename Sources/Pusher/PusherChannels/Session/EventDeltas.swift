import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// Whether the client requests events as deltas, and the events that deltas refer to.
struct EventDeltas: Sendable {
    enum Support: Hashable, Sendable {
        case off, on
        /// The server uses an algorithm that the client doesn't have.
        case refused
    }

    /// The channel that the base of a delta belongs to.
    enum Owner: Hashable, Sendable {
        case channel(ChannelID)
        /// The user who is signed in, and has a channel that isn't one of the application.
        case user
    }

    /// The result of a delta.
    enum Restoration: Hashable, Sendable {
        /// The text of the frame of the complete event.
        case restored([UInt8])
        /// The client doesn't have the algorithm.
        case unsupported(algorithm: String)
        /// The event can't be restored.
        case failed(reason: String)
    }

    private(set) var support: Support
    private var channels = ChannelMap<DeltaBases>()
    private var user: DeltaBases?

    init(isRequested: Bool) {
        self.support = isRequested ? .on : .off
    }

    /// Applies a change of the settings.
    mutating func changed(isRequested: Bool, isOtherServer: Bool) {
        if !isRequested {
            self.support = .off
        } else if self.support == .off || isOtherServer {
            self.support = .on
        }
    }

    /// Returns the algorithm in `delta_compression_enabled` if the client doesn't have it.
    static func unsupportedAlgorithm(in data: JSONValue) -> String? {
        guard let algorithm = data["algorithm"]?.string, algorithm != DeltaPayload.fossil else { return nil }
        return algorithm
    }

    /// The client continues without deltas, because it doesn't have an algorithm.
    ///
    /// - Returns: The error to report.
    mutating func refuse(_ algorithm: String) -> PusherError {
        self.support = .refused
        let name = Excerpt.of(algorithm, limit: 40)
        let message = "The server compresses events with \(name), which the client doesn't support. It reconnects without deltaCompression."
        return PusherError(.deltaFailed, message)
    }

    /// Keeps the text of a complete event, to which later deltas refer.
    mutating func keep(_ event: String, _ sequence: FrameSequence, of owner: Owner) {
        self.set(DeltaBases.Base(event, group: sequence.group, sequence: sequence.number, text: sequence.text), of: owner)
    }

    /// Keeps the events in `delta_cache_sync`: the last ones of a channel, to which the first deltas refer.
    mutating func keep(_ data: JSONValue, of owner: Owner) {
        let hasGroups = data["conflation_key"]?.string != nil
        for (key, events) in data["states"]?.object ?? JSONObject() {
            guard let last = events.array?.last, let sequence = last["seq"]?.int, let text = last["content"]?.string,
                let event = (try? JSONValue(parsing: text))?["event"]?.string
            else { continue }
            self.set(DeltaBases.Base(event, group: hasGroups ? key : nil, sequence: sequence, text: Array(text.utf8)), of: owner)
        }
    }

    /// Restores an event.
    ///
    /// - Parameter limit: The maximum size of its text.
    mutating func restore(_ delta: DeltaPayload, of owner: Owner, limit: Int) -> Restoration {
        guard delta.algorithm == DeltaPayload.fossil else { return .unsupported(algorithm: delta.algorithm) }
        guard let base = self.base(of: delta, owner), let text = base.text, delta.base == nil || delta.base == base.sequence else {
            return .failed(reason: "the event that it refers to is unknown")
        }
        do throws(FossilDeltaError) {
            let result = try FossilDelta.apply(delta.delta, to: text, limit: limit)
            guard String(validUTF8: result) != nil else { return .failed(reason: "the result isn't valid UTF-8") }
            self.set(DeltaBases.Base(delta.event, group: delta.group, sequence: delta.sequence, text: result), of: owner)
            return .restored(result)
        } catch {
            return .failed(reason: "\(error)")
        }
    }

    /// Forgets the text that a delta refers to, which couldn't be applied.
    ///
    /// - Returns: Whether to ask the server for a complete event: `false` if it has been asked already.
    mutating func failed(_ delta: DeltaPayload, of owner: Owner) -> Bool {
        let base = self.base(of: delta, owner)
        self.set(DeltaBases.Base(delta.event, group: delta.group, sequence: delta.sequence, text: nil), of: owner)
        return base == nil || base?.text != nil
    }

    /// The subscription was lost or removed.
    mutating func ended(_ id: ChannelID) { self.channels[id] = nil }

    /// The user's sign-in was lost.
    mutating func userEnded() { self.user = nil }

    /// Whether there are events that deltas can refer to.
    func hasBases(of owner: Owner) -> Bool {
        switch owner {
        case .channel(let id): self.channels[id] != nil
        case .user: self.user != nil
        }
    }

    private func base(of delta: DeltaPayload, _ owner: Owner) -> DeltaBases.Base? {
        switch owner {
        case .channel(let id): self.channels[id]?.base(delta.event, group: delta.group)
        case .user: self.user?.base(delta.event, group: delta.group)
        }
    }

    private mutating func set(_ base: DeltaBases.Base, of owner: Owner) {
        switch owner {
        case .channel(let id): self.channels[id, default: DeltaBases()].set(base)
        case .user:
            if self.user == nil { self.user = DeltaBases() }
            self.user?.set(base)
        }
    }
}

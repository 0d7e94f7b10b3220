import PusherWire
import RealtimeCore
import RealtimeSystem

/// Filters, and events that are sent as deltas.
extension PusherServerMachine {
    /// Sets a subscription that isn't one of a member.
    mutating func setSubscription(_ id: ConnectionID, _ name: ByteString, _ filter: PusherFilter?, number: UInt64) {
        self.updateEstablished(id) { established in
            established.subscriptions[name] = filter.map { .filtered($0, number: number) } ?? .subscribed(number: number)
        }
    }

    /// Whether a subscriber receives an event with these tags.
    func passesFilter(of id: ConnectionID, on name: ByteString, _ tags: EventTags?) -> Bool {
        guard self.app.allowsFilters, case .filtered(let filter, _) = self.connections[id]?.subscription(to: name) else {
            return true
        }
        return filter.matches(tags)
    }

    // MARK: Deltas

    mutating func enableDeltaCompression(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        // Like sockudo, which confirms the request with version 7 as well, and then sends complete events.
        if self.connections[id]?.isVersion2 == true { self.updateEstablished(id) { $0.deltas = DeltaBases() } }
        self.send(PusherFrames.deltaCompressionEnabled(), to: id, &effects)
    }

    /// An event for several subscribers, some of whom receive it as a delta. What they have in common is computed once.
    struct CompressibleEvent {
        /// The largest number of deltas between two complete events, as in sockudo's default settings.
        private static let deltaLimit = 10
        /// The number of texts whose deltas are kept. Usually, there is one: subscribers have received the same events before, unless
        /// they have different filters.
        private static let baseLimit = 8

        private struct Key: Hashable {
            var sequence: Int
            /// The index of the delta, or `nil` for the complete event.
            var delta: Int?
        }

        private let event: String
        private let channel: String
        private let message: TransportMessage
        /// The deltas, or `nil` where the event is smaller.
        private var deltas: [(base: [UInt8], delta: [UInt8]?)] = []
        private var frames: [Key: TransportMessage] = [:]

        /// - Parameter message: The frame in version 2, because a client compares what it receives.
        init(_ message: TransportMessage, _ event: String, on channel: String) {
            (self.message, self.event, self.channel) = (message, event, channel)
        }

        /// Returns the frame for a subscriber: a delta, if it knows an earlier event of the same name.
        ///
        /// - Parameter bases: The events that the subscriber knows.
        mutating func frame(_ bases: inout DeltaBases) -> TransportMessage {
            let earlier = bases.base(self.event, group: self.channel)
            let sequence = (earlier?.sequence ?? -1) + 1
            var base = DeltaBases.Base(self.event, group: self.channel, sequence: sequence, text: self.message.bytes)
            // Like sockudo, which sends the first two events completely.
            if sequence > 1, let earlier, let text = earlier.text, earlier.deltaCount < Self.deltaLimit,
                let frame = self.delta(from: text, sequence)
            {
                base.deltaCount = earlier.deltaCount + 1
                bases.set(base)
                return frame
            }
            bases.set(base)
            return self.frame(Key(sequence: sequence, delta: nil))
        }

        /// Returns the event as a delta, or `nil` if that isn't smaller.
        private mutating func delta(from base: [UInt8], _ sequence: Int) -> TransportMessage? {
            // Texts that subscribers share are equal without a comparison of their bytes.
            var index = self.deltas.firstIndex { $0.base == base }
            if index == nil {
                let delta = FossilDelta.make(self.message.bytes, from: base)
                // The last one is replaced.
                if self.deltas.count == Self.baseLimit {
                    self.deltas.removeLast()
                    self.frames = [:]
                }
                self.deltas.append((base, delta.count < self.message.bytes.count ? delta : nil))
                index = self.deltas.count - 1
            }
            guard let index, self.deltas[index].delta != nil else { return nil }
            return self.frame(Key(sequence: sequence, delta: index))
        }

        private mutating func frame(_ key: Key) -> TransportMessage {
            if let frame = self.frames[key] { return frame }
            var frame: TransportMessage
            if let delta = key.delta.flatMap({ self.deltas[$0].delta }) {
                frame = PusherFrames.delta(self.event, channel: self.channel, delta, sequence: key.sequence, base: key.sequence - 1)
                frame = PusherFrames.version2(frame)
            } else {
                frame = PusherFrames.sequenced(self.message, key.sequence)
            }
            self.frames[key] = frame
            return frame
        }
    }
}

extension PusherServerMachine.Established {
    /// Changes the events that the client knows, if it has requested deltas.
    mutating func withDeltas(_ change: (inout DeltaBases) -> Void) {
        guard var deltas = self.deltas else { return }
        // The connection doesn't share them meanwhile, so that they aren't copied.
        self.deltas = nil
        change(&deltas)
        self.deltas = deltas
    }
}

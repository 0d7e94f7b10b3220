import RealtimeEncoding
import RealtimeSystem
package import RealtimeCore
package import RealtimeCoding

/// Frames of tags and of deltas between events, which sockudo has added.
extension PusherFrames {
    // MARK: Client to server

    /// A request to send events as deltas. sockudo ignores the algorithms, and uses the algorithm of its settings.
    package static let enableDeltaCompression = TransportMessage.text(
        #"{"event":"pusher:enable_delta_compression","data":{"algorithms":["fossil"]}}"#)

    /// Returns a request for complete events of a channel, because a delta couldn't be applied.
    package static func deltaSyncError(_ channel: String) -> TransportMessage {
        self.nested(EventName.deltaSyncError, as: .json) { data in
            data.key("channel")
            data.value(channel)
        }
    }

    // MARK: Server to client

    package static func deltaCompressionEnabled() -> TransportMessage {
        self.nested(EventName.deltaCompressionEnabled, as: .json) { data in
            data.key("enabled")
            data.value(true)
            data.key("algorithm")
            data.value(DeltaPayload.fossil)
        }
    }

    /// Returns an event as a delta from an earlier one.
    ///
    /// - Parameters:
    ///   - sequence: The number of the event.
    ///   - base: The number of the earlier event.
    package static func delta(_ event: String, channel: String, _ delta: [UInt8], sequence: Int, base: Int) -> TransportMessage {
        self.nested(EventName.delta, channel: channel, as: .json) { data in
            data.key("event")
            data.value(event)
            data.key("delta")
            data.value(Base64.encode(delta))
            data.key("seq")
            data.value(sequence)
            data.key("algorithm")
            data.value(DeltaPayload.fossil)
            data.key("base_index")
            data.value(base)
        }
    }

    /// Adds the number of a complete event, to which later deltas refer, to a frame that an embedded server has encoded.
    package static func sequenced(_ message: TransportMessage, _ sequence: Int) -> TransportMessage {
        self.adding(to: message) { bytes in
            JSONWriter.append(literal: #""__delta_seq":"#, to: &bytes)
            bytes += "\(sequence)".utf8
        }
    }

    /// Adds the tags of an event to a frame that an embedded server has encoded.
    package static func tagged(_ message: TransportMessage, _ tags: EventTags) -> TransportMessage {
        self.adding(to: message) { bytes in
            JSONWriter.append(literal: #""tags":"#, to: &bytes)
            var json = JSONWriter(bytes)
            tags.append(to: &json)
            bytes = json.bytes
        }
    }

    private static func adding(to message: TransportMessage, _ append: (inout [UInt8]) -> Void) -> TransportMessage {
        var bytes = message.bytes
        bytes.removeLast()
        bytes.append(UInt8(ascii: ","))
        append(&bytes)
        bytes.append(UInt8(ascii: "}"))
        return TransportMessage(.text, bytes)
    }
}

/// The data of `pusher:delta`: an event as a delta.
package struct DeltaPayload: Sendable {
    package static let fossil = "fossil"

    package var event: String
    /// The number of the event.
    package var sequence: Int
    /// The number of the event that the delta refers to, or `nil` for the last one.
    package var base: Int?
    /// The conflation key: what the server considers the same object, whose events it compares with each other.
    package var group: String?
    package var algorithm: String
    package var delta: [UInt8]

    package init(_ data: JSONValue) throws(PusherFrameError) {
        guard let event = data["event"]?.string else { throw .missing("event") }
        guard let sequence = data["seq"]?.int else { throw .missing("seq") }
        guard let delta = data["delta"]?.string.flatMap({ Base64.decode($0) }) else { throw .missing("delta") }
        (self.event, self.sequence, self.delta) = (event, sequence, delta)
        self.base = data["base_index"]?.int
        self.group = data["conflation_key"]?.string
        self.algorithm = data["algorithm"]?.string ?? Self.fossil
    }
}

/// The number of a complete event, to which later deltas refer.
package struct FrameSequence {
    private static let keys = JSONKeys("__delta_seq", "__conflation_key")

    package let number: Int
    /// The conflation key.
    package let group: String?
    /// The text of the frame without the number and the conflation key: the text that deltas refer to.
    package let text: [UInt8]

    /// Returns the number in a frame, or `nil` if it has none.
    ///
    /// Like ``FramePosition``, it scans the text a second time.
    package init?(_ frame: PusherFrame) {
        guard let scan = try? JSONObjectScan(frame.bytes, keys: Self.keys, isUTF8: true), scan[0].kind.isNumber,
            let number = Int(String(decoding: UnsafeRawBufferPointer(rebasing: frame.bytes[scan[0].range]), as: UTF8.self))
        else { return nil }
        self.number = number
        var text = Array(frame.bytes)
        var removed: [Range<Int>] = [Self.member(#","__delta_seq":"#, scan[0].range)]
        if scan[1].kind.isString {
            self.group = JSONText.string(scan[1], in: frame.bytes)
            let range = Self.member(#","__conflation_key":""#, scan[1].range)
            removed.append(range.lowerBound..<range.upperBound + 1)
        } else {
            self.group = nil
        }
        for range in removed.sorted(by: { $0.lowerBound > $1.lowerBound }) {
            // With other spaces, or as the first member, it isn't the text of sockudo.
            guard range.lowerBound > 0, text[range.lowerBound] == UInt8(ascii: ","), text[range.lowerBound + 1] == UInt8(ascii: "\"") else {
                return nil
            }
            text.removeSubrange(range)
        }
        self.text = text
    }

    /// Returns the range of a member with the comma before it.
    private static func member(_ start: StaticString, _ value: Range<Int>) -> Range<Int> {
        (value.lowerBound - start.utf8CodeUnitCount)..<value.upperBound
    }
}

/// The texts that deltas refer to: the last one of each event and conflation key.
package struct DeltaBases: Sendable {
    package struct Base: Sendable {
        fileprivate let event: ByteString
        fileprivate let group: ByteString?
        /// The number of the event.
        package var sequence: Int
        /// The text, or `nil` if it is unknown, and the server has been asked for a complete event.
        package var text: [UInt8]?
        /// The number of deltas since the last complete event.
        package var deltaCount = 0
        fileprivate var use: UInt64 = 0

        package init(_ event: String, group: String?, sequence: Int, text: [UInt8]?) {
            self.event = ByteString(event)
            self.group = group.map { ByteString($0) }
            self.sequence = sequence
            self.text = text
        }
    }

    /// The limits, which bound the memory that a server can use. The texts that were used least recently are removed first.
    package static let countLimit = 1_000, byteLimit = 4 << 20

    private struct Use: Sendable {
        var event: ByteString
        var group: ByteString?
        var number: UInt64
    }

    /// The texts by conflation key, and then by event, so that those with a conflation key are removed without a search.
    private var groups: [ByteString?: SmallDictionary<ByteString, Base>] = [:]
    private var count = 0, bytes = 0
    /// When texts were used, oldest first. Before the index `firstUse`, and where a text has another number or none, they are outdated.
    private var uses: [Use] = []
    private var firstUse = 0
    private var lastUse: UInt64 = 0

    package init() {}

    package func base(_ event: String, group: String?) -> Base? {
        self.groups[group.map { ByteString($0) }]?[ByteString(event)]
    }

    /// Replaces a text. Takes constant time on average.
    package mutating func set(_ base: Base) {
        var base = base
        self.lastUse += 1
        base.use = self.lastUse
        self.remove(base.event, base.group)
        self.groups[base.group, default: SmallDictionary()][base.event] = base
        self.count += 1
        self.bytes += base.text?.count ?? 0
        self.uses.append(Use(event: base.event, group: base.group, number: base.use))
        while self.count > Self.countLimit || self.bytes > Self.byteLimit && self.count > 1 { self.removeOldest() }
        // Bounds the memory for outdated uses to that for current ones.
        guard self.uses.count > 2 * self.count + 16 else { return }
        self.uses = self.uses[self.firstUse...].filter { self.isCurrent($0) }
        self.firstUse = 0
    }

    /// Removes the texts with a conflation key.
    package mutating func remove(group: String) {
        for (_, base) in self.groups.removeValue(forKey: ByteString(group))?.entries ?? [] {
            self.count -= 1
            self.bytes -= base.text?.count ?? 0
        }
    }

    private func isCurrent(_ use: Use) -> Bool { self.groups[use.group]?[use.event]?.use == use.number }

    private mutating func removeOldest() {
        while !self.isCurrent(self.uses[self.firstUse]) { self.firstUse += 1 }
        self.remove(self.uses[self.firstUse].event, self.uses[self.firstUse].group)
        self.firstUse += 1
    }

    private mutating func remove(_ event: ByteString, _ group: ByteString?) {
        guard let removed = self.groups[group]?.removeValue(forKey: event) else { return }
        if self.groups[group]?.isEmpty == true { self.groups[group] = nil }
        self.count -= 1
        self.bytes -= removed.text?.count ?? 0
    }
}

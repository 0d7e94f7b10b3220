import RealtimeCoding
import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Finds the messages in streams and in the answers to polls, and recognizes what no server of SignalR sends, such as the page of a proxy, which the
/// reader of messages would take for the beginning of a long one.
struct HubAnswerCheck: Sendable {
    private enum Position: Sendable {
        case record(JSONRecord?)
        case frame(MessagePackFrame)
    }

    /// The size of a part of a message that a server may have cut because it is long.
    private static let partSize = 256
    /// The number of answers in a row that may be such parts. Others are asked for like empty ones.
    private static let partLimit = 2
    private static let separator: UInt8 = 0x1e

    /// Whether the bytes that were read last have a message that isn't a ping, or may be a part of one.
    private(set) var hasMessage = false
    private let format: HubFormat
    private var position = Position.record(nil)
    /// Whether the answer in progress has bytes, and the end of a message.
    private var (hasBytes, hasEnd) = (false, false)
    private var parts = 0

    init(_ format: HubFormat) { self.format = format }

    /// Reads a part of an answer.
    ///
    /// - Returns: The number of bytes that messages consist of and, if others follow, what they are.
    mutating func read(_ bytes: UnsafeRawBufferPointer) -> (count: Int, problem: String?) {
        self.hasMessage = false
        self.hasBytes = self.hasBytes || !bytes.isEmpty
        var index = 0
        while index < bytes.count {
            switch self.position {
            case .record(let begun):
                guard let end = bytes.position(of: Self.separator, from: index) else {
                    var record = begun ?? JSONRecord()
                    guard record.read(bytes[index...]) else { return (index, Excerpt.of(bytes: record.beginning, limit: 100)) }
                    self.position = .record(record.isEmpty ? nil : record)
                    index = bytes.count
                    continue
                }
                // One that isn't valid is reported by the reader of messages.
                if begun != nil || HubRecordType(bytes[index..<end]).isMessage { self.hasMessage = true }
                self.hasEnd = true
                index = end + 1
                // The answer to the handshake is a record in both formats.
                if self.format == .messagePack { self.position = .frame(MessagePackFrame()) } else { self.position = .record(nil) }
            case .frame(var frame):
                let end = frame.read(bytes[index...])
                guard end == bytes.count else { return (end, Excerpt.of(bytes: bytes[end...], limit: 100)) }
                if frame.hasMessage { self.hasMessage = true }
                if frame.hasEnd { self.hasEnd = true }
                (frame.hasMessage, frame.hasEnd) = (false, false)
                self.position = .frame(frame)
                index = bytes.count
            }
        }
        if !self.hasEnd, bytes.count >= Self.partSize, self.parts < Self.partLimit { self.hasMessage = true }
        return (bytes.count, nil)
    }

    /// The answer has ended.
    mutating func bodyEnded() {
        if self.hasEnd { self.parts = 0 } else if self.hasBytes { self.parts += 1 }
        (self.hasBytes, self.hasEnd) = (false, false)
    }
}

/// A record of JSON of which a part has arrived: an object, as far as its brackets and strings tell.
private struct JSONRecord: Sendable {
    /// The beginning of its first part.
    private(set) var beginning: [UInt8] = []
    private var depth = 0
    private var isInString = false
    private var isEscaped = false
    /// Whether the name of a member, or the end of the object, is next.
    private var awaitsName = false
    private var isComplete = false

    /// Whether nothing but whitespace has arrived.
    var isEmpty: Bool { self.depth == 0 && !self.isComplete }

    /// - Returns: `false` if the bytes don't belong to an object.
    mutating func read(_ bytes: Slice<UnsafeRawBufferPointer>) -> Bool {
        if self.beginning.isEmpty { self.beginning = Array(bytes.prefix(128)) }
        for byte in bytes { guard self.read(byte) else { return false } }
        return true
    }

    private mutating func read(_ byte: UInt8) -> Bool {
        if self.isInString {
            if self.isEscaped {
                self.isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                self.isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                self.isInString = false
            }
            return true
        }
        switch byte {
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r"): return true
        case UInt8(ascii: "{") where self.isEmpty: (self.depth, self.awaitsName) = (1, true)
        case _ where self.isEmpty || self.isComplete: return false
        case UInt8(ascii: "\""): (self.isInString, self.awaitsName) = (true, false)
        case UInt8(ascii: "}"): self.close()
        case _ where self.awaitsName: return false
        case UInt8(ascii: "]"): self.close()
        case UInt8(ascii: "{"), UInt8(ascii: "["): self.depth += 1
        default: break
        }
        return true
    }

    private mutating func close() {
        self.awaitsName = false
        self.depth -= 1
        self.isComplete = self.depth == 0
    }
}

/// The position among the frames of MessagePack.
private struct MessagePackFrame: Sendable {
    private enum Part: Sendable {
        case length(Int, shift: Int)
        /// The first byte of the message, which has so many.
        case array(Int)
        case type(Int)
        case rest(Int)
    }

    private var part = Part.length(0, shift: 0)
    private var isMessage = false
    /// Whether a message that isn't a ping has ended, and whether any has.
    var (hasMessage, hasEnd) = (false, false)

    /// - Returns: The end of the bytes or, if they aren't all frames, that of the last one.
    mutating func read(_ bytes: Slice<UnsafeRawBufferPointer>) -> Int {
        var (index, complete) = (bytes.startIndex, bytes.startIndex)
        while index < bytes.endIndex {
            let byte = bytes[index]
            switch self.part {
            case .length(let value, let shift):
                guard shift <= 28 else { return complete }
                let value = value | Int(byte & 0x7f) << shift
                self.part = byte & 0x80 != 0 ? .length(value, shift: shift + 7) : .array(value)
                if case .array(0) = self.part { self.end() }
                index += 1
            case .array(let count):
                // All messages are arrays, most of them short ones.
                guard byte & 0xf0 == 0x90 || byte == 0xdc || byte == 0xdd else { return complete }
                self.isMessage = byte & 0xf0 != 0x90
                self.part = .type(count - 1)
                if count == 1 { self.end() }
                index += 1
            case .type(let count):
                self.isMessage = self.isMessage || byte >= 0x80 || HubRecordType.messages.contains(byte)
                self.part = .rest(count - 1)
                if count == 1 { self.end() }
                index += 1
            case .rest(let count):
                let taken = min(count, bytes.endIndex - index)
                index += taken
                self.part = .rest(count - taken)
                if count == taken { self.end() }
            }
            if case .length(0, shift: 0) = self.part { complete = index }
        }
        return index
    }

    private mutating func end() {
        self.hasMessage = self.hasMessage || self.isMessage
        (self.isMessage, self.hasEnd, self.part) = (false, true, .length(0, shift: 0))
    }
}

/// The type of a record that is written without spaces.
private struct HubRecordType {
    /// Those that aren't pings.
    static let messages: Set<UInt8> = [1, 2, 3, 4, 5, 7, 8, 9]
    private static let name = Array("\"type\":".utf8)

    /// Whether the record is a message that isn't a ping, or one that can't be recognized at a glance.
    let isMessage: Bool

    init(_ record: Slice<UnsafeRawBufferPointer>) {
        guard !record.isEmpty else {
            self.isMessage = false
            return
        }
        let rest = record.dropFirst()
        guard rest.count > Self.name.count + 1, rest.starts(with: Self.name) else {
            self.isMessage = true
            return
        }
        let digits = rest.dropFirst(Self.name.count).prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        self.isMessage = digits.isEmpty || digits.count == 1 && Self.messages.contains(digits[digits.startIndex] - UInt8(ascii: "0"))
    }
}

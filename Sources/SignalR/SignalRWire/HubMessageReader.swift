import RealtimeSystem

/// Reads hub messages from the bytes that a connection receives.
///
/// The boundaries of WebSocket messages, of polls and of chunks mean nothing: several hub messages can be in one, and a hub message can
/// span several. However the bytes are divided, the output is the same. An incomplete message is kept until its remaining bytes arrive,
/// and its bytes are copied and searched once.
///
/// Source: HubProtocol.md of ASP.NET Core, "JSON Encoding" and "MessagePack (MsgPack) encoding".
package struct HubMessageReader: Sendable {
    package enum Output: Hashable, Sendable {
        case message(HubMessage)
        /// One message is invalid. The others aren't affected.
        case invalid(HubMessageError)
        /// A message of a type that this version doesn't know, to be ignored.
        case unknown(type: Int)
    }

    package let format: HubFormat
    private let messageLimit: Int
    /// The start of an incomplete message, without a length prefix.
    private var pending: [UInt8] = []
    private var pendingIsUTF8 = true
    private var prefix = HubLengthPrefix()
    /// The length of the incomplete MessagePack message, if its length prefix is complete.
    private var length: Int?
    private var failure: HubFramingError?

    /// Creates a reader for a connection, after its handshake.
    ///
    /// - Parameters:
    ///   - format: The format that the handshake selected.
    ///   - messageLimit: The maximum size of a message in bytes, without its separator or length.
    package init(_ format: HubFormat, messageLimit: Int) {
        self.format = format
        self.messageLimit = messageLimit
    }

    /// Reads the next bytes of the connection.
    ///
    /// - Parameters:
    ///   - bytes: The bytes. They are copied where they are kept.
    ///   - isUTF8: Whether the bytes are known to be valid UTF-8, as WebSocket text is. Otherwise, JSON is validated.
    ///   - body: Called for each complete message, in order, also for those before an error.
    /// - Throws: ``HubFramingError`` if a message exceeds the limit or its length is invalid, and for all bytes after that.
    package mutating func read(
        _ bytes: UnsafeRawBufferPointer, isUTF8: Bool = false, _ body: (consuming Output) -> Void
    ) throws(HubFramingError) {
        if let failure = self.failure { throw failure }
        do throws(HubFramingError) {
            switch self.format {
            case .json: try self.readJSON(bytes, isUTF8: isUTF8, body)
            case .messagePack: try self.readMessagePack(bytes, body)
            }
        } catch {
            self.failure = error
            self.pending = []
            throw error
        }
    }

    /// Whether the beginning of a message waits for the rest.
    package var hasPart: Bool { !self.pending.isEmpty || self.length != nil || self.prefix.isBegun }

    private func checkSize(_ size: Int) throws(HubFramingError) {
        guard size <= self.messageLimit else {
            throw HubFramingError("A message is longer than the limit of \(self.messageLimit) bytes.", isTooLarge: true)
        }
    }

    /// Removes the incomplete message after it was completed. Keeps the memory for the next one, unless it is large.
    private mutating func removePending() {
        self.pending.removeAll(keepingCapacity: self.pending.capacity <= 1 << 16)
    }

    private mutating func readJSON(
        _ bytes: UnsafeRawBufferPointer, isUTF8: Bool, _ body: (consuming Output) -> Void
    ) throws(HubFramingError) {
        var start = 0
        if !self.pending.isEmpty {
            let separator = bytes.position(of: HubHandshake.separator, from: 0)
            let end = separator ?? bytes.count
            try self.checkSize(self.pending.count + end)
            self.pending.append(contentsOf: bytes[..<end])
            self.pendingIsUTF8 = self.pendingIsUTF8 && isUTF8
            guard separator != nil else { return }
            self.pending.withUnsafeBytes { body(JSONHubMessage.read($0, isUTF8: self.pendingIsUTF8)) }
            self.removePending()
            start = end + 1
        }
        // The separator can't be part of a JSON text, where control characters are escaped.
        while let end = bytes.position(of: HubHandshake.separator, from: start) {
            try self.checkSize(end - start)
            if end > start { body(JSONHubMessage.read(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), isUTF8: isUTF8)) }
            start = end + 1
        }
        guard start < bytes.count else { return }
        try self.checkSize(bytes.count - start)
        self.pending.append(contentsOf: bytes[start...])
        self.pendingIsUTF8 = isUTF8
    }

    private mutating func readMessagePack(_ bytes: UnsafeRawBufferPointer, _ body: (consuming Output) -> Void) throws(HubFramingError) {
        var start = 0
        while true {
            let length: Int
            if let known = self.length {
                length = known
            } else {
                repeat {
                    guard start < bytes.count else { return }
                    try self.prefix.append(bytes[start])
                    start += 1
                } while !self.prefix.isComplete
                length = self.prefix.value
                self.prefix = HubLengthPrefix()
                try self.checkSize(length)
            }
            if self.pending.isEmpty, bytes.count - start >= length {
                body(MessagePackHubMessage.read(UnsafeRawBufferPointer(rebasing: bytes[start..<start + length])))
                start += length
                self.length = nil
                continue
            }
            // Memory is allocated for the bytes that arrive, not for the length that the peer states.
            let end = start + min(length - self.pending.count, bytes.count - start)
            self.pending.append(contentsOf: bytes[start..<end])
            start = end
            self.length = length
            guard self.pending.count == length else { return }
            self.pending.withUnsafeBytes { body(MessagePackHubMessage.read($0)) }
            self.removePending()
            self.length = nil
        }
    }
}

/// The length in front of a MessagePack message: seven bits in each byte, the lowest first, in at most five bytes.
struct HubLengthPrefix {
    private(set) var value = 0
    private(set) var isComplete = false
    private var count = 0

    var isBegun: Bool { self.count > 0 }

    /// Adds the next byte of an incomplete length.
    mutating func append(_ byte: UInt8) throws(HubFramingError) {
        if self.count == 4, byte > 7 { throw HubFramingError("The length of a message exceeds 2 GiB, or isn't a valid number.") }
        self.value |= Int(byte & 0x7F) << (7 * self.count)
        self.count += 1
        self.isComplete = byte < 0x80
    }

    /// Begins a message that follows its length.
    ///
    /// - Returns: The position for ``end(_:_:)``.
    static func begin(_ bytes: inout [UInt8]) -> Int {
        // The lengths of most messages take one byte.
        bytes.append(0)
        return bytes.count
    }

    /// Writes the length of a message in front of it, after the message was appended.
    static func end(_ start: Int, _ bytes: inout [UInt8]) {
        var rest = bytes.count - start
        var position = start - 1
        while rest >= 0x80 {
            bytes[position] = UInt8(truncatingIfNeeded: rest) | 0x80
            rest >>= 7
            position += 1
            bytes.insert(0, at: position)
        }
        bytes[position] = UInt8(truncatingIfNeeded: rest)
    }
}

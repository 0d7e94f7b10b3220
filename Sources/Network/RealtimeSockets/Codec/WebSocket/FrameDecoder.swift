package import RealtimeCore

/// Decodes the bytes from a socket into complete messages.
///
/// Frames are decoded in place. The decoder keeps only the incomplete part of a frame or message, unmasked and validated, and an idle
/// decoder has no memory on the heap. The messages before an invalid frame are delivered.
package struct FrameDecoder: Sendable {
    /// The result of decoding the bytes of one read, in addition to the messages.
    package struct DecodeResult: Sendable {
        /// Whether there is a ping among the messages.
        package var hasPing = false
        /// The number of bytes at the end that were not decoded, because the frame limit was reached.
        package var rest = 0
        /// Reported once. Nothing is decoded after it.
        package var end: End?
    }

    /// The reason why decoding has ended.
    package enum End: Hashable, Sendable {
        /// A close frame. The code is `noStatus` if the frame has none.
        case close(CloseCode, String)
        /// A violation of the protocol or of the message limit.
        case failure(FrameError)
    }

    private enum Stage: Sendable {
        case header, payload, ended
    }

    private let messageLimit: Int
    let role: WebSocketRole
    private var stage = Stage.header
    /// FIN and opcode of the incomplete frame, and the opcode of the incomplete message or 0.
    private var frame: UInt8 = 0
    private var message: UInt8 = 0
    private var text = UTF8Validator()
    private var partialHeaderCount: UInt8 = 0
    private var key: UInt32 = 0
    private var partialHeader: (UInt64, UInt64) = (0, 0)
    /// The bytes received and missing of the incomplete frame's payload.
    private var received = 0
    private var remaining = 0
    /// The incomplete message, and the incomplete control frame, which may come between two fragments of the message.
    private var assembled: [UInt8] = []
    private var control: [UInt8] = []

    package init(role: WebSocketRole, messageLimit: Int) {
        self.role = role
        self.messageLimit = messageLimit
    }

    /// Appends the messages, pings and pongs that these bytes complete to `batch`, in order.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of a read.
    ///   - frameLimit: The number of frames after which to stop. Counts frames, because a message may consist of many empty ones.
    ///   - batch: The batch to append to.
    package mutating func decode(
        _ bytes: UnsafeRawBufferPointer, frameLimit: Int = .max, into batch: inout MessageBatch
    ) -> DecodeResult {
        var result = DecodeResult()
        guard let start = bytes.baseAddress else { return result }
        do throws(FrameError) {
            try self.decode(start, start + bytes.count, frameLimit, &batch, &result)
        } catch {
            self.end(.failure(error), &result)
        }
        return result
    }

    private mutating func decode(
        _ start: UnsafeRawPointer, _ end: UnsafeRawPointer, _ frameLimit: Int, _ batch: inout MessageBatch, _ result: inout DecodeResult
    ) throws(FrameError) {
        var next = start
        var frames = 0
        while next < end {
            switch self.stage {
            case .header where frames == frameLimit:
                result.rest = end - next
                return
            case .header where self.partialHeaderCount == 0 && end - next >= 2:
                frames &+= 1
                let size = FrameHeader.size(second: next.load(fromByteOffset: 1, as: UInt8.self))
                guard end - next >= size else { return try self.keepHeader(&next, end) }
                let header = try FrameHeader(next, role: self.role)
                try self.check(header)
                next += size
                if end - next >= header.length {
                    try self.decodeComplete(header, UnsafeRawBufferPointer(start: next, count: header.length), &batch, &result)
                    next += header.length
                } else {
                    self.begin(header)
                }
            case .header:
                frames &+= 1
                guard let header = try self.completeHeader(&next, end) else { return }
                try self.check(header)
                if header.length == 0 {
                    try self.decodeComplete(header, UnsafeRawBufferPointer(start: next, count: 0), &batch, &result)
                } else {
                    self.begin(header)
                }
            case .payload:
                let piece = UnsafeRawBufferPointer(start: next, count: min(self.remaining, end - next))
                next += piece.count
                try self.appendPayload(piece)
                if self.remaining == 0 {
                    self.stage = .header
                    try self.finishFrame(&batch, &result)
                }
            case .ended:
                return
            }
        }
    }

    // MARK: Headers

    /// Validates a header against the frames before it and the message limit, before any of its payload is stored.
    @inline(__always)
    private func check(_ header: FrameHeader) throws(FrameError) {
        if header.isControl { return }
        if (header.opcode == FrameOpcode.continuation) != (self.message != 0) {
            throw self.message == 0
                ? .violation("The peer sent a continuation frame without a message to continue.")
                : .violation("The peer began a message inside a fragmented message.")
        }
        guard header.length <= self.messageLimit &- self.assembled.count else {
            let limit = self.messageLimit
            throw FrameError(
                .tooLarge, TransportError.oversizedMessage(limit: limit).message,
                reason: TransportError.reasonForOversizedMessage(limit: limit))
        }
    }

    private mutating func keepHeader(_ next: inout UnsafeRawPointer, _ end: UnsafeRawPointer) throws(FrameError) {
        _ = try self.completeHeader(&next, end)
    }

    /// Appends bytes to an incomplete header.
    ///
    /// - Returns: The header if it is complete now.
    private mutating func completeHeader(_ next: inout UnsafeRawPointer, _ end: UnsafeRawPointer) throws(FrameError) -> FrameHeader? {
        let role = self.role
        var count = Int(self.partialHeaderCount)
        let header: Result<FrameHeader, FrameError>? = withUnsafeMutableBytes(of: &self.partialHeader) { buffer in
            while next < end {
                buffer[count] = next.load(as: UInt8.self)
                next += 1
                count += 1
                if count >= 2, count == FrameHeader.size(second: buffer[1]) {
                    return buffer.baseAddress.map { start in
                        Result { () throws(FrameError) in try FrameHeader(UnsafeRawPointer(start), role: role) }
                    }
                }
            }
            return nil
        }
        self.partialHeaderCount = header == nil ? UInt8(count) : 0
        return try header?.get()
    }

    private mutating func begin(_ header: FrameHeader) {
        self.stage = .payload
        self.frame = header.first
        self.key = header.key
        self.received = 0
        self.remaining = header.length
        if header.isControl {
            self.control.reserveCapacity(header.length)
        } else {
            if header.opcode != FrameOpcode.continuation { self.message = header.opcode }
            // Doesn't reserve the full length: the peer may never send that much. Doesn't reserve for every fragment either: reserving
            // is exact, and would copy a message of many small fragments for each of them.
            if self.assembled.isEmpty { self.assembled.reserveCapacity(min(header.length, 1 << 16)) }
        }
    }

    // MARK: Payloads

    /// Decodes a frame that is complete in the read. The usual case, an unfragmented message, is copied once, into the batch.
    @inline(__always)
    private mutating func decodeComplete(
        _ header: FrameHeader, _ payload: UnsafeRawBufferPointer, _ batch: inout MessageBatch, _ result: inout DecodeResult
    ) throws(FrameError) {
        switch header.first {
        case 0x80 | FrameOpcode.text:
            let range = self.copy(payload, header.key, &batch)
            let isValid = batch.bytes.withUnsafeBytes { UTF8Validator.isValid(UnsafeRawBufferPointer(rebasing: $0[range])) }
            guard isValid else {
                batch.bytes.removeLast(payload.count)
                throw Self.notText
            }
            batch.entries.append(MessageBatch.Entry(.text, range))
        case 0x80 | FrameOpcode.binary:
            let range = self.copy(payload, header.key, &batch)
            batch.entries.append(MessageBatch.Entry(.binary, range))
        default:
            self.begin(header)
            try self.appendPayload(payload)
            self.stage = .header
            try self.finishFrame(&batch, &result)
        }
    }

    @inline(__always)
    private func copy(_ payload: UnsafeRawBufferPointer, _ key: UInt32, _ batch: inout MessageBatch) -> Range<Int> {
        let start = batch.bytes.count
        batch.bytes.append(payload, mask: self.role == .server ? Mask(key) : nil)
        return start..<(start &+ payload.count)
    }

    /// Appends a part of the incomplete frame's payload to the message or control frame.
    private mutating func appendPayload(_ piece: UnsafeRawBufferPointer) throws(FrameError) {
        let mask = self.role == .server ? Mask(self.key, offset: self.received) : nil
        if self.frame & 0x08 != 0 {
            self.control.append(piece, mask: mask)
        } else {
            self.assembled.append(piece, mask: mask)
            if self.message == FrameOpcode.text {
                var text = self.text
                let isValid = self.assembled.withUnsafeBytes { text.check(UnsafeRawBufferPointer(rebasing: $0.suffix(piece.count))) }
                guard isValid else { throw Self.notText }
                self.text = text
            }
        }
        self.received += piece.count
        self.remaining -= piece.count
    }

    private mutating func finishFrame(_ batch: inout MessageBatch, _ result: inout DecodeResult) throws(FrameError) {
        switch self.frame & 0x0F {
        case FrameOpcode.ping:
            batch.append(.ping, self.control)
            result.hasPing = true
            self.control = []
        case FrameOpcode.pong:
            batch.append(.pong, self.control)
            self.control = []
        case FrameOpcode.close:
            let (code, reason) = try Self.readClose(self.control)
            self.end(.close(code, reason), &result)
        default:
            if self.frame & 0x80 != 0 { try self.finishMessage(&batch) }
        }
    }

    /// Completes a message that came in several reads or fragments. Support for compression would inflate it here.
    private mutating func finishMessage(_ batch: inout MessageBatch) throws(FrameError) {
        guard self.text.isComplete else { throw Self.notText }
        let start = batch.bytes.count
        batch.bytes.append(contentsOf: self.assembled)
        batch.entries.append(MessageBatch.Entry(self.message == FrameOpcode.text ? .text : .binary, start..<batch.bytes.count))
        self.assembled = []
        self.message = 0
    }

    private mutating func end(_ end: End, _ result: inout DecodeResult) {
        result.end = end
        self.stage = .ended
        self.assembled = []
        self.control = []
    }

    private static var notText: FrameError { FrameError(.invalidPayload, "The peer sent a text message that is not UTF-8.") }
}

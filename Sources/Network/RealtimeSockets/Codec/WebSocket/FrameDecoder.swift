package import RealtimeCore

/// Turns what comes from the socket into whole messages.
///
/// Frames are read in place. Only what a read cut off is kept, already unmasked and checked; an idle decoder holds no memory
/// of its own. Whatever the first bad frame brings, the messages before it come out.
package struct FrameDecoder: Sendable {
    /// What one read brought, besides the messages.
    package struct Outcome: Sendable {
        /// Where the last ping lies in the batch's bytes. It is the only one that wants an answer (RFC 6455 section 5.5.3).
        package var latestPing: Range<Int>?
        /// Set once. Nothing is decoded after it.
        package var end: End?
    }

    /// Why no more messages come.
    package enum End: Hashable, Sendable {
        /// A close frame; `noStatus` when it carried no code.
        case close(CloseCode, String)
        case failure(FrameError)
    }

    private enum Stage: Sendable {
        case header, payload, ended
    }

    private let messageLimit: Int
    let role: WebSocketRole
    private var stage = Stage.header
    /// What is open: FIN and opcode of the frame, and the opcode of the fragmented message, 0 for none.
    private var frame: UInt8 = 0
    private var message: UInt8 = 0
    private var text = UTF8Validator()
    private var cutHeaderCount: UInt8 = 0
    private var key: UInt32 = 0
    private var cutHeader: (UInt64, UInt64) = (0, 0)
    /// Of the open frame's payload.
    private var received = 0
    private var remaining = 0
    /// The open message, and the open control frame, which may lie between two of its fragments.
    private var assembled: [UInt8] = []
    private var control: [UInt8] = []

    package init(role: WebSocketRole, messageLimit: Int) {
        self.role = role
        self.messageLimit = messageLimit
    }

    /// Adds to `batch` the messages, pings and pongs that these bytes complete, in order. It answers nothing.
    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) -> Outcome {
        var outcome = Outcome()
        guard let start = bytes.baseAddress else { return outcome }
        do throws(FrameError) {
            try self.decode(start, start + bytes.count, &batch, &outcome)
        } catch {
            self.end(.failure(error), &outcome)
        }
        return outcome
    }

    private mutating func decode(
        _ start: UnsafeRawPointer, _ end: UnsafeRawPointer, _ batch: inout MessageBatch, _ outcome: inout Outcome
    ) throws(FrameError) {
        var next = start
        while next < end {
            switch self.stage {
            case .header where self.cutHeaderCount == 0 && end - next >= 2:
                let size = FrameHeader.size(second: next.load(fromByteOffset: 1, as: UInt8.self))
                guard end - next >= size else { return try self.keepHeader(&next, end) }
                let header = try FrameHeader(next, role: self.role)
                try self.check(header)
                next += size
                if end - next >= header.length {
                    try self.takeWhole(header, UnsafeRawBufferPointer(start: next, count: header.length), &batch, &outcome)
                    next += header.length
                } else {
                    self.begin(header)
                }
            case .header:
                guard let header = try self.completeHeader(&next, end) else { return }
                try self.check(header)
                if header.length == 0 {
                    try self.takeWhole(header, UnsafeRawBufferPointer(start: next, count: 0), &batch, &outcome)
                } else {
                    self.begin(header)
                }
            case .payload:
                let piece = UnsafeRawBufferPointer(start: next, count: min(self.remaining, end - next))
                next += piece.count
                try self.absorb(piece)
                if self.remaining == 0 {
                    self.stage = .header
                    try self.finishFrame(&batch, &outcome)
                }
            case .ended:
                return
            }
        }
    }

    // MARK: Headers

    /// What the header says has to fit what came before it, and the limit: looked at before any of the payload is there.
    @inline(__always)
    private func check(_ header: FrameHeader) throws(FrameError) {
        if header.isControl { return }
        if (header.opcode == FrameOpcode.continuation) != (self.message != 0) {
            throw self.message == 0
                ? .violation("The peer continued a message that it had not begun.")
                : .violation("The peer began a message before it had ended the one before.")
        }
        guard header.length <= self.messageLimit &- self.assembled.count else {
            throw FrameError(.tooLarge, "The peer sent a message of more than \(self.messageLimit) bytes; raise the limit to accept it.")
        }
    }

    private mutating func keepHeader(_ next: inout UnsafeRawPointer, _ end: UnsafeRawPointer) throws(FrameError) {
        _ = try self.completeHeader(&next, end)
    }

    /// Adds bytes to a header that a read cut off. `nil`: it is still not whole.
    private mutating func completeHeader(_ next: inout UnsafeRawPointer, _ end: UnsafeRawPointer) throws(FrameError) -> FrameHeader? {
        let role = self.role
        var count = Int(self.cutHeaderCount)
        let header: Result<FrameHeader, FrameError>? = withUnsafeMutableBytes(of: &self.cutHeader) { buffer in
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
        self.cutHeaderCount = header == nil ? UInt8(count) : 0
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
            // Not all of it at once: the length is a claim, and the bytes may never come. Not for each fragment either:
            // reserving is exact, and a message of many small ones would be copied for each of them.
            if self.assembled.isEmpty { self.assembled.reserveCapacity(min(header.length, 1 << 16)) }
        }
    }

    // MARK: Payloads

    /// A frame that lies in the read as a whole. The usual case, an unfragmented message, is copied once, into the batch.
    @inline(__always)
    private mutating func takeWhole(
        _ header: FrameHeader, _ payload: UnsafeRawBufferPointer, _ batch: inout MessageBatch, _ outcome: inout Outcome
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
            try self.absorb(payload)
            self.stage = .header
            try self.finishFrame(&batch, &outcome)
        }
    }

    @inline(__always)
    private func copy(_ payload: UnsafeRawBufferPointer, _ key: UInt32, _ batch: inout MessageBatch) -> Range<Int> {
        let start = batch.bytes.count
        batch.bytes.append(payload, mask: self.role == .server ? Mask(key) : nil)
        return start..<(start &+ payload.count)
    }

    /// Adds a piece of the open frame to what is being assembled.
    private mutating func absorb(_ piece: UnsafeRawBufferPointer) throws(FrameError) {
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

    private mutating func finishFrame(_ batch: inout MessageBatch, _ outcome: inout Outcome) throws(FrameError) {
        switch self.frame & 0x0F {
        case FrameOpcode.ping:
            let start = batch.bytes.count
            batch.append(.ping, self.control)
            outcome.latestPing = start..<batch.bytes.count
            self.control = []
        case FrameOpcode.pong:
            batch.append(.pong, self.control)
            self.control = []
        case FrameOpcode.close:
            let (code, reason) = try Self.readClose(self.control)
            self.end(.close(code, reason), &outcome)
        default:
            if self.frame & 0x80 != 0 { try self.finishMessage(&batch) }
        }
    }

    /// A message that came in several reads or fragments. (One that is compressed would be inflated here, and its text checked after that.)
    private mutating func finishMessage(_ batch: inout MessageBatch) throws(FrameError) {
        guard self.text.isComplete else { throw Self.notText }
        let start = batch.bytes.count
        batch.bytes.append(contentsOf: self.assembled)
        batch.entries.append(MessageBatch.Entry(self.message == FrameOpcode.text ? .text : .binary, start..<batch.bytes.count))
        self.assembled = []
        self.message = 0
    }

    private mutating func end(_ end: End, _ outcome: inout Outcome) {
        outcome.end = end
        self.stage = .ended
        self.assembled = []
        self.control = []
    }

    private static var notText: FrameError { FrameError(.invalidPayload, "The peer sent a text message that is not UTF-8.") }
}

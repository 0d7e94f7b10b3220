import RealtimeSystem

/// An incremental decoder for Server-Sent Events, which returns the data of each event as a text message: a value without I/O.
///
/// The fields `event`, `id` and `retry` are read and ignored. An event whose empty line is missing at the end of the stream is discarded, as
/// the standard requires: drop the decoder then. Invalid UTF-8 is replaced with U+FFFD.
///
/// Source: the section "Server-sent events" of the HTML standard.
package struct ServerSentEventDecoder: Sendable {
    static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]
    /// The size of `data: `, which doesn't count for the limit.
    private static let fieldSize = 6
    /// The capacity above which a buffer isn't kept for the next event.
    private static let keptCapacity = 64 << 10

    private let limit: Int
    /// How much of a byte order mark the stream began with; its size from the first other byte on.
    private var markSize = 0
    /// Whether the input ended with a carriage return. A line feed that follows belongs to it.
    private var isAfterReturn = false
    /// The beginning of a line whose end has not arrived.
    private var line: [UInt8] = []
    /// The data of an event that began in an earlier part of the input. That of any other event is at the end of the batch.
    private var data: [UInt8] = []
    /// Whether the event in progress has data, which may be empty.
    private var hasData = false
    /// The size of the data of the event in progress, before invalid bytes are replaced.
    private var size = 0

    /// - Parameter limit: The maximum size of the data of an event, and of a line, in bytes.
    package init(limit: Int) {
        self.limit = limit
    }

    /// Decodes the next part of a stream, which may be cut anywhere.
    ///
    /// - Parameters:
    ///   - bytes: The part of the stream.
    ///   - batch: The data of each event that is complete is appended to it.
    /// - Throws: ``TransportError/Code/tooLarge`` if an event or a line exceeds the limit. The events before it have been appended.
    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        var lines = LineScanner(self.withoutByteOrderMark(bytes))
        guard !lines.input.isEmpty else { return }
        if self.isAfterReturn { lines.skipLineFeed() }
        // The data of the event in progress is appended to the batch already, so that it isn't copied twice. It is kept if the event isn't
        // complete in this part.
        var start = self.hasData ? nil : batch.bytes.count
        defer {
            if let start, self.hasData { self.data.append(contentsOf: batch.bytes[start...]) }
            if let start { batch.bytes.removeSubrange(start...) }
        }
        while true {
            if !self.hasData, self.line.isEmpty {
                lines.takeEvents(limit: self.limit, into: &batch)
                start = batch.bytes.count
            }
            guard let line = lines.next() else { break }
            if self.line.isEmpty {
                try self.decodeLine(line, &start, &batch)
            } else {
                try self.checkSize(self.line.count + line.count)
                self.line.append(contentsOf: line)
                var whole: [UInt8] = []
                swap(&whole, &self.line)
                try whole.withUnsafeBufferPointer { (bytes) throws(TransportError) in
                    try self.decodeLine(UnsafeRawBufferPointer(bytes), &start, &batch)
                }
                whole.removeAll(keepingCapacity: whole.capacity <= Self.keptCapacity)
                swap(&whole, &self.line)
            }
        }
        self.isAfterReturn = lines.endsWithReturn
        try self.checkSize(self.line.count + lines.rest.count)
        self.line.append(contentsOf: lines.rest)
    }

    /// Decodes the next part of a stream.
    package mutating func decode(_ bytes: [UInt8], into batch: inout MessageBatch) throws(TransportError) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(TransportError) in try self.decode(UnsafeRawBufferPointer(bytes), into: &batch) }
    }

    private mutating func withoutByteOrderMark(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var rest = bytes
        while self.markSize < Self.byteOrderMark.count, let first = rest.first {
            guard first == Self.byteOrderMark[self.markSize] else {
                self.line = Array(Self.byteOrderMark[..<self.markSize])
                self.markSize = Self.byteOrderMark.count
                break
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst())
            self.markSize += 1
        }
        return rest
    }

    /// - Parameter start: Where the data of the event in progress begins in the batch; `nil` if it is in ``data``.
    private mutating func decodeLine(
        _ line: UnsafeRawBufferPointer, _ start: inout Int?, _ batch: inout MessageBatch
    ) throws(TransportError) {
        guard !line.isEmpty else { return self.dispatch(&start, &batch) }
        try self.checkSize(line.count)
        guard let value = Self.data(of: line) else { return }
        self.size += self.hasData ? 1 + value.count : value.count
        guard self.size <= self.limit else { throw self.tooLarge }
        if start == nil {
            Self.append(value, afterLineFeed: self.hasData, to: &self.data)
        } else {
            Self.append(value, afterLineFeed: self.hasData, to: &batch.bytes)
        }
        self.hasData = true
    }

    /// Appends the event in progress, if it has data, and begins the next one.
    private mutating func dispatch(_ start: inout Int?, _ batch: inout MessageBatch) {
        if self.hasData {
            if let start {
                batch.entries.append(MessageBatch.Entry(.text, start..<batch.bytes.count))
            } else {
                batch.append(.text, self.data)
                self.data.removeAll(keepingCapacity: self.data.capacity <= Self.keptCapacity)
            }
        }
        (self.hasData, self.size) = (false, 0)
        start = batch.bytes.count
    }

    /// The value of the line's field if that is `data`, without the first space.
    private static func data(of line: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard line.count >= 4, line[0] == UInt8(ascii: "d"), line[1] == UInt8(ascii: "a"), line[2] == UInt8(ascii: "t"),
            line[3] == UInt8(ascii: "a")
        else { return nil }
        // A line without a colon is a field with an empty value.
        guard line.count > 4 else { return UnsafeRawBufferPointer(rebasing: line[4...]) }
        guard line[4] == UInt8(ascii: ":") else { return nil }
        return UnsafeRawBufferPointer(rebasing: line[(line.count > 5 && line[5] == UInt8(ascii: " ") ? 6 : 5)...])
    }

    /// Appends a line of text. A line end isn't part of a sequence of UTF-8, so lines can be decoded one by one.
    private static func append(_ line: UnsafeRawBufferPointer, afterLineFeed: Bool, to bytes: inout [UInt8]) {
        if afterLineFeed { bytes.append(0x0A) }
        bytes.append(repairing: line)
    }

    /// - Parameter line: The size of a line of the event in progress, as far as it has arrived.
    private func checkSize(_ line: Int) throws(TransportError) {
        guard self.size + line - Self.fieldSize <= self.limit else { throw self.tooLarge }
    }

    private var tooLarge: TransportError {
        TransportError(.tooLarge, "The peer sent an event of more than \(self.limit) bytes. Increase the message limit to accept it.")
    }
}

/// Finds the lines in a part of a stream, which end with a line feed, a carriage return, or both.
private struct LineScanner {
    let input: UnsafeRawBufferPointer
    /// Whether the last line ends with a carriage return at the end of the input.
    private(set) var endsWithReturn = false
    private var position = 0
    /// The next line feed. It is searched once, so that a stream of lines that end with carriage returns isn't searched again for each line.
    private var lineFeed = -1
    /// The first carriage return before it; the position of the line feed if there is none.
    private var carriageReturn = -1

    init(_ input: UnsafeRawBufferPointer) {
        self.input = input
    }

    /// The bytes after the last line end.
    var rest: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: self.input[self.position...]) }

    mutating func skipLineFeed() {
        if self.position < self.input.count, self.input[self.position] == 0x0A { self.position += 1 }
    }

    /// Appends the usual events that follow to a batch, with one check of its memory for all of them.
    mutating func takeEvents(limit: Int, into batch: inout MessageBatch) {
        guard let first = self.nextEvent(limit: limit) else { return }
        let (start, capacity) = (batch.bytes.count, first.count + self.input.count - self.position)
        batch.bytes.append(addingCapacity: capacity) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                var next = Optional(first)
                while let data = next {
                    if let source = data.baseAddress { (target + initialized).copyMemory(from: source, byteCount: data.count) }
                    let end = initialized + data.count
                    batch.entries.append(MessageBatch.Entry(.text, start + initialized..<start + end))
                    initialized = end
                    next = self.nextEvent(limit: limit)
                }
            }
        }
    }

    /// Returns the data of an event that is complete, in ASCII, and consists of one line with data, which is the usual one. The line ends are
    /// line feeds, alone or after carriage returns.
    ///
    /// - Returns: `nil` if another event, a part of an event, or none follows. Nothing is consumed then.
    private mutating func nextEvent(limit: Int) -> UnsafeRawBufferPointer? {
        let bytes = UnsafeRawBufferPointer(rebasing: self.input[self.position...])
        guard let base = bytes.baseAddress, bytes.count >= 8, base.loadUnaligned(as: UInt32.self) == Self.data,
            bytes[4] == UInt8(ascii: ":")
        else { return nil }
        self.findLineEnd()
        let start = bytes[5] == UInt8(ascii: " ") ? 6 : 5
        let end = self.carriageReturn - self.position
        var next = self.lineFeed - self.position + 1
        if self.carriageReturn < self.lineFeed {
            guard self.carriageReturn == self.lineFeed - 1, next < bytes.count, bytes[next] == 0x0D else { return nil }
            next += 1
        }
        guard next < bytes.count, bytes[next] == 0x0A, end >= start, end - start <= limit else { return nil }
        let data = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        guard data.isASCII else { return nil }
        self.position += next + 1
        self.endsWithReturn = false
        return data
    }

    /// The letters `data` as they are in memory.
    private static let data = UInt32(littleEndian: 0x6174_6164)

    /// Returns the next line without its end, or `nil` if it isn't complete.
    mutating func next() -> UnsafeRawBufferPointer? {
        self.findLineEnd()
        let end = self.carriageReturn
        guard end < self.input.count else { return nil }
        let line = UnsafeRawBufferPointer(rebasing: self.input[self.position..<end])
        self.position = end + 1
        if end < self.lineFeed {
            self.endsWithReturn = self.position == self.input.count
            self.skipLineFeed()
        }
        return line
    }

    private mutating func findLineEnd() {
        if self.lineFeed < self.position { self.lineFeed = self.find(0x0A, before: self.input.count) }
        if self.carriageReturn < self.position { self.carriageReturn = self.find(0x0D, before: self.lineFeed) }
    }

    /// The position of a byte before another position; that position if there is none.
    private func find(_ byte: UInt8, before end: Int) -> Int {
        guard let start = self.input.baseAddress, self.position < end else { return end }
        // The line after an event is empty.
        if self.input[self.position] == byte { return self.position }
        let found = memchr(start + self.position, CInt(byte), end - self.position)
        return found.map { UnsafeRawPointer($0) - start } ?? end
    }
}

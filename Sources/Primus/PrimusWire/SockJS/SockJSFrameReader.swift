package import RealtimeCore
import RealtimeSystem

/// Reads the frames in the responses of SockJS over HTTP, each of which ends with a line feed.
package struct SockJSFrameReader: Sendable {
    private let limit: Int
    /// The beginning of a frame.
    private var partial: [UInt8] = []

    /// - Parameter limit: The maximum size of a frame in bytes.
    package init(limit: Int) {
        self.limit = limit
    }

    /// Reads a piece of a response.
    ///
    /// Invalid UTF-8 is replaced by U+FFFD.
    ///
    /// - Parameters:
    ///   - bytes: The piece, which is valid during the call only.
    ///   - batch: The frames that are complete are appended to it.
    /// - Throws: ``SockJSError`` if a frame exceeds the limit.
    package mutating func read(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(SockJSError) {
        var start = 0
        while let end = bytes.position(of: UInt8(ascii: "\n"), from: start) {
            let line = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
            start = end + 1
            if self.partial.isEmpty {
                try self.check(line.count)
                Self.append(line, to: &batch)
            } else {
                try self.keep(line)
                self.partial.withUnsafeBytes { Self.append($0, to: &batch) }
                self.partial = []
            }
        }
        try self.keep(UnsafeRawBufferPointer(rebasing: bytes[start...]))
    }

    /// Forgets the beginning of a frame, because the response has ended.
    ///
    /// - Returns: That beginning, if there is one.
    @discardableResult
    package mutating func reset() -> [UInt8]? {
        defer { self.partial = [] }
        return self.partial.isEmpty ? nil : self.partial
    }

    private mutating func keep(_ bytes: UnsafeRawBufferPointer) throws(SockJSError) {
        try self.check(self.partial.count + bytes.count)
        self.partial += bytes
    }

    private func check(_ size: Int) throws(SockJSError) {
        guard size <= self.limit else { throw SockJSError("a frame has more than \(self.limit) bytes") }
    }

    private static func append(_ line: UnsafeRawBufferPointer, to batch: inout MessageBatch) {
        // A stream begins with 2,048 times the letter of a heartbeat, which makes browsers read on.
        if line.count > 1, line.first == UInt8(ascii: "h") { return }
        batch.append(repairing: line)
    }
}

/// An HTTP response that is still arriving, and the task that reads it.
///
/// ```
///            receiveHead          receive …            end
///   pending ─────────────▶ head ────────────▶ body ───────────▶ complete or failed
///      └──────────────────── end, or cancel in any state ───────────▲
/// ```
/// A ``ResponseReader`` adds the head, the pieces of the body and the end. One task reads them: it calls ``readHead()`` or ``readBody()``,
/// and if nothing has arrived yet, it suspends with ``suspend(_:)`` and reads again when it is resumed. After each change the reader
/// resumes the task that ``takeReadyReader()`` returns.
///
/// The buffer is a value without effects. Its owner keeps it under a lock and resumes continuations outside that lock.
package struct ResponseBuffer: Sendable {
    /// The result of reading the body.
    package enum Piece: Sendable, Hashable {
        /// Everything that has arrived since the last read; never empty.
        case bytes([UInt8])
        /// The body is complete.
        case end
        /// Nothing has arrived yet. Suspend, then read again.
        case pending
    }

    private enum End: Sendable {
        case complete
        case failed(TransportError)
        case cancelled(TransportError)
    }

    private enum Part: Sendable { case head, body }

    /// Between ``expected`` and ``suspended`` the response may arrive: then the task doesn't suspend.
    private enum Reader: Sendable {
        case none
        case expected(Part)
        case suspended(Part, WakeUp)
    }

    private let origin: String
    private let limit: Int
    private var unread: [UInt8] = []
    private var end: End?
    private var reader = Reader.none
    private var head: HTTPResponseHead?
    /// Whether the transport has paused receiving and has not been resumed.
    private(set) var isPaused = false

    /// Creates the buffer of a response that has not arrived.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the request, for error messages.
    ///   - limit: The number of unread bytes above which receiving pauses.
    package init(from endpoint: Endpoint, limit: Int = .max) {
        self.origin = endpoint.origin
        self.limit = limit
    }

    /// Whether the response is complete, has failed, or was cancelled.
    private var hasEnded: Bool { self.end != nil }

    package var hasHead: Bool { self.head != nil }

    /// Whether the request was cancelled.
    package var isCancelled: Bool {
        if case .cancelled = self.end { true } else { false }
    }

    // MARK: Receiving

    /// Adds the head.
    package mutating func receiveHead(_ head: HTTPResponseHead) {
        if !self.hasEnded { self.head = head }
    }

    /// Adds a piece of the body.
    ///
    /// - Returns: Whether to pause receiving, because the reader is too far behind.
    package mutating func receive(_ bytes: [UInt8]) -> Bool {
        guard !self.hasEnded else { return false }
        if self.unread.isEmpty { self.unread = bytes } else { self.unread += bytes }
        guard self.unread.count > self.limit, !self.isPaused else { return false }
        self.isPaused = true
        return true
    }

    /// Ends the response. Only the first end counts, and what arrived before it can still be read.
    ///
    /// - Parameter failure: The reason why the response is incomplete, or `nil` if it is complete.
    package mutating func end(_ failure: TransportError?) {
        guard !self.hasEnded else { return }
        if let failure {
            self.end = .failed(failure)
        } else if self.head == nil {
            self.end = .failed(TransportError(.closed, "\(self.origin) closed the connection without sending a response."))
        } else {
            self.end = .complete
        }
    }

    /// Ends the response and discards what has arrived, even if it is complete: a cancelled task gets nothing but `error`.
    package mutating func cancel(_ error: TransportError) {
        guard !self.isCancelled else { return }
        self.end = .cancelled(error)
        self.unread = []
    }

    /// The suspended task, if it has something to read now. Resume it outside the lock.
    package mutating func takeReadyReader() -> WakeUp? {
        guard case .suspended(let part, let wakeUp) = self.reader, self.isReady(part) else { return nil }
        self.reader = .none
        return wakeUp
    }

    /// Whether a paused transport is to resume now.
    ///
    /// Doesn't apply while something is unread: a transport may deliver what it received before it paused.
    package mutating func takeResume() -> Bool {
        guard self.isPaused, self.unread.isEmpty else { return false }
        self.isPaused = false
        return true
    }

    // MARK: Reading

    /// Reads the head.
    ///
    /// - Returns: The head, or `nil` if it has not arrived: suspend, then read again.
    /// - Throws: The error that ended the response, or `unsupported` while another task is reading.
    package mutating func readHead() throws(TransportError) -> HTTPResponseHead? {
        try self.beginReading()
        if case .cancelled(let error) = self.end { throw error }
        if let head = self.head { return head }
        if case .failed(let error) = self.end { throw error }
        self.reader = .expected(.head)
        return nil
    }

    /// Reads what has arrived of the body.
    ///
    /// - Throws: The error that ended the response, after everything that arrived before it was read, or `unsupported` while another task
    ///   is reading.
    package mutating func readBody() throws(TransportError) -> Piece {
        try self.beginReading()
        if !self.unread.isEmpty {
            defer { self.unread = [] }
            return .bytes(self.unread)
        }
        switch self.end {
        case .complete: return .end
        case .failed(let error), .cancelled(let error): throw error
        case nil:
            self.reader = .expected(.body)
            return .pending
        }
    }

    /// Suspends the task whose read returned nothing, unless there is something to read now.
    ///
    /// - Returns: `false` if the task is to read again immediately.
    package mutating func suspend(_ wakeUp: WakeUp) -> Bool {
        guard case .expected(let part) = self.reader else { preconditionFailure("suspend follows a read that returned nothing") }
        let waits = !self.isReady(part)
        self.reader = waits ? .suspended(part, wakeUp) : .none
        return waits
    }

    private func isReady(_ part: Part) -> Bool {
        switch part {
        case .head: self.head != nil || self.hasEnded
        case .body: !self.unread.isEmpty || self.hasEnded
        }
    }

    private func beginReading() throws(TransportError) {
        guard case .none = self.reader else {
            throw TransportError(.unsupported, "Another task is already reading this response; read it from one task at a time.")
        }
    }
}

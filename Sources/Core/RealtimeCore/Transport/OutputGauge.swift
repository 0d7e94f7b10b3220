/// Counts the bytes that a connection has accepted and not sent yet, and decides when its owner is asked to pause writing.
///
/// ```
///   writing ── more bytes than the mark ──▶ paused ── no bytes ──▶ writing
/// ```
package struct OutputGauge: Sendable {
    /// The default of ``mark``.
    package static let mark = 256 << 10
    /// The default limit of clients. Sending that much takes minutes on a slow network.
    package static let clientLimit = 64 << 20

    /// The number of bytes above which no more are accepted. A single message may be larger.
    package let limit: Int
    /// The number of bytes above which writing pauses.
    package var mark: Int { min(Self.mark, self.limit) }
    /// The number of accepted bytes that have not been sent.
    package private(set) var bytes = 0
    /// Whether the owner was asked to pause writing.
    package private(set) var isPaused = false

    package init(limit: Int = Self.clientLimit) {
        self.limit = limit
    }

    /// Accepts bytes.
    ///
    /// - Returns: `false` if more bytes than the limit wait already.
    package mutating func accept(_ count: Int) -> Bool {
        guard self.bytes <= self.limit else { return false }
        self.add(count)
        return true
    }

    /// Adds bytes, also above the limit.
    package mutating func add(_ count: Int) { self.bytes += count }

    /// Bytes have been sent or dropped.
    package mutating func remove(_ count: Int) { self.bytes -= count }

    /// Whether ``takeChange()`` returns a change.
    package var hasChange: Bool { self.isPaused ? self.bytes == 0 : self.bytes > self.mark }

    /// Returns a change of which the owner has not been notified: whether to pause writing. The caller notifies the owner.
    package mutating func takeChange() -> Bool? {
        guard self.hasChange else { return nil }
        self.isPaused.toggle()
        return self.isPaused
    }

    /// The error that ends a connection at its limit.
    package var error: TransportError {
        TransportError(
            .tooLarge,
            "The peer reads too slowly: more than \(self.limit) bytes wait to be sent. "
                + "Send less while writing is paused, or increase the backlog limit.")
    }
}

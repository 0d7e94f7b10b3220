internal import RealtimeCore

/// One answer between the session that brings it and the caller who reads it, as a value without effects.
///
/// Suspending a task is a wish: the session may deliver what it had received already, so nothing here counts on silence.
/// And it may make the task start over, by the word of its documentation; then the answer would contain its beginning twice.
struct ResponseBuffer: Sendable {
    /// What the task is to do after an event.
    enum Step: Sendable, Equatable {
        case goOn, suspend, cancel
    }

    private let limit: Int
    private var unread: [UInt8] = []
    private var wasSuspended = false
    private(set) var head: HTTPResponseHead?
    private(set) var isSuspended = false
    private(set) var hasEnded = false
    private(set) var failure: TransportError?

    /// - Parameter limit: The task is suspended when more bytes than this are unread.
    init(limit: Int) { self.limit = limit }

    var isEmpty: Bool { self.unread.isEmpty }

    mutating func answered(_ head: HTTPResponseHead, from endpoint: Endpoint) -> Step {
        guard !self.hasEnded else { return .goOn }
        // Parts of a `multipart/x-mixed-replace` come with a head each; the first is that of the answer.
        if self.head == nil {
            self.head = head
        } else if self.wasSuspended {
            self.ended(
                TransportError(
                    .reset, "The answer of \(endpoint.origin) began again after it was read slowly; what was read of it is not all of it."))
            return .cancel
        }
        return .goOn
    }

    mutating func received(_ bytes: some Collection<UInt8>) -> Step {
        guard !self.hasEnded else { return .goOn }
        self.unread += bytes
        guard self.unread.count > self.limit, !self.isSuspended else { return .goOn }
        self.isSuspended = true
        self.wasSuspended = true
        return .suspend
    }

    /// Only the first end counts.
    mutating func ended(_ failure: TransportError?) {
        guard !self.hasEnded else { return }
        self.hasEnded = true
        self.failure = failure
    }

    /// All that is unread; empty when there is nothing.
    mutating func take() -> [UInt8] {
        defer { self.unread = [] }
        return self.unread
    }

    /// Whether the task is to be resumed now. Not while something is unread, which may have come after the last `take`.
    mutating func resumes() -> Bool {
        guard self.isSuspended, self.unread.isEmpty else { return false }
        self.isSuspended = false
        return true
    }
}

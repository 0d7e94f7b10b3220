internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// One request and the answer that comes, read no further ahead than a limit.
final class URLSessionExchange: TaskHandler {
    private struct State: Sendable {
        var head: HTTPResponseHead?
        var pieces: [[UInt8]] = []
        var buffered = 0
        var isSuspended = false
        var hasEnded = false
        var failure: TransportError?
        var waiting: WakeUp?
    }

    /// The task is suspended above this many bytes and resumed when they were read.
    private static let readAhead = 256 << 10

    /// Held, since a session without its host would be invalidated.
    private let host: SessionHost
    private let task: URLSessionDataTask
    private let endpoint: Endpoint
    private let state = Lock(State())

    init(_ host: SessionHost, _ task: URLSessionDataTask, _ endpoint: Endpoint) {
        self.host = host
        self.task = task
        self.endpoint = endpoint
    }

    // MARK: From the caller

    func head() async throws(TransportError) -> HTTPResponseHead {
        try await self.wait { $0.head != nil }
        let (head, failure) = self.state.withLock { ($0.head, $0.failure) }
        if let head { return head }
        throw failure ?? TransportError(.closed, "\(self.endpoint.origin) ended the connection before it answered.")
    }

    func next() async throws(TransportError) -> [UInt8]? {
        try await self.wait { !$0.pieces.isEmpty }
        let (piece, failure, isDrained) = self.state.withLock { state -> ([UInt8]?, TransportError?, Bool) in
            guard !state.pieces.isEmpty else { return (nil, state.failure, false) }
            let piece = state.pieces.removeFirst()
            state.buffered -= piece.count
            return (piece, nil, state.isSuspended && state.buffered == 0)
        }
        // Both happen on the session's queue: a resume that overtakes its suspend would leave the task suspended for good.
        if isDrained { self.host.perform { self.resume() } }
        if let piece { return piece }
        if let failure { throw failure }
        return nil
    }

    private func resume() {
        let isDue = self.state.withLock { state in
            guard state.isSuspended, state.buffered == 0 else { return false }
            state.isSuspended = false
            return true
        }
        if isDue { self.task.resume() }
    }

    /// Nobody wants the rest. Does nothing after the answer's end.
    func leave() { self.task.cancel() }

    private func wait(until isReady: (borrowing State) -> Bool) async throws(TransportError) {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard !isReady(state), !state.hasEnded, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } withdraw: {
            self.state.withLock { $0.waiting.take() }
        }
        if Task.isCancelled {
            self.leave()
            throw TransportError(.cancelled, "The request to \(self.endpoint) was taken back.")
        }
    }

    // MARK: From the session

    func opened(_ head: HTTPResponseHead) {}

    func closed(_ code: CloseCode, _ reason: String) {}

    func answered(_ head: HTTPResponseHead) { self.change { $0.head = head } }

    func received(_ data: Data) {
        guard !data.isEmpty else { return }
        let suspends = self.change { state in
            state.pieces.append([UInt8](data))
            state.buffered += data.count
            guard state.buffered > Self.readAhead, !state.isSuspended else { return false }
            state.isSuspended = true
            return true
        }
        if suspends { self.task.suspend() }
    }

    func completed(_ answer: HTTPURLResponse?, _ error: (any Error)?) {
        self.change { state in
            state.hasEnded = true
            state.failure = error.map { TransportError($0, self.endpoint) }
        }
    }

    @discardableResult
    private func change<Result>(_ body: (inout State) -> Result) -> Result {
        let (result, waiting) = self.state.withLock { state in (body(&state), state.waiting.take()) }
        waiting?.resume()
        return result
    }
}

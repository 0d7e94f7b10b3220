internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// One request and the answer that comes, read no further ahead than a limit.
final class URLSessionExchange: TaskHandler {
    private struct State: Sendable {
        var answer = ResponseBuffer(limit: URLSessionExchange.readAhead)
        var waiting: WakeUp?
    }

    #if canImport(FoundationNetworking)
    /// Never suspended: here that drops the connection, and `resume` sends the request a second time and brings the answer
    /// from its start. So an answer is kept in memory until it is read.
    private static let readAhead = Int.max
    #else
    /// The task is suspended above this many bytes and resumed when they were read.
    private static let readAhead = 256 << 10
    #endif

    /// Held, since a session without its host would be invalidated.
    private let host: SharedURLSession
    private let task: URLSessionDataTask
    private let endpoint: Endpoint
    private let state = Lock(State())

    init(_ host: SharedURLSession, _ task: URLSessionDataTask, _ endpoint: Endpoint) {
        self.host = host
        self.task = task
        self.endpoint = endpoint
    }

    // MARK: From the caller

    func head() async throws(TransportError) -> HTTPResponseHead {
        try await self.wait { $0.head != nil }
        let (head, failure) = self.state.withLock { ($0.answer.head, $0.answer.failure) }
        if let head { return head }
        throw failure ?? TransportError(.closed, "\(self.endpoint.origin) ended the connection before it answered.")
    }

    func next() async throws(TransportError) -> [UInt8]? {
        try await self.wait { !$0.isEmpty }
        let (piece, failure, isSuspended) = self.state.withLock { ($0.answer.take(), $0.answer.failure, $0.answer.isSuspended) }
        // Both happen on the session's queue: a resume that overtakes its suspend would leave the task suspended for good.
        if isSuspended { self.host.perform { self.resume() } }
        if !piece.isEmpty { return piece }
        if let failure { throw failure }
        return nil
    }

    private func resume() {
        if self.state.withLock({ $0.answer.resumes() }) { self.task.resume() }
    }

    /// Nobody wants the rest. Does nothing after the answer's end.
    func leave() { self.task.cancel() }

    private func wait(until isReady: (borrowing ResponseBuffer) -> Bool) async throws(TransportError) {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard !isReady(state.answer), !state.answer.hasEnded, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } onCancel: {
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

    func answered(_ head: HTTPResponseHead) { self.change { $0.answered(head, from: self.endpoint) } }

    func received(_ data: Data) {
        guard !data.isEmpty else { return }
        self.change { $0.received(data) }
    }

    func completed(_ answer: HTTPURLResponse?, _ error: (any Error)?) {
        self.change {
            $0.ended(error.map { TransportError($0, self.endpoint) })
            return .goOn
        }
    }

    private func change(_ body: (inout ResponseBuffer) -> ResponseBuffer.Step) {
        let (step, waiting) = self.state.withLock { state in (body(&state.answer), state.waiting.take()) }
        switch step {
        case .goOn: break
        case .suspend: self.task.suspend()
        case .cancel: self.task.cancel()
        }
        waiting?.resume()
    }
}

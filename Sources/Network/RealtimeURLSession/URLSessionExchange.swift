internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// One request and its response, which is read ahead up to a limit.
final class URLSessionExchange: TaskHandler {
    #if canImport(FoundationNetworking)
    /// No limit: in swift-corelibs-foundation, suspending a task drops its connection, and resuming it sends the request again.
    private static let readAhead = Int.max
    #else
    /// The number of unread bytes above which the task is suspended until they have been read.
    private static let readAhead = 256 << 10
    #endif

    /// Keeps the session valid.
    private let host: SharedURLSession
    private let task: URLSessionDataTask
    private let endpoint: Endpoint
    private let response: Lock<ResponseBuffer>

    init(_ host: SharedURLSession, _ task: URLSessionDataTask, _ endpoint: Endpoint) {
        self.host = host
        self.task = task
        self.endpoint = endpoint
        self.response = Lock(ResponseBuffer(from: endpoint, limit: Self.readAhead))
    }

    // MARK: The reading task

    func head() async throws(TransportError) -> HTTPResponseHead {
        while true {
            if let head = try self.response.withLock({ buffer throws(TransportError) in try buffer.readHead() }) { return head }
            await self.wait()
        }
    }

    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            let (piece, isPaused) = try self.response.withLock { buffer throws(TransportError) in (try buffer.readBody(), buffer.isPaused) }
            // On the session's queue, where the task is suspended: a resume that overtook its suspend would leave the task suspended.
            if isPaused { self.host.perform { self.resumeIfRead() } }
            switch piece {
            case .bytes(let bytes): return bytes
            case .end: return nil
            case .pending: await self.wait()
            }
        }
    }

    private func resumeIfRead() {
        if self.response.withLock({ $0.takeResume() }) { self.task.resume() }
    }

    /// Cancels the request. Has no effect after the end of the response.
    func abandon() { self.task.cancel() }

    private func wait() async {
        await suspend { wakeUp in
            self.response.withLock { $0.suspend(wakeUp) }
        } onCancel: {
            self.task.cancel()
            let error = TransportError(.cancelled, "The request to \(self.endpoint) was cancelled.")
            return self.response.withLock { buffer in
                buffer.cancel(error)
                return buffer.takeReadyReader()
            }
        }
    }

    // MARK: Events of the session

    func opened(_ head: HTTPResponseHead) {}

    func closed(_ code: CloseCode, _ reason: String) {}

    func received(_ head: HTTPResponseHead) { self.change { $0.receiveHead(head) } }

    func received(_ data: Data) { self.change { $0.receive([UInt8](data)) } }

    func completed(_ response: HTTPURLResponse?, _ error: (any Error)?) {
        self.change {
            $0.end(error.map { TransportError($0, self.endpoint) })
            return .proceed
        }
    }

    private func change(_ body: (inout ResponseBuffer) -> ResponseBuffer.Action) {
        let (action, reader) = self.response.withLock { (body(&$0), $0.takeReadyReader()) }
        switch action {
        case .proceed: break
        case .pause: self.task.suspend()
        case .cancel: self.task.cancel()
        }
        reader?.resume()
    }
}

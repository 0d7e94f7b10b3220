internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// The events of one task. They are delivered on the session's queue, one at a time.
protocol TaskHandler: AnyObject, Sendable {
    /// The WebSocket is open.
    func opened(_ head: HTTPResponseHead)
    /// The peer has closed the WebSocket.
    func closed(_ code: CloseCode, _ reason: String)
    func received(_ head: HTTPResponseHead)
    func received(_ data: Data)
    /// The last event.
    func completed(_ response: HTTPURLResponse?, _ error: (any Error)?)
}

/// A URLSession without cookies, cache and credentials. It is invalidated when the last transport or connection releases it.
final class SharedURLSession: Sendable {
    let session: URLSession
    private let router: SessionRouter
    private let queue: OperationQueue

    init() {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.httpCookieAcceptPolicy = .never
        configuration.urlCache = nil
        configuration.urlCredentialStorage = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        // Timeouts are enforced elsewhere. The defaults would end a quiet WebSocket after a minute, and any WebSocket after a week.
        configuration.timeoutIntervalForRequest = Self.noTimeout
        configuration.timeoutIntervalForResource = Self.noTimeout
        configuration.httpMaximumConnectionsPerHost = 1000
        self.queue = OperationQueue()
        self.queue.maxConcurrentOperationCount = 1
        self.queue.qualityOfService = .userInitiated
        self.router = SessionRouter()
        self.session = URLSession(configuration: configuration, delegate: self.router, delegateQueue: self.queue)
    }

    deinit {
        // Until it is invalidated the session retains its delegate. Running tasks still complete.
        self.session.finishTasksAndInvalidate()
    }

    static let noTimeout: TimeInterval = 1e9

    /// Delivers the events of a task to `handler`, which is retained until the task has completed. Call it before the task is resumed.
    func route(_ task: URLSessionTask, to handler: any TaskHandler) {
        self.router.handlers.withLock { $0[task.taskIdentifier] = handler }
    }

    /// Runs `action` on the session's queue, between two events.
    func perform(_ action: @escaping @Sendable () -> Void) {
        self.queue.addOperation(action)
    }
}

/// Delivers the session's events to the handler of each task.
final class SessionRouter: NSObject, Sendable {
    let handlers = Lock<[Int: any TaskHandler]>([:])

    private func handler(_ task: URLSessionTask) -> (any TaskHandler)? {
        self.handlers.withLock { $0[task.taskIdentifier] }
    }
}

extension SessionRouter: URLSessionWebSocketDelegate {
    func urlSession(_ session: URLSession, webSocketTask: URLSessionWebSocketTask, didOpenWithProtocol protocol: String?) {
        var head = (webSocketTask.response as? HTTPURLResponse).map(HTTPResponseHead.init) ?? HTTPResponseHead(status: 101)
        if let `protocol`, head.headers["Sec-WebSocket-Protocol"] == nil { head.headers.add("Sec-WebSocket-Protocol", `protocol`) }
        self.handler(webSocketTask)?.opened(head)
    }

    func urlSession(
        _ session: URLSession, webSocketTask: URLSessionWebSocketTask, didCloseWith closeCode: URLSessionWebSocketTask.CloseCode,
        reason: Data?
    ) {
        let reason = reason.map { String(decoding: $0, as: UTF8.self) } ?? ""
        self.handler(webSocketTask)?.closed(CloseCode(closeCode), reason)
    }
}

extension SessionRouter: URLSessionDataDelegate {
    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        if let response = response as? HTTPURLResponse { self.handler(dataTask)?.received(HTTPResponseHead(response)) }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        self.handler(dataTask)?.received(data)
    }

    /// Declines every redirect: the redirect is the response, and a token must not be sent to another host.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
        completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let handler = self.handlers.withLock { $0.removeValue(forKey: task.taskIdentifier) }
        handler?.completed(task.response as? HTTPURLResponse, error)
    }
}

extension CloseCode {
    /// Converts the raw value, because the system's enumeration has no cases for application-defined codes (4000 to 4999).
    init(_ code: URLSessionWebSocketTask.CloseCode) {
        self.init(rawValue: UInt16(exactly: code.rawValue) ?? CloseCode.noStatus.rawValue)
    }
}

extension HTTPResponseHead {
    init(_ response: HTTPURLResponse) {
        self.init(status: response.statusCode)
        // Sorted, because the order of a dictionary differs from run to run.
        let fields = response.allHeaderFields.compactMap { name, value in (name as? String).map { ($0, "\(value)") } }
        for (name, value) in fields.sorted(by: { $0.0 < $1.0 }) { self.headers.add(name, value) }
    }
}

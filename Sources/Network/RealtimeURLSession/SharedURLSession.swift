internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// What happens to one task. Called on the session's queue, one call at a time.
protocol TaskHandler: AnyObject, Sendable {
    func opened(_ head: HTTPResponseHead)
    func closed(_ code: CloseCode, _ reason: String)
    func answered(_ head: HTTPResponseHead)
    func received(_ data: Data)
    /// The last call.
    func completed(_ answer: HTTPURLResponse?, _ error: (any Error)?)
}

/// A session that keeps nothing: no cookies, no cache, no credentials. It lives as long as somebody may make a task.
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
        // The driver has its own limits; these would end a quiet WebSocket after a minute, and any after a week.
        configuration.timeoutIntervalForRequest = Self.noLimit
        configuration.timeoutIntervalForResource = Self.noLimit
        configuration.httpMaximumConnectionsPerHost = 1000
        self.queue = OperationQueue()
        self.queue.maxConcurrentOperationCount = 1
        self.queue.qualityOfService = .userInitiated
        self.router = SessionRouter()
        self.session = URLSession(configuration: configuration, delegate: self.router, delegateQueue: self.queue)
    }

    deinit {
        // The session holds its delegate until this; tasks under way are finished first.
        self.session.finishTasksAndInvalidate()
    }

    static let noLimit: TimeInterval = 1e9

    /// Everything about the task goes to `handler`, held until the task has completed. To be called before `resume`.
    func route(_ task: URLSessionTask, to handler: any TaskHandler) {
        self.router.handlers.withLock { $0[task.taskIdentifier] = handler }
    }

    /// Runs `action` between two calls to handlers.
    func perform(_ action: @escaping @Sendable () -> Void) {
        self.queue.addOperation(action)
    }
}

/// Hands what the session says to the task's own handler.
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
        let words = reason.map { String(decoding: $0, as: UTF8.self) } ?? ""
        self.handler(webSocketTask)?.closed(CloseCode(closeCode), words)
    }
}

extension SessionRouter: URLSessionDataDelegate {
    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        if let response = response as? HTTPURLResponse { self.handler(dataTask)?.answered(HTTPResponseHead(response)) }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        self.handler(dataTask)?.received(data)
    }

    /// A redirect is an answer like any other, and a token must not follow it to another host.
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
    /// By its number: applications' own codes, 4000 to 4999, have no case in the system's enumeration.
    init(_ code: URLSessionWebSocketTask.CloseCode) {
        self.init(rawValue: UInt16(exactly: code.rawValue) ?? CloseCode.noStatus.rawValue)
    }
}

extension HTTPResponseHead {
    init(_ response: HTTPURLResponse) {
        self.init(status: response.statusCode)
        // Sorted, since a dictionary has no order: the same answer gives the same head.
        let fields = response.allHeaderFields.compactMap { name, value in (name as? String).map { ($0, "\(value)") } }
        for (name, value) in fields.sorted(by: { $0.0 < $1.0 }) { self.headers.add(name, value) }
    }
}

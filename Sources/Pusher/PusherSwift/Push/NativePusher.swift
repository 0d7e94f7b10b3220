public import Foundation
import PusherWire
import RealtimeCore
import RealtimeTransports
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

/// Push notifications, as versions 5 and 6 have them.
///
/// - Important: Pusher has retired this service. The class exists for apps whose code uses it, and for servers of your own; set
///   ``PusherClientOptions/pushServiceURL`` to the URL of one.
///
/// Requests are sent one after the other, as soon as the device is registered. A request that fails is repeated after 1, 4, 9, 16 and 25
/// seconds. After six failures, the requests wait until another method is called.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class NativePusher: NSObject, @unchecked Sendable {
    private struct State {
        weak var connection: PusherConnection?
        var session: URLSession
        var queue = PushQueue()
    }

    /// Has the timer of the queue. It isn't the public class, whose methods are the same as in PusherSwift.
    private final class Timer: TimerClient {
        private let owner = Guarded(Owner())

        private struct Owner { weak var value: NativePusher? }

        func setOwner(_ owner: NativePusher) { self.owner.update { $0.value = owner } }
        func timerFired() { self.owner.value.value?.timerFired() }
    }

    private let state: Guarded<State>
    private let serviceURL: URL
    private let transports: Transports
    private let hasCustomTransports: Bool
    private let cookies = RedirectingHTTP.Cookies()
    private let timer = Timer()

    /// The session for requests. On platforms without Apple's `URLSession`, the shared session represents the package's own HTTP client.
    public var URLSession: URLSession {
        get { self.state.value.session }
        set { self.state.update { $0.session = newValue } }
    }

    /// The connection whose delegate is informed.
    var connection: PusherConnection? {
        get { self.state.value.connection }
        set { self.state.update { $0.connection = newValue } }
    }

    /// Creates a service for push notifications.
    ///
    /// - Parameter options: The settings, which contain the URL of the service.
    public init(options: PusherClientOptions) {
        self.state = Guarded(State(session: .shared))
        self.serviceURL = options.pushServiceURL
        self.transports = options.transports ?? .standard
        self.hasCustomTransports = options.transports != nil
        super.init()
        self.timer.setOwner(self)
    }

    /// Sets the key of the app. A ``Pusher`` does it for its service.
    ///
    /// - Parameter pusherAppKey: The key.
    open func setPusherAppKey(pusherAppKey: String) { self.send(self.state.update { Next($0.queue.setAppKey(pusherAppKey)) }) }

    /// Registers the device. The delegate is informed of the result.
    ///
    /// - Parameter deviceToken: The token that the system passes to the app.
    open func register(deviceToken: Data) {
        let token = deviceToken.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined()
        self.send(self.state.update { Next($0.queue.register(token: token)) })
    }

    /// Subscribes to an interest, as soon as the device is registered.
    ///
    /// - Parameter interestName: The name of the interest.
    open func subscribe(interestName: String) { self.add(.subscribe(interestName)) }

    /// Unsubscribes from an interest, as soon as the device is registered.
    ///
    /// - Parameter interestName: The name of the interest.
    open func unsubscribe(interestName: String) { self.add(.unsubscribe(interestName)) }

    /// Replaces all interests, as soon as the device is registered.
    ///
    /// - Parameter interests: The names of the interests.
    open func setSubscriptions(interests: [String]) { self.add(.set(interests)) }

    // MARK: Requests

    private struct Next: Sendable {
        let request: (number: Int, request: PushQueue.Request)?

        init(_ request: (Int, PushQueue.Request)?) { self.request = request.map { ($0, $1) } }
    }

    private func add(_ change: PushQueue.Change) { self.send(self.state.update { Next($0.queue.add(change)) }) }

    private func timerFired() {
        let now = self.transports.time.now
        self.send(self.state.update { Next($0.queue.timeout(now: now)) })
    }

    private func send(_ next: Next) {
        guard let (number, request) = next.request else { return }
        HTTPSender(session: self.URLSession, transports: self.transports, isCustom: self.hasCustomTransports, cookies: self.cookies)
            .send(self.urlRequest(request)) { [weak self] data, response, _ in
                self?.finish(number, request, data.map { String(decoding: $0, as: UTF8.self) }, response)
            }
    }

    private func urlRequest(_ request: PushQueue.Request) -> URLRequest {
        var body: [String: Any] = [:]
        var (method, path) = ("POST", "/clients")
        switch request {
        case .register(let key, let token): body = ["app_key": key, "platform_type": "apns", "token": token]
        case .change(let change, let key, let client):
            body = ["app_key": key]
            path += "/\(Self.encoded(client))/interests/"
            switch change {
            case .subscribe(let name): path += Self.encoded(name)
            case .unsubscribe(let name):
                method = "DELETE"
                path += Self.encoded(name)
            case .set(let names):
                method = "PUT"
                body["interests"] = names
            }
        }
        var base = self.serviceURL.absoluteString
        while base.hasSuffix("/") { base.removeLast() }
        var result = URLRequest(url: URL(string: base + path) ?? self.serviceURL)
        result.httpMethod = method
        result.httpBody = FoundationJSON.text(body).map { Data($0.utf8) }
        result.setValue("application/json", forHTTPHeaderField: "Content-Type")
        result.setValue("pusher-websocket-swift 10.1.10", forHTTPHeaderField: "X-Pusher-Library")
        return result
    }

    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(CharacterSet(charactersIn: "-._~"))) ?? text
    }

    private func finish(_ number: Int, _ request: PushQueue.Request, _ body: String?, _ response: URLResponse?) {
        // A page of HTML is the answer of a proxy.
        let isPage = body.map { ResponseBody(Array($0.utf8)).isPage } ?? false
        let isSuccess = !isPage && (response as? HTTPURLResponse).map { (200..<300).contains($0.statusCode) } ?? false
        let clientID = body.flatMap { FoundationJSON.object($0)?["id"] as? String }
        switch request {
        case .register:
            guard isSuccess, let clientID else {
                if self.fail(number), let response { self.connection?.enqueue(.push(.notRegistered(response, body))) }
                return
            }
            let (isCurrent, next) = self.state.update { state in
                let result = state.queue.registered(number, clientID: clientID)
                return (result.isCurrent, Next(result.next))
            }
            if isCurrent { self.connection?.enqueue(.push(.registered(clientID: clientID))) }
            self.send(next)
        case .change:
            guard isSuccess else {
                _ = self.fail(number)
                return
            }
            let (change, next) = self.state.update { state in
                let result = state.queue.changed(number)
                return (result.change, Next(result.next))
            }
            if let change { self.connection?.enqueue(.push(change.notice)) }
            self.send(next)
        }
    }

    private func fail(_ number: Int) -> Bool {
        let now = self.transports.time.now
        let (isCurrent, deadline) = self.state.update { ($0.queue.failed(number, now: now), $0.queue.nextDeadline) }
        if let deadline { self.transports.time.schedule(self.timer, at: deadline) }
        return isCurrent
    }
}

extension PushQueue.Change {
    /// The notice after the service has made the change.
    fileprivate var notice: PushNotice {
        switch self {
        case .subscribe(let name): .subscribed(name)
        case .unsubscribe(let name): .unsubscribed(name)
        case .set(let names): .set(names)
        }
    }
}

/// A handler that passes each request to one of several handlers, so that they share a listener.
///
/// ```swift
/// let router = ListenerRouter([
///     .path("/chat", chat),
///     .path("/news", news),
///     .matching(health) { request in request.method == "GET" && request.path == "/health" },
/// ])
/// let address = try await listener.start(router)
/// ```
/// The first route that matches receives the request or the upgrade. If none does, the client receives a response with
/// the status 404.
public final class ListenerRouter: ListenerHandler {
    /// A handler and the requests for which it is responsible.
    public struct Route: Sendable {
        let handler: any ListenerHandler
        let matches: @Sendable (HTTPRequestHead) -> Bool

        /// Creates a route for a path and everything below it.
        ///
        /// The path `/chat` matches `/chat`, `/chat/` and `/chat/room?number=1`, and not `/chats`. The paths are compared byte by byte as
        /// they were received, percent-encoded.
        ///
        /// - Parameters:
        ///   - path: The path, starting with a slash. A slash at its end has no meaning, so `/` matches every path.
        ///   - handler: The object that receives the requests.
        public static func path(_ path: String, _ handler: any ListenerHandler) -> Route {
            var prefix = Array(path.utf8)
            while prefix.last == UInt8(ascii: "/") { prefix.removeLast() }
            return Route(handler: handler) { [prefix] request in
                let path = request.target.utf8.prefix { $0 != UInt8(ascii: "?") }
                guard path.starts(with: prefix) else { return false }
                let rest = path.dropFirst(prefix.count)
                return rest.isEmpty || rest.first == UInt8(ascii: "/")
            }
        }

        /// Creates a route for a path, without those below it.
        ///
        /// The path `/health` matches `/health` and `/health?verbose=1`, and neither `/health/` nor `/health/x`. The paths are compared
        /// byte by byte as they were received, percent-encoded.
        ///
        /// - Parameters:
        ///   - path: The path, starting with a slash.
        ///   - handler: The object that receives the requests.
        public static func exactPath(_ path: String, _ handler: any ListenerHandler) -> Route {
            Route(handler: handler) { request in
                request.target.utf8.prefix { $0 != UInt8(ascii: "?") }.elementsEqual(path.utf8)
            }
        }

        /// Creates a route for the requests that satisfy a condition.
        ///
        /// - Parameters:
        ///   - handler: The object that receives the requests.
        ///   - condition: A closure that is called on the listener's threads. It must return the same result for the same request.
        public static func matching(_ handler: any ListenerHandler, _ condition: @escaping @Sendable (HTTPRequestHead) -> Bool) -> Route {
            Route(handler: handler, matches: condition)
        }
    }

    private let routes: [Route]

    /// Creates a router. It retains the handlers.
    ///
    /// - Parameter routes: The routes in order. The first one that matches receives a request.
    public init(_ routes: [Route]) {
        self.routes = routes
    }

    private func handler(of request: HTTPRequestHead) -> (any ListenerHandler)? {
        self.routes.first { $0.matches(request) }?.handler
    }

    private static let notFound = HTTPResponse(
        status: 404, headers: ["Content-Type": "text/plain; charset=utf-8"], text: "No handler is responsible for this path.\n")

    /// Passes a request to the handler of the first route that matches.
    public func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        guard let handler = self.handler(of: request) else { return responder.respond(Self.notFound) }
        handler.received(request, body: body, responder: responder)
    }

    /// Passes an upgrade to the handler of the first route that matches.
    public func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.handler(of: request)?.upgrade(request) ?? .reject(Self.notFound)
    }

    /// Returns the limit of the handler of the first route that matches.
    public func bodyLimit(for request: HTTPRequestHead) -> Int? {
        self.handler(of: request).map { $0.bodyLimit(for: request) } ?? bodyLimitWithoutMessages
    }
}

extension ListenerRouter: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("routes", self.routes)] }
}

extension ListenerRouter.Route: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("handler", Redacted(visible: "\(type(of: self.handler))"))] }
}

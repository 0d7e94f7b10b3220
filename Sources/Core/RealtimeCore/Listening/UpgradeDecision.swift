import RealtimeSystem

/// A type that takes the connection of a client whose WebSocket upgrade was accepted.
///
/// Either ``connected(_:id:)`` or ``abandoned()`` is called, once for each decision to accept.
///
/// ```swift
/// struct Visitor: UpgradeAcceptor {
///     let name: String
///
///     func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
///         Conversation(with: name, on: connection)
///     }
/// }
/// ```
public protocol UpgradeAcceptor: Sendable {
    /// The maximum size of a message that the connection may receive, in bytes.
    ///
    /// A listener keeps the parts of a message until it is complete, so a limit that fits the protocol saves memory. The listener's own limit
    /// applies if it is smaller, or if this one is `nil`, which is the default.
    var messageLimit: Int? { get }

    /// Takes the connection, which is open. Called on a thread of the listener.
    ///
    /// - Parameters:
    ///   - connection: The connection, for sending messages and closing it.
    ///   - id: The ID of the connection. It is unique among the connections that this process accepts.
    /// - Returns: The object that receives the messages and the end of the connection.
    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents

    /// There is no connection: the client has disconnected, the time limit of the decision has elapsed, the listener stops, the response would be
    /// invalid, or there was another decision before.
    ///
    /// Called on a thread of the listener or, if the decision comes too late, by ``UpgradeResponder/accept(subprotocol:headers:to:)`` before it
    /// returns. By default, does nothing.
    func abandoned()
}

extension UpgradeAcceptor {
    /// `nil`: the listener's limit applies.
    public var messageLimit: Int? { nil }

    /// Does nothing.
    public func abandoned() {}
}

/// The decision about a WebSocket upgrade.
public enum UpgradeDecision: Sendable {
    /// Accepts the upgrade, with one of the subprotocols that the client offered, or with none, and adds header fields to the response. The
    /// acceptor takes the connection.
    ///
    /// The listener sets the fields of the handshake itself: `Connection`, `Upgrade`, and those whose names start with `Sec-WebSocket-`.
    /// If `headers` contains one of them, a `Content-Length`, a `Transfer-Encoding`, or an invalid field, or if the client didn't offer the
    /// subprotocol, the client receives a response with the status 500.
    case accept(subprotocol: String? = nil, headers: HTTPHeaders = [:], to: any UpgradeAcceptor)
    /// Rejects the upgrade and sends a response.
    case reject(HTTPResponse)
    /// Decides later. The listener calls the closure immediately with an object that receives the decision, from any thread.
    ///
    /// ```swift
    /// func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
    ///     .later { [findUser] responder in
    ///         let task = Task {
    ///             guard let name = await findUser(request) else { return responder.reject(HTTPResponse(status: 401)) }
    ///             responder.accept(to: Visitor(name: name))
    ///         }
    ///         responder.onCancel { task.cancel() }
    ///     }
    /// }
    /// ```
    ///
    /// If there is no decision within the listener's time limit, the client receives a response with the status 503.
    case later(@Sendable (_ responder: UpgradeResponder) -> Void)
}

/// Receives the decision about one WebSocket upgrade, from any thread; see ``UpgradeDecision/later(_:)``.
///
/// ```
///   pending ──accept, reject──▶ decided
///      └────────cancel────────▶ cancelled
/// ```
/// Only the first decision counts. Decisions after it, or after the listener has cancelled, have no effect: an acceptor is told with
/// ``UpgradeAcceptor/abandoned()``.
public final class UpgradeResponder: Sendable {
    /// A decision.
    public enum Answer: Sendable {
        /// Accepts the upgrade; see ``UpgradeDecision/accept(subprotocol:headers:to:)``.
        case accept(subprotocol: String?, headers: HTTPHeaders, to: any UpgradeAcceptor)
        /// Rejects the upgrade and sends a response.
        case reject(HTTPResponse)

        /// There is no connection for this answer.
        package func abandon() {
            if case .accept(_, _, let acceptor) = self { acceptor.abandoned() }
        }
    }

    private struct State: Sendable {
        /// `nil` after the decision or the cancellation, so that a handler that keeps the responder doesn't retain the connection.
        var decided: (@Sendable (Answer) -> Void)?
        var onCancel: (@Sendable () -> Void)?
        var isCancelled = false
    }

    private let state: Lock<State>

    /// Creates a responder. Used by custom listeners.
    ///
    /// - Parameter decided: A closure that receives the decision, at most once, on the thread of the caller that decides. It calls the acceptor
    ///   of an answer, now or later: either ``UpgradeAcceptor/connected(_:id:)`` or ``UpgradeAcceptor/abandoned()``.
    public init(_ decided: @escaping @Sendable (Answer) -> Void) {
        self.state = Lock(State(decided: decided))
    }

    /// Accepts the upgrade.
    ///
    /// - Parameters:
    ///   - subprotocol: One of the subprotocols that the client offered, or `nil`.
    ///   - headers: Header fields to add to the response; see ``UpgradeDecision/accept(subprotocol:headers:to:)``.
    ///   - acceptor: The object that takes the connection.
    public func accept(subprotocol: String? = nil, headers: HTTPHeaders = [:], to acceptor: any UpgradeAcceptor) {
        self.decide(.accept(subprotocol: subprotocol, headers: headers, to: acceptor))
    }

    /// Rejects the upgrade and sends a response.
    public func reject(_ response: HTTPResponse) { self.decide(.reject(response)) }

    /// Registers a closure for when the decision is no longer needed: the client has disconnected, the time limit has elapsed, or the
    /// listener stops. Replaces an earlier closure.
    ///
    /// - Parameter action: A closure that is called at most once, on any thread; immediately if the decision isn't needed already. It is
    ///   released when the decision is made.
    public func onCancel(_ action: @escaping @Sendable () -> Void) {
        let (isCancelled, replaced) = self.state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard state.decided != nil else { return (state.isCancelled, nil) }
            defer { state.onCancel = action }
            return (false, state.onCancel)
        }
        // What the closure captures may be released here, outside the lock.
        _ = replaced
        if isCancelled { action() }
    }

    /// Withdraws the request for a decision. Called by the listener. Has no effect after the decision.
    ///
    /// - Returns: Whether there was no decision.
    @discardableResult
    public func cancel() -> Bool {
        let (action, decided) = self.state.withLock { state -> ((@Sendable () -> Void)?, (@Sendable (Answer) -> Void)?) in
            guard let decided = state.decided.take() else { return (nil, nil) }
            state.isCancelled = true
            return (state.onCancel.take(), decided)
        }
        action?()
        return decided != nil
    }

    private func decide(_ answer: Answer) {
        let (decided, action) = self.state.withLock { ($0.decided.take(), $0.onCancel.take()) }
        // What the closure captures may be released here, outside the lock.
        _ = action
        guard let decided else { return answer.abandon() }
        decided(answer)
    }
}

extension HTTPHeaders {
    /// The reason why the fields can't be added to the response that accepts a WebSocket, or `nil` if they can. It is the same for every
    /// listener, in memory or on sockets.
    package var upgradeResponseError: TransportError? {
        for field in self {
            let name = field.name.lowercased()
            let isReserved = ["connection", "upgrade", "content-length", "transfer-encoding"].contains(name)
            if isReserved || name.utf8.starts(with: "sec-websocket-".utf8) {
                return TransportError(.unsupported, "The header field \(field.name) can't be set in the response to a WebSocket request.")
            }
            guard !name.isEmpty, field.name.utf8.allSatisfy(Self.isTokenByte) else {
                return TransportError(.unsupported, "Invalid header field name: it is empty or contains invalid characters.")
            }
            guard field.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                return TransportError(.unsupported, "Invalid value of the header field \(field.name): it contains a control character.")
            }
        }
        return nil
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        // ! # $ % & ' * + - . ^ _ ` | ~
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}

extension UpgradeDecision {
    /// Returns the decision with another acceptor in place of the one that it names now or later. An answer that comes too late tells the original
    /// acceptor.
    package func replacingAcceptor(_ replacement: @escaping @Sendable (any UpgradeAcceptor) -> any UpgradeAcceptor) -> UpgradeDecision {
        switch self {
        case .accept(let subprotocol, let headers, let acceptor):
            return .accept(subprotocol: subprotocol, headers: headers, to: replacement(acceptor))
        case .reject: return self
        case .later(let ask):
            return .later { responder in
                let inner = UpgradeResponder { answer in
                    switch answer {
                    case .accept(let subprotocol, let headers, let acceptor):
                        responder.accept(subprotocol: subprotocol, headers: headers, to: replacement(acceptor))
                    case .reject(let response): responder.reject(response)
                    }
                }
                responder.onCancel { inner.cancel() }
                ask(inner)
            }
        }
    }
}

extension UpgradeDecision: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The name of the case and its values, without the acceptor and those that may be secret.
    public var description: String {
        switch self {
        case .accept(let subprotocol, let headers, let acceptor):
            "\(UpgradeResponder.Answer.accept(subprotocol: subprotocol, headers: headers, to: acceptor))"
        case .reject(let response): "\(UpgradeResponder.Answer.reject(response))"
        case .later: "later"
        }
    }

    /// The same as the description.
    public var debugDescription: String { self.description }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension UpgradeResponder.Answer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The name of the case and its values, without the acceptor and those that may be secret.
    public var description: String {
        switch self {
        case .accept(let subprotocol, let headers, _):
            PartText.text(ofCase: "accept", ["subprotocol": Redacted.optional(subprotocol), "headers": headers])
        case .reject(let response): PartText.text(ofCase: "reject", ["": response])
        }
    }

    /// The same as the description.
    public var debugDescription: String { self.description }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension UpgradeResponder: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

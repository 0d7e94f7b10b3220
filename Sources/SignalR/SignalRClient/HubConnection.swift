public import Foundation
public import SignalRHubs
import RealtimeCore
import RealtimeSystem
import SignalRWire

/// A connection to a hub, with the API of the package signalr-client-swift.
///
/// ```swift
/// let connection = HubConnectionBuilder()
///     .withUrl(url: "https://example.org/chat")
///     .build()
/// await connection.on("ReceiveMessage") { (user: String, message: String) in
///     print("\(user) says: \(message)")
/// }
/// try await connection.start()
/// try await connection.invoke(method: "SendMessage", arguments: "myUser", "Hello")
/// ```
/// All methods can be called from any thread and actor. ``client`` is the same connection with the typed API, for new code.
///
/// Handlers run in the order of the messages, one at a time, in a task of the connection. Calls for whose result the server waits are handled
/// in tasks of their own, without waiting for the handlers of earlier calls. All handlers may be slow, and may call methods of the server. Keep a reference to the connection for as long as it is needed: when it is released, it is closed, and calls fail.
public final class HubConnection: Sendable {
    /// The same connection, with the typed API.
    ///
    /// It throws ``/SignalRHubs/HubError`` where this type throws ``SignalRError``.
    public let client: HubClient
    private let configurationError: SignalRError?
    private let lifecycle: ConnectionLifecycle
    private let handling: Task<Void, Never>

    /// Creates a connection from a client, for example of an in-memory network. It doesn't connect until you call ``start()``.
    public convenience init(_ client: HubClient) { self.init(client, configurationError: nil) }

    init(_ client: HubClient, configurationError: SignalRError?) {
        self.client = client
        self.configurationError = configurationError
        let lifecycle = ConnectionLifecycle(serverTimeout: client.configuration.serverTimeout)
        self.lifecycle = lifecycle
        let updates = client.numberedUpdates
        // The handlers are asynchronous and need a task. It ends when the connection is released, which ends the sequence.
        self.handling = Task { await lifecycle.run(updates) }
        // The handlers are only called for what follows.
        lifecycle.skip(to: client.lastUpdateNumber)
    }

    deinit { self.handling.cancel() }

    // MARK: Connecting

    /// Connects to the hub.
    ///
    /// - Throws: ``SignalRError/invalidOperation(_:)`` if the connection is started already; otherwise the reason why the attempt failed.
    ///   Errors of ``HttpConnectionOptions/accessTokenFactory`` and of an ``HttpClient`` are thrown unchanged. `CancellationError` if the task is cancelled; the connection is then stopped.
    public func start() async throws {
        if let configurationError { throw configurationError }
        do {
            try await self.client.start()
        } catch {
            throw self.converted(error, isStart: true)
        }
    }

    /// Closes the connection. All calls and streams fail.
    ///
    /// Returns when the handlers of ``onClosed(handler:)`` have returned, unless it is called by one of the handlers of the connection's
    /// states. Afterwards, the connection can be started again.
    public func stop() async {
        self.client.stop()
        await self.lifecycle.handled(self.client.lastUpdateNumber)
    }

    /// The ID of the connection, which the server knows as well; `nil` while the connection isn't established, and without a negotiation.
    public var connectionId: String? { self.client.connectionID }

    /// Returns the state of the connection.
    public func state() async -> HubConnectionState { HubConnectionState(self.client.state) }

    /// Returns the state of the connection.
    public func state() -> HubConnectionState { HubConnectionState(self.client.state) }

    /// Checks the connection now: connects immediately if it waits for its next attempt, and sends a ping if it is connected.
    public func checkConnection() { self.client.checkConnection() }

    /// Adds a closure that is called when the connection has been closed: it was stopped, the server closed it, or it was lost and
    /// isn't reconnected. It isn't called if ``start()`` throws an error.
    ///
    /// - Parameter handler: Receives the reason; `nil` if the connection was stopped, or closed by the server without an error. Called in a
    ///   task of the connection, or on the actor in which the closure was written.
    public func onClosed(@_inheritActorContext handler: @escaping @Sendable ((any Error)?) async -> Void) {
        self.lifecycle.add(closed: handler)
    }

    /// Adds a closure that is called when the connection was lost, before the first attempt to reconnect.
    ///
    /// - Parameter handler: Receives the reason. Called once for each loss, in a task of the connection, or on the actor in which the
    ///   closure was written.
    public func onReconnecting(@_inheritActorContext handler: @escaping @Sendable ((any Error)?) async -> Void) {
        self.lifecycle.add(reconnecting: handler)
    }

    /// Adds a closure that is called when the connection has been established again.
    ///
    /// - Parameter handler: Called in a task of the connection, or on the actor in which the closure was written.
    public func onReconnected(@_inheritActorContext handler: @escaping @Sendable () async -> Void) {
        self.lifecycle.add(reconnected: handler)
    }

    // MARK: Authentication

    /// Refreshes the authentication of the connection: the server replaces its access token with a new one, without a reconnect.
    ///
    /// Asks ``HttpConnectionOptions/accessTokenFactory`` for a new token, and sends it to the server. Calls at the same time share one
    /// request.
    ///
    /// - Returns: The lifetime of the new authentication in seconds; `nil` if it doesn't expire.
    /// - Throws: ``SignalRError/authenticationRefreshFailed(_:status:code:)`` if the server refuses, or the time limit is exceeded; the
    ///   earlier authentication and the connection remain. Errors of the factory are thrown unchanged. ``SignalRError/invalidOperation(_:)`` if there is no connection, the
    ///   reason if the connection is lost or stopped, and `CancellationError` immediately when the task is cancelled.
    @discardableResult
    public func refreshAuthentication() async throws -> TimeInterval? {
        do {
            return try await self.client.refreshAuthentication().map { $0 / .seconds(1) }
        } catch {
            throw SignalRError.refreshFailure(error, serverTimeout: self.client.configuration.serverTimeout)
        }
    }

    /// Adds a closure that is called when the authentication has been refreshed, manually or automatically.
    ///
    /// - Parameter handler: Receives the lifetime of the new authentication in seconds; `nil` if it doesn't expire. Called in a task of the
    ///   connection, or on the actor in which the closure was written.
    public func onAuthenticationRefreshed(@_inheritActorContext handler: @escaping @Sendable (TimeInterval?) async -> Void) {
        self.lifecycle.add(refreshed: handler)
    }

    /// Adds a closure that is called when the authentication couldn't be refreshed, manually or automatically. The connection remains.
    ///
    /// - Parameter handler: Receives the reason. Called in a task of the connection, or on the actor in which the closure was written.
    public func onAuthenticationRefreshFailed(@_inheritActorContext handler: @escaping @Sendable (any Error) async -> Void) {
        self.lifecycle.add(refreshFailed: handler)
    }

    // MARK: Calls

    /// Calls a method of the hub without waiting for its end. The server reports neither a result nor an error.
    ///
    /// With long polling and Server-Sent Events, the call waits until the server has answered the request with the message, as in Microsoft's
    /// clients.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments: `Encodable` values, arrays and dictionaries with elements of the type `Any`, and asynchronous sequences
    ///     of such values, which are streams to the server.
    /// - Throws: ``SignalRError/invalidOperation(_:)`` if there is no connection, ``SignalRError/invalidData(_:)`` if an argument can't be
    ///   encoded; the reason if the connection ends, and `CancellationError` if the task is cancelled, while the call waits for that answer or
    ///   for a server that reads slowly.
    public func send(method: String, arguments: Any...) async throws {
        try await self.send(method, arguments)
    }

    /// Calls a method of the hub and waits for its end.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments: `Encodable` values, arrays and dictionaries with elements of the type `Any`, and asynchronous sequences
    ///     of such values, which are streams to the server.
    /// - Throws: ``SignalRError/invocationError(_:)`` if the method failed, ``SignalRError/invalidOperation(_:)`` if there is no
    ///   connection, the reason if the connection is lost or stopped, ``SignalRError/invalidData(_:)`` if an argument can't be encoded, and
    ///   `CancellationError` immediately when the task is cancelled.
    public func invoke(method: String, arguments: Any...) async throws {
        _ = try await self.result(method, arguments)
    }

    /// Calls a method of the hub and waits for its result.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments: `Encodable` values, arrays and dictionaries with elements of the type `Any`, and asynchronous sequences
    ///     of such values, which are streams to the server.
    /// - Returns: The result. Its type must be `Decodable`.
    /// - Throws: ``SignalRError/invocationError(_:)`` if the method failed, ``SignalRError/invalidOperation(_:)`` if there is no
    ///   connection, the reason if the connection is lost or stopped, ``SignalRError/invalidData(_:)`` if an argument can't be encoded or
    ///   the result can't be decoded, and `CancellationError` immediately when the task is cancelled.
    public func invoke<TReturn>(method: String, arguments: Any...) async throws -> TReturn {
        try self.decode(try await self.result(method, arguments), of: method)
    }

    /// Calls a method of the hub that returns a stream.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments: `Encodable` values, arrays and dictionaries with elements of the type `Any`, and asynchronous sequences
    ///     of such values, which are streams to the server.
    /// - Returns: The stream. The type of its elements must be `Decodable`.
    /// - Throws: ``SignalRError/invalidOperation(_:)`` if there is no connection, ``SignalRError/invalidData(_:)`` if an argument can't be
    ///   encoded.
    public func stream<Element>(method: String, arguments: Any...) async throws -> any StreamResult<Element> {
        try self.openStream(method, arguments)
    }

    /// Calls a method of the hub without waiting for its end; see ``send(method:arguments:)``.
    public func send(_ method: String, arguments: Any...) async throws { try await self.send(method, arguments) }

    /// Calls a method of the hub and waits for its end; see `invoke(method:arguments:)`.
    public func invoke(_ method: String, arguments: Any...) async throws { _ = try await self.result(method, arguments) }

    /// Calls a method of the hub and waits for its result; see `invoke(method:arguments:)`.
    public func invoke<TReturn>(_ method: String, arguments: Any...) async throws -> TReturn {
        try self.decode(try await self.result(method, arguments), of: method)
    }

    /// Calls a method of the hub that returns a stream; see ``stream(method:arguments:)``.
    public func stream<Element>(_ method: String, arguments: Any...) async throws -> any StreamResult<Element> {
        try self.openStream(method, arguments)
    }

    private func send(_ method: String, _ arguments: [Any]) async throws {
        do {
            let (payload, uploads) = try self.client.coder.untyped(arguments, method)
            try await self.client.send(method, payload, streams: uploads)
        } catch {
            throw self.converted(error)
        }
    }

    private func result(_ method: String, _ arguments: [Any]) async throws -> HubPayload? {
        do {
            let (payload, uploads) = try self.client.coder.untyped(arguments, method)
            return try await self.client.invoke(method, payload, streams: uploads)
        } catch {
            throw self.converted(error)
        }
    }

    private func decode<Value>(_ payload: HubPayload?, of method: String) throws -> Value {
        do {
            return try self.client.coder.decodeUntyped(Value.self, from: payload)
        } catch {
            throw SignalRError.invalidData("The result of \(method) can't be decoded as \(Value.self): \(HubValueError.reason(error)).")
        }
    }

    private func openStream<Element>(_ method: String, _ arguments: [Any]) throws -> any StreamResult<Element> {
        do {
            let (payload, uploads) = try self.client.coder.untyped(arguments, method)
            let coder = self.client.coder
            return HubConnectionStream(
                try self.client.stream(method, payload, streams: uploads) { try coder.decodeUntyped(Element.self, from: $0) },
                serverTimeout: self.client.configuration.serverTimeout)
        } catch {
            throw self.converted(error)
        }
    }

    private func converted(_ error: HubError, isStart: Bool = false) -> any Error {
        SignalRError.converted(error, serverTimeout: self.client.configuration.serverTimeout, isStart: isStart)
    }

    // MARK: Handlers

    /// Adds a handler without a result for a method that the server calls.
    ///
    /// A method can have several handlers, which are called in the order in which they were added.
    ///
    /// - Parameters:
    ///   - methodName: The name of the method, which is case-sensitive.
    ///   - handler: Receives the arguments, whose types must be `Decodable`. If they can't be decoded, or are fewer, the handler isn't
    ///     called, and the reason is logged. Called in a task of the connection, or on the actor in which the closure was written.
    /// - Returns: The registration, with which this handler can be removed.
    @discardableResult
    public func on<each Argument>(
        _ methodName: String, @_inheritActorContext handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Void
    ) -> HubHandlerToken {
        self.add(methodName, handler)
    }

    /// Adds a handler with a result for a method that the server calls.
    ///
    /// - Parameters:
    ///   - methodName: The name of the method, which is case-sensitive.
    ///   - handler: Receives the arguments, and returns the result, whose type must be `Encodable`. If it throws, the server receives the
    ///     message of a ``/SignalRHubs/HubError``, and the type of any other error.
    /// - Returns: The registration, with which this handler can be removed.
    @discardableResult
    public func on<each Argument, Result>(
        _ methodName: String, @_inheritActorContext handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Result
    ) -> HubHandlerToken {
        self.add(methodName, handler)
    }

    /// Adds a handler without a result for a method that the server calls, in code that writes `await` before the call.
    @discardableResult
    public func on<each Argument>(
        _ methodName: String, @_inheritActorContext handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Void
    ) async -> HubHandlerToken {
        self.add(methodName, handler)
    }

    /// Adds a handler with a result for a method that the server calls, in code that writes `await` before the call.
    @discardableResult
    public func on<each Argument, Result>(
        _ methodName: String, @_inheritActorContext handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Result
    ) async -> HubHandlerToken {
        self.add(methodName, handler)
    }

    private func add<each Argument, Result>(
        _ methodName: String, _ handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Result
    ) -> HubHandlerToken {
        let coder = self.client.coder
        return self.client.on(methodName) { (invocation: HubInvocation) in
            var arguments = try coder.decodeArguments(invocation.arguments)
            let result = try await handler(repeat try arguments.nextUntyped((each Argument).self))
            return try invocation.encodedResult { try coder.untypedPayload(result) }
        }
    }

    /// Removes all handlers of a method.
    public func off(method: String) { self.client.off(method) }
}

/// The state of a ``HubConnection``.
public enum HubConnectionState: Sendable {
    /// The connection hasn't been started, or has ended.
    case Stopped
    /// The connection is being established for the first time.
    case Connecting
    /// The connection is established.
    case Connected
    /// The connection was lost, and is being established again.
    case Reconnecting

    init(_ state: HubState) {
        switch state {
        case .stopped: self = .Stopped
        case .connecting: self = .Connecting
        case .connected: self = .Connected
        case .reconnecting: self = .Reconnecting
        }
    }
}

import RealtimeCore
public import SignalRWire

/// A hub of a server: the methods that its clients can call, and its connected clients.
///
/// ```swift
/// let chat = server.hub("/chat")
/// chat.on("Send") { (caller, user: String, text: String) in
///     try await caller.clients.all.send("Receive", user, text)
/// }
/// chat.on("Add") { (caller, a: Int, b: Int) in a + b }
/// chat.stream("Count") { (caller, count: Int) in
///     AsyncStream { continuation in
///         for number in 0..<max(0, min(count, 1000)) { continuation.yield(number) }
///         continuation.finish()
///     }
/// }
/// ```
/// ### Methods
///
/// The names of methods are case-insensitive. The parameters after the ``HubCaller`` are the client's arguments: any `Decodable` types, and
/// ``HubStream`` for a stream from the client. If the arguments don't match, the client receives an error that says which one.
///
/// A method can throw a ``HubException``, whose message the client receives. Other errors are reported to the client without details.
///
/// The methods that one connection calls run one after the other, in the order of the calls; those that return or receive a stream run
/// beside the others. Methods of different connections run concurrently. The task of a method is cancelled when the client cancels the call
/// or the connection ends.
public final class Hub: Sendable {
    /// The path of the hub.
    public let path: String
    let id: HubID
    let handlers: HubHandlers
    let driver: SessionDriver<SignalRServerMachine>

    init(_ handlers: HubHandlers, id: HubID, driver: SessionDriver<SignalRServerMachine>) {
        (self.path, self.id, self.handlers, self.driver) = (handlers.path, id, handlers, driver)
    }

    // MARK: Methods

    // The types of methods are `@concurrent`: without it, the compiler (6.3) crashes in a generic function that passes a closure whose
    // parameters are a pack.

    /// Sets a method that returns a value. Replaces a method with the same name.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - body: A closure that receives the caller and the arguments, and returns the result. It runs in a task of its own.
    public func on<each Argument: Decodable & Sendable, Result: Encodable & SendableMetatype>(
        _ method: String, _ body: @escaping @concurrent @Sendable (_ caller: HubCaller, repeat each Argument) async throws -> Result
    ) {
        self.handlers.set(
            HubMethod(name: method, isStreaming: false) { context in
                var reader = try context.arguments(for: repeat (each Argument).self)
                let result = try await body(context.caller, repeat reader.next((each Argument).self))
                return .result(try context.coder.payload(result))
            })
    }

    /// Sets a method that returns nothing. Replaces a method with the same name.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - body: A closure that receives the caller and the arguments. It runs in a task of its own.
    public func on<each Argument: Decodable & Sendable>(
        _ method: String, _ body: @escaping @concurrent @Sendable (_ caller: HubCaller, repeat each Argument) async throws -> Void
    ) {
        self.handlers.set(
            HubMethod(name: method, isStreaming: false) { context in
                var reader = try context.arguments(for: repeat (each Argument).self)
                try await body(context.caller, repeat reader.next((each Argument).self))
                return .void
            })
    }

    /// Sets a method that returns a stream. Replaces a method with the same name.
    ///
    /// The server iterates the sequence until it ends or the client cancels the stream. It doesn't ask for the next item while the client
    /// reads more slowly than items are produced.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - body: A closure that receives the caller and the arguments, and returns the items as any asynchronous sequence. It runs in a task
    ///     of its own, and so does the iteration.
    public func stream<each Argument: Decodable & Sendable, Items: AsyncSequence & SendableMetatype>(
        _ method: String, _ body: @escaping @concurrent @Sendable (_ caller: HubCaller, repeat each Argument) async throws -> Items
    ) where Items.Element: Encodable {
        self.handlers.set(
            HubMethod(name: method, isStreaming: true) { context in
                var reader = try context.arguments(for: repeat (each Argument).self)
                let items = try await body(context.caller, repeat reader.next((each Argument).self))
                return try await context.send(items)
            })
    }

    /// Removes a method. Calls that have started continue.
    public func off(_ method: String) { self.handlers.removeMethod(method) }

    // MARK: Connections

    /// Sets the closure that is called when a client has connected, before its calls. Replaces an earlier one.
    ///
    /// If it throws, the server closes the connection, and the client doesn't reconnect automatically.
    public func onConnected(_ handler: @escaping @Sendable (_ caller: HubCaller) async throws -> Void) {
        self.handlers.setConnected(handler)
    }

    /// Sets the closure that is called when a connection has ended, after its last call has ended. Replaces an earlier one.
    ///
    /// The error says why, and is `nil` if the client or the server closed the connection in an orderly way. The closure isn't called if
    /// the one for ``onConnected(_:)`` has thrown an error.
    public func onDisconnected(_ handler: @escaping @Sendable (_ caller: HubCaller, _ error: HubException?) async -> Void) {
        self.handlers.setDisconnected(handler)
    }

    /// The connected clients.
    public var clients: HubClients { HubClients(self.context) }

    /// The groups of connections.
    public var groups: HubGroups { HubGroups(self.context) }

    /// The IDs of the connections, sorted.
    public var connectionIDs: [String] { self.driver.read { $0.connectionIDs(.all(except: []), self.id) } }

    var context: HubContext {
        HubContext(hub: self.id, driver: self.driver, clientResultTimeout: self.handlers.configuration.clientResultTimeout)
    }

    // MARK: Transports

    /// The transports that negotiations offer, and with which clients can connect. By default,
    /// ``SignalRServerConfiguration/transports``.
    ///
    /// Changes apply to connections that aren't open yet.
    public var transports: HubTransportKinds {
        get { self.driver.read { $0.hubs[self.id.rawValue].transports } }
        set { self.driver.step { machine, _, _ in machine.hubs[self.id.rawValue].transports = newValue } }
    }

    // MARK: For tests of clients

    /// Redirects negotiations to another URL from now on, as the Azure SignalR Service does.
    ///
    /// - Parameters:
    ///   - url: The URL of the other hub, to which clients append `negotiate`; `nil` to end the redirection.
    ///   - accessToken: The token that clients use there.
    public func redirect(to url: String?, accessToken: String? = nil) {
        let redirect = url.map { NegotiateResponse.Redirect(url: $0, accessToken: accessToken) }
        self.driver.step { machine, _, _ in machine.hubs[self.id.rawValue].redirect = redirect }
    }
}

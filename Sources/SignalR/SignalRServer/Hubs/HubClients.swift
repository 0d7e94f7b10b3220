public import RealtimeCoding
public import RealtimeCore
import SignalRWire

/// The state that the proxies of a hub share.
struct HubContext: Sendable {
    let hub: HubID
    let driver: SessionDriver<SignalRServerMachine>
    let clientResultTimeout: Duration

    /// Calls a method of several clients.
    func send(to target: HubTarget, _ message: (HubFormat) throws -> TransportMessage) throws {
        // Encoded once for each format, and outside the lock.
        var messages: [HubFormat: TransportMessage] = [:]
        for format in self.driver.read({ $0.formats(of: self.hub) }) { messages[format] = try message(format) }
        if messages.isEmpty { return }
        self.driver.step { machine, now, effects in machine.send(messages, to: target, of: self.hub, now: now, &effects) }
    }

    /// Encodes a call to which clients don't respond.
    static func message<each Argument: Encodable>(
        _ method: String, _ arguments: repeat each Argument, as format: HubFormat
    ) throws -> TransportMessage {
        try HubMessageWriter.invocation(of: method, format) {
            try HubValueCoder(format).appendArguments(repeat each arguments, to: &$0)
        }
    }

    /// Encodes a call with arguments whose number isn't known to the compiler, to which clients don't respond.
    static func message(_ method: String, values: [JSONValue], as format: HubFormat) throws -> TransportMessage {
        let arguments = try HubValueCoder(format).arguments(of: values)
        return HubMessageWriter.invocation(of: method, format) { $0 += arguments.bytes }
    }
}

/// The client that calls a method, or whose connection begins or ends.
public struct HubCaller: Sendable {
    let info: HubConnectionInfo
    let driver: SessionDriver<SignalRServerMachine>
    let configuration: SignalRServerConfiguration

    init(info: HubConnectionInfo, driver: SessionDriver<SignalRServerMachine>, configuration: SignalRServerConfiguration) {
        (self.info, self.driver, self.configuration) = (info, driver, configuration)
    }

    private var context: HubContext {
        HubContext(hub: self.info.hub, driver: self.driver, clientResultTimeout: self.configuration.clientResultTimeout)
    }

    /// The ID of the connection.
    public var connectionID: String { self.info.connectionID }
    /// The user, as the ``SignalRServerHooks/authenticate`` hook has decided; `nil` without one.
    public var userID: String? { self.info.userID }
    /// The request that opened the connection, with its query and header fields.
    public var request: HTTPRequestHead { self.info.request }
    /// The connected clients of the hub, as seen by this one.
    public var clients: HubCallerClients { HubCallerClients(self.context, self.connectionID) }
    /// The groups of the hub.
    public var groups: HubGroups { HubGroups(self.context) }

    /// Closes the connection.
    ///
    /// - Parameters:
    ///   - error: A message for the client, or `nil`.
    ///   - allowReconnect: Whether the client may reconnect automatically.
    public func close(error: String? = nil, allowReconnect: Bool = false) {
        self.driver.step { machine, now, effects in
            machine.close(self.info.id, error: error, allowReconnect: allowReconnect, now: now, &effects)
        }
    }
}

/// The connected clients of a hub.
public struct HubClients: Sendable {
    private let context: HubContext

    init(_ context: HubContext) {
        self.context = context
    }

    /// All clients.
    public var all: HubClientSet { self.allExcept([]) }

    /// All clients except some.
    public func allExcept(_ connectionIDs: [String]) -> HubClientSet { HubClientSet(self.context, .all(except: connectionIDs)) }

    /// The client with a connection ID.
    public func client(_ connectionID: String) -> HubClientProxy { HubClientProxy(self.context, connectionID) }

    /// The clients with some connection IDs.
    public func clients(_ connectionIDs: [String]) -> HubClientSet { HubClientSet(self.context, .connections(connectionIDs)) }

    /// The members of a group.
    public func group(_ name: String) -> HubClientSet { self.groupExcept(name, []) }

    /// The members of a group except some.
    public func groupExcept(_ name: String, _ connectionIDs: [String]) -> HubClientSet {
        HubClientSet(self.context, .groups([name], except: connectionIDs))
    }

    /// The members of several groups. A client that is a member of several of them receives a message once.
    public func groups(_ names: [String]) -> HubClientSet { HubClientSet(self.context, .groups(names, except: [])) }

    /// The clients of a user.
    public func user(_ userID: String) -> HubClientSet { self.users([userID]) }

    /// The clients of several users.
    public func users(_ userIDs: [String]) -> HubClientSet { HubClientSet(self.context, .users(userIDs)) }
}

/// The connected clients of a hub, as seen by one of them.
public struct HubCallerClients: Sendable {
    private let context: HubContext
    private let connectionID: String
    private let clients: HubClients

    init(_ context: HubContext, _ connectionID: String) {
        (self.context, self.connectionID, self.clients) = (context, connectionID, HubClients(context))
    }

    /// The client itself.
    public var caller: HubClientProxy { HubClientProxy(self.context, self.connectionID) }

    /// All other clients.
    public var others: HubClientSet { self.clients.allExcept([self.connectionID]) }

    /// The other members of a group.
    public func othersInGroup(_ name: String) -> HubClientSet { self.clients.groupExcept(name, [self.connectionID]) }

    /// All clients, including this one.
    public var all: HubClientSet { self.clients.all }

    /// All clients except some.
    public func allExcept(_ connectionIDs: [String]) -> HubClientSet { self.clients.allExcept(connectionIDs) }

    /// The client with a connection ID.
    public func client(_ connectionID: String) -> HubClientProxy { self.clients.client(connectionID) }

    /// The clients with some connection IDs.
    public func clients(_ connectionIDs: [String]) -> HubClientSet { self.clients.clients(connectionIDs) }

    /// The members of a group.
    public func group(_ name: String) -> HubClientSet { self.clients.group(name) }

    /// The members of a group except some.
    public func groupExcept(_ name: String, _ connectionIDs: [String]) -> HubClientSet {
        self.clients.groupExcept(name, connectionIDs)
    }

    /// The members of several groups. A client that is a member of several of them receives a message once.
    public func groups(_ names: [String]) -> HubClientSet { self.clients.groups(names) }

    /// The clients of a user.
    public func user(_ userID: String) -> HubClientSet { self.clients.user(userID) }

    /// The clients of several users.
    public func users(_ userIDs: [String]) -> HubClientSet { self.clients.users(userIDs) }
}

/// Some clients of a hub, to which messages can be sent.
///
/// It is evaluated for each message: a message goes to the clients that are connected and members when it is sent.
public struct HubClientSet: Sendable {
    private let context: HubContext
    private let target: HubTarget

    init(_ context: HubContext, _ target: HubTarget) {
        (self.context, self.target) = (context, target)
    }

    /// Calls a method of the clients, without a result.
    ///
    /// The messages are sent in the order of the calls. The call doesn't wait for slow clients: a client that reads too slowly for too long
    /// is disconnected, as the listener's limits say.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments, which are encoded before the call returns.
    /// - Throws: An error that names the argument that cannot be encoded.
    public func send<each Argument: Encodable>(_ method: String, _ arguments: repeat each Argument) async throws {
        try self.context.send(to: self.target) { try HubContext.message(method, repeat each arguments, as: $0) }
    }

    /// Calls a method of the clients with literals or other JSON values, without a result.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: An error that names the argument that cannot be encoded.
    @_disfavoredOverload
    public func send(_ method: String, _ first: JSONValue, _ rest: JSONValue...) async throws {
        try self.context.send(to: self.target) { try HubContext.message(method, values: [first] + rest, as: $0) }
    }

    /// The IDs of the connections, sorted.
    public var connectionIDs: [String] {
        self.context.driver.read { $0.connectionIDs(self.target, self.context.hub) }
    }
}

/// One client of a hub.
public struct HubClientProxy: Sendable {
    private let context: HubContext
    /// The ID of the connection.
    public let connectionID: String

    init(_ context: HubContext, _ connectionID: String) {
        (self.context, self.connectionID) = (context, connectionID)
    }

    /// Calls a method of the client, without a result. Does nothing if the client isn't connected.
    ///
    /// The messages are sent in the order of the calls. If the client reads more slowly than messages are sent, the call waits until it has
    /// caught up, and then sends.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments, which are encoded before the call returns.
    /// - Throws: An error that names the argument that cannot be encoded, or `CancellationError` if the task is cancelled
    ///   while the call waits. The message isn't sent then.
    public func send<each Argument: Encodable>(_ method: String, _ arguments: repeat each Argument) async throws {
        guard let format = self.format else { return }
        try await self.send(try HubContext.message(method, repeat each arguments, as: format))
    }

    /// Calls a method of the client with literals or other JSON values, without a result. Does nothing if the client isn't connected.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of ``send(_:_:)``.
    @_disfavoredOverload
    public func send(_ method: String, _ first: JSONValue, _ rest: JSONValue...) async throws {
        guard let format = self.format else { return }
        try await self.send(try HubContext.message(method, values: [first] + rest, as: format))
    }

    /// The format of the client's messages; `nil` if it isn't connected.
    private var format: HubFormat? { self.context.driver.read { $0.format(of: self.connectionID, self.context.hub) } }

    private func send(_ message: TransportMessage) async throws {
        let (driver, hub) = (self.context.driver, self.context.hub)
        do throws(SignalRServerMachine.Failure) {
            try await driver.sendWhenWritable(awaitsPeer: false) { () throws(SignalRServerMachine.Failure) in
                var isSent = false
                driver.step { machine, now, effects in isSent = machine.send(message, to: self.connectionID, of: hub, now: now, &effects) }
                return isSent
            } wait: { machine, waiter, effects in
                machine.awaitWriting(self.connectionID, of: hub, waiter, &effects)
            }
        } catch .cancelled {
            throw CancellationError()
        } catch {
            // The connection has ended.
        }
    }

    /// Calls a method of the client, and waits for its result.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments, which are encoded before the call returns.
    ///   - type: The type of the result.
    ///   - timeLimit: The maximum time to wait; `nil` for ``SignalRServerConfiguration/clientResultTimeout``.
    /// - Returns: The result.
    /// - Throws: A ``HubInvocationError``, an `EncodingError`, the error that the `encode(to:)` of an argument throws, or
    ///   `CancellationError` if the task is cancelled.
    public func invoke<each Argument: Encodable, Result: Decodable>(
        _ method: String, _ arguments: repeat each Argument, returning type: Result.Type = Result.self, timeLimit: Duration? = nil
    ) async throws -> Result {
        try self.decode(try await self.result(method, timeLimit) { try $0.arguments(repeat each arguments) }, method)
    }

    /// Calls a method of the client, and waits until it has returned.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - arguments: The arguments, which are encoded before the call returns.
    ///   - timeLimit: The maximum time to wait; `nil` for ``SignalRServerConfiguration/clientResultTimeout``.
    /// - Throws: A ``HubInvocationError``, an `EncodingError`, the error that the `encode(to:)` of an argument throws, or
    ///   `CancellationError` if the task is cancelled.
    public func invoke<each Argument: Encodable>(
        _ method: String, _ arguments: repeat each Argument, timeLimit: Duration? = nil
    ) async throws {
        _ = try await self.result(method, timeLimit) { try $0.arguments(repeat each arguments) }
    }

    /// Calls a method of the client with literals or other JSON values, and waits for its result.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - type: The type of the result.
    ///   - timeLimit: The maximum time to wait; `nil` for ``SignalRServerConfiguration/clientResultTimeout``.
    /// - Returns: The result.
    /// - Throws: The errors of ``invoke(_:_:returning:timeLimit:)``.
    @_disfavoredOverload
    public func invoke<Result: Decodable>(
        _ method: String, _ first: JSONValue, _ rest: JSONValue..., returning type: Result.Type = Result.self, timeLimit: Duration? = nil
    ) async throws -> Result {
        try self.decode(try await self.result(method, timeLimit) { try $0.arguments(of: [first] + rest) }, method)
    }

    /// Calls a method of the client with literals or other JSON values, and waits until it has returned.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - timeLimit: The maximum time to wait; `nil` for ``SignalRServerConfiguration/clientResultTimeout``.
    /// - Throws: The errors of ``invoke(_:_:timeLimit:)``.
    @_disfavoredOverload
    public func invoke(_ method: String, _ first: JSONValue, _ rest: JSONValue..., timeLimit: Duration? = nil) async throws {
        _ = try await self.result(method, timeLimit) { try $0.arguments(of: [first] + rest) }
    }

    private func decode<Result: Decodable>(_ result: (payload: HubPayload?, coder: HubValueCoder), _ method: String) throws -> Result {
        do {
            return try result.coder.decode(Result.self, from: result.payload ?? .null(result.coder.format))
        } catch {
            throw HubInvocationError(.invalidResult, "Invalid result of the client's method '\(method)': \(error)")
        }
    }

    private func result(
        _ method: String, _ timeLimit: Duration?, arguments: (HubValueCoder) throws -> HubPayload
    ) async throws -> (payload: HubPayload?, coder: HubValueCoder) {
        try Task.checkCancellation()
        let (driver, hub) = (self.context.driver, self.context.hub)
        guard let format = self.format else { throw self.error(.unknownConnection, method) }
        let coder = HubValueCoder(format)
        let payload = try arguments(coder)
        do throws(SignalRServerMachine.Failure) {
            let limit = timeLimit ?? self.context.clientResultTimeout
            let result = try await driver.awaitResult(limit: limit, awaitsPeer: false) { machine, waiter, now, effects in
                machine.invoke(method, payload, on: self.connectionID, of: hub, waiter, now: now, &effects)
            }
            guard case .result(let payload) = result else { return (nil, coder) }
            return (payload, coder)
        } catch {
            throw self.error(error, method)
        }
    }

    private func error(_ failure: SignalRServerMachine.Failure, _ method: String) -> any Error {
        switch failure {
        case .cancelled: CancellationError()
        case .timedOut(let limit):
            HubInvocationError(.timedOut, "\(limit): the client's method '\(method)' did not return a result.")
        case .unknownConnection: HubInvocationError(.unknownConnection, "Connection '\(self.connectionID)' does not exist.")
        case .disconnected:
            HubInvocationError(.disconnected, "The connection ended before the client's method '\(method)' returned a result.")
        case .failed(let message): HubInvocationError(.failed, message)
        }
    }
}

/// The groups of a hub. A group exists while it has members. A connection leaves its groups when it ends.
public struct HubGroups: Sendable {
    private let context: HubContext

    init(_ context: HubContext) {
        self.context = context
    }

    /// Adds a connection to a group. Does nothing if the connection has ended or is a member already.
    public func add(_ connectionID: String, to group: String) {
        self.context.driver.step { machine, _, _ in machine.add(connectionID, to: group, of: self.context.hub) }
    }

    /// Removes a connection from a group. Does nothing if it isn't a member.
    public func remove(_ connectionID: String, from group: String) {
        self.context.driver.step { machine, _, _ in machine.remove(connectionID, from: group, of: self.context.hub) }
    }
}

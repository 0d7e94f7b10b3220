import RealtimeCore
import RealtimeSystem
import SignalRWire

/// A method of a hub, without the types of its parameters.
struct HubMethod: Sendable {
    let name: String
    let isStreaming: Bool
    let body: @Sendable (HubInvocationContext) async throws -> HubCompletion
}

/// The application's closures for a hub.
///
/// The driver's work refers to this and not to ``Hub``, which refers to the driver.
final class HubHandlers: Sendable {
    private struct State: Sendable {
        /// By their names in lower case: the names are case-insensitive.
        var methods: [ByteString: HubMethod] = [:]
        var connected: (@Sendable (HubCaller) async throws -> Void)?
        var disconnected: (@Sendable (HubCaller, HubException?) async -> Void)?
    }

    private let state = Lock(State())
    let path: String
    let configuration: SignalRServerConfiguration

    init(path: String, configuration: SignalRServerConfiguration) {
        (self.path, self.configuration) = (path, configuration)
    }

    private static func key(_ method: String) -> ByteString { ByteString(method.lowercased()) }

    // Each of these returns what it replaces, so that it is released after the lock.

    func set(_ method: HubMethod) {
        let key = Self.key(method.name)
        _ = self.state.withLock { $0.methods.updateValue(method, forKey: key) }
    }

    func removeMethod(_ name: String) {
        let key = Self.key(name)
        _ = self.state.withLock { $0.methods.removeValue(forKey: key) }
    }

    func setConnected(_ handler: @escaping @Sendable (HubCaller) async throws -> Void) {
        _ = self.state.withLock { state in
            defer { state.connected = handler }
            return state.connected
        }
    }

    func setDisconnected(_ handler: @escaping @Sendable (HubCaller, HubException?) async -> Void) {
        _ = self.state.withLock { state in
            defer { state.disconnected = handler }
            return state.disconnected
        }
    }

    /// Releases the closures, which may refer to the hub.
    func removeAll() {
        _ = self.state.withLock { state in
            defer { state = State() }
            return state
        }
    }

    // MARK: Calls

    /// Runs the application's code of a call.
    func run(_ call: HubCall, _ driver: SessionDriver<SignalRServerMachine>) async -> HubCompletion {
        let caller = HubCaller(info: call.connection, driver: driver, configuration: self.configuration)
        switch call.operation {
        case .connected:
            do {
                try await self.state.withLock { $0.connected }?(caller)
                return .void
            } catch {
                return .error(HubErrorText.connection(error, isDetailed: self.configuration.sendsDetailedErrors))
            }
        case .disconnected(let error):
            await self.state.withLock { $0.disconnected }?(caller, error.map { HubException($0) })
            return .void
        case .invocation(let invocation, let isStreaming):
            return await self.run(invocation, isStreaming, HubInvocationContext(caller, call, invocation, self.configuration, driver))
        }
    }

    private func run(_ invocation: HubInvocation, _ isStreaming: Bool, _ context: HubInvocationContext) async -> HubCompletion {
        let name = Excerpt.of(invocation.target, limit: 200)
        let key = Self.key(invocation.target)
        guard let method = self.state.withLock({ $0.methods[key] }) else { return .error(HubErrorText.unknownMethod(name)) }
        guard method.isStreaming == isStreaming else {
            return .error(method.isStreaming ? HubErrorText.needsStream(name) : HubErrorText.needsInvocation(name))
        }
        do {
            return try await method.body(context)
        } catch let error as HubBindingError {
            return .error(HubErrorText.binding(name, "InvalidDataException: \(error)"))
        } catch {
            if Task.isCancelled { return isStreaming ? .void : .error(SignalRServerMachine.cancellationText) }
            return .error(HubErrorText.invocation(name, error, isDetailed: self.configuration.sendsDetailedErrors))
        }
    }
}

/// An invocation of a method, in the task of its call.
struct HubInvocationContext: Sendable {
    let caller: HubCaller
    let call: HubCall
    let invocation: HubInvocation
    let coder: HubValueCoder
    private let configuration: SignalRServerConfiguration
    private let driver: SessionDriver<SignalRServerMachine>

    init(
        _ caller: HubCaller, _ call: HubCall, _ invocation: HubInvocation, _ configuration: SignalRServerConfiguration,
        _ driver: SessionDriver<SignalRServerMachine>
    ) {
        (self.caller, self.call, self.invocation) = (caller, call, invocation)
        self.coder = HubValueCoder(call.connection.format)
        (self.configuration, self.driver) = (configuration, driver)
    }

    /// Returns a reader of the arguments for a method with these parameters.
    ///
    /// - Throws: ``HubBindingError`` if their number is wrong, and ``HubException`` if the number of streams is, as in ASP.NET Core.
    func arguments<each Argument: Decodable>(for types: repeat (each Argument).Type) throws -> HubArgumentReader {
        var arguments: HubArguments
        let count: Int
        do {
            arguments = try self.coder.decodeArguments(self.invocation.arguments)
            count = try arguments.count()
        } catch {
            throw HubBindingError(description: "Invalid arguments: \(error)")
        }
        var (values, streams) = (0, 0)
        for type in repeat each types {
            if type is any HubStreamParameter.Type { streams += 1 } else { values += 1 }
        }
        guard count == values else {
            throw HubBindingError(description: "Invocation provides \(count) argument(s) but target expects \(values).")
        }
        guard self.invocation.streamIDs.count == streams else {
            throw HubException("Client sent \(self.invocation.streamIDs.count) stream(s), Hub method expects \(streams).")
        }
        return HubArgumentReader(arguments: arguments, context: self)
    }

    func stream(_ id: String) -> HubStreamSource {
        HubStreamSource(id: ByteString(id), connection: self.call.connection.id, coder: self.coder, driver: self.driver)
    }

    /// Sends the items of a stream, and waits while the client reads more slowly than the items are produced.
    func send<Items: AsyncSequence>(_ items: Items) async throws -> HubCompletion where Items.Element: Encodable {
        guard let id = self.invocation.id else { return .void }
        do {
            var turn = StreamTurn()
            for try await item in items {
                try Task.checkCancellation()
                let payload = try self.coder.payload(item)
                // Neither the items nor a client that reads may ever suspend the task, and there are few threads for all tasks.
                if turn.ends(with: payload.bytes.count) { await Task.yield() }
                try await self.send(HubMessageWriter.message(.streamItem(id: id, payload), self.call.connection.format))
            }
            return .void
        } catch {
            if Task.isCancelled { return .void }
            return .error(HubErrorText.stream(error, isDetailed: self.configuration.sendsDetailedErrors))
        }
    }

    private func send(_ message: TransportMessage) async throws {
        try await self.driver.sendWhenWritable(awaitsPeer: false) { () throws(SignalRServerMachine.Failure) in
            var result = SignalRServerMachine.SendResult.ended
            self.driver.step { machine, now, effects in result = machine.send(message, of: self.call, now: now, &effects) }
            switch result {
            case .sent: return true
            case .paused: return false
            case .ended: throw .disconnected
            }
        } wait: { machine, waiter, effects in
            machine.awaitWriting(self.call.connection.id, waiter, &effects)
        }
    }
}

/// Decides when a stream lets other tasks run, so that streams that never suspend don't delay the calls of other clients.
struct StreamTurn {
    /// The number of items that a stream sends in a turn.
    static let items = 16
    /// The number of bytes after which a turn ends earlier.
    static let bytes = 16 << 10

    private var items = 0
    private var bytes = 0

    /// Counts an item.
    ///
    /// - Returns: Whether the turn ends.
    mutating func ends(with bytes: Int) -> Bool {
        (self.items, self.bytes) = (self.items + 1, self.bytes + bytes)
        guard self.items >= Self.items || self.bytes >= Self.bytes else { return false }
        self = StreamTurn()
        return true
    }
}

/// Reads the arguments of an invocation, in the order of the method's parameters.
struct HubArgumentReader {
    private var arguments: HubArguments
    private let context: HubInvocationContext
    private var streamIndex = 0

    init(arguments: HubArguments, context: HubInvocationContext) {
        (self.arguments, self.context) = (arguments, context)
    }

    mutating func next<Argument: Decodable>(_ type: Argument.Type) throws -> Argument {
        if let stream = type as? any HubStreamParameter.Type {
            defer { self.streamIndex += 1 }
            // `arguments(for:)` has compared the numbers.
            let source = self.context.stream(self.context.invocation.streamIDs[self.streamIndex])
            if let argument = stream.init(source) as? Argument { return argument }
        }
        do {
            return try self.arguments.next(type)
        } catch {
            throw HubBindingError(description: "Error binding arguments: \(error)")
        }
    }
}

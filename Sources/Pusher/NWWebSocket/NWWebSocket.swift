public import Foundation
package import RealtimeCore
import RealtimeSystem
import RealtimeTransports
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif
#if canImport(Network)
public import Network
#endif

/// A WebSocket with a delegate, which is called on a queue.
///
/// Methods can be called from any thread. Late events of a connection that was ended are never reported.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
open class NWWebSocket: WebSocketConnection, @unchecked Sendable {
    private struct State: Sendable {
        /// `@unchecked Sendable`: a reference that is only read and written under the lock.
        struct Delegate: @unchecked Sendable { weak var value: (any WebSocketConnectionDelegate)? }

        struct Current: Sendable {
            var id: ConnectionID
            var connection: any MessageConnection
            /// The number of the use that connected.
            var use: UInt64
            /// The engine's connection that receives the events, if the transport is used directly.
            weak var directUse: (any DirectUse)?
        }

        struct Use: Sendable {
            /// Zero until an engine uses the socket.
            var number: UInt64 = 0
            var isOver = false
        }

        var delegate = Delegate()
        var url: URL
        var counter = ConnectionCounter()
        /// The connection that was made last, until it has ended.
        var current: Current?
        /// The use that began last.
        var use = Use()
        var lastError: TransportError?
        /// The size of the messages that wait for the queue.
        var waitingBytes = 0
        var isPaused = false
        var pings: PingTimer?

        func isCurrent(_ use: UInt64) -> Bool { self.use.number == use && !self.use.isOver }
    }

    /// `@unchecked Sendable`: a timer of Dispatch can be used on any thread.
    private struct PingTimer: @unchecked Sendable { let timer: any DispatchSourceTimer }

    private enum Event: Sendable {
        case opened
        case text(String), binary(Data)
        case pong
        case closed(CloseReason)
        case disconnected(CloseCode, use: UInt64)

        /// The size of the message that waits for the queue.
        var size: Int {
            switch self {
            case .text(let text): text.utf8.count
            case .binary(let data): data.count
            case .opened, .pong, .closed, .disconnected: 0
            }
        }
    }

    /// The settings that are fixed when the socket is created.
    private struct Settings: Sendable {
        var headers: HTTPHeaders = [:]
        var subprotocols: [String] = []
        var messageLimit = 16 << 20
    }

    /// The sizes of the waiting messages at which reading pauses and resumes.
    private static let pauseSize = 1 << 20, resumeSize = 256 << 10

    private let state: Lock<State>
    private let settings: Settings
    private let transport: any WebSocketTransport
    private let connectionQueue: DispatchQueue
    private let serialQueue: SerialQueue
    /// `nonisolated(unsafe)` is right because it is set once, at the end of the initializer, before another thread can have the socket.
    private nonisolated(unsafe) var delivery: CallbackQueue<(id: ConnectionID, event: Event)>!

    /// Settings with the default values.
    public static var defaultOptions: NWProtocolWebSocket.Options {
        let options = NWProtocolWebSocket.Options()
        options.autoReplyPing = true
        return options
    }

    /// Creates a socket for a request.
    ///
    /// - Parameters:
    ///   - request: The URL and additional header fields. Without a URL, connecting fails.
    ///   - connectAutomatically: Whether to connect immediately.
    ///   - options: The settings. On Apple platforms, only the maximum size of messages is used.
    ///   - connectionQueue: The queue on which the delegate is called. It must be a serial queue.
    public convenience init(
        request: URLRequest, connectAutomatically: Bool = false,
        options: NWProtocolWebSocket.Options = NWWebSocket.defaultOptions, connectionQueue: DispatchQueue = .main
    ) {
        var headers: HTTPHeaders = [:]
        for (name, value) in request.allHTTPHeaderFields ?? [:] { headers.add(name, value) }
        self.init(
            url: request.url, headers: headers, options: options, transport: Transports.standard.webSocket,
            connectionQueue: connectionQueue)
        if connectAutomatically { self.connect() }
    }

    /// Creates a socket for a URL.
    ///
    /// - Parameters:
    ///   - url: The URL, with the scheme `ws` or `wss`. With another one, connecting fails.
    ///   - connectAutomatically: Whether to connect immediately.
    ///   - options: The settings. On Apple platforms, only the maximum size of messages is used.
    ///   - connectionQueue: The queue on which the delegate is called. It must be a serial queue.
    public init(
        url: URL, connectAutomatically: Bool = false, options: NWProtocolWebSocket.Options = NWWebSocket.defaultOptions,
        connectionQueue: DispatchQueue = .main
    ) {
        self.state = Lock(State(url: url))
        self.settings = Self.settings(options, headers: [:])
        self.transport = Transports.standard.webSocket
        self.connectionQueue = connectionQueue
        self.serialQueue = SerialQueue(connectionQueue)
        self.delivery = self.makeDelivery()
        if connectAutomatically { self.connect() }
    }

    /// Creates a socket that uses a transport.
    package init(
        url: URL?, headers: HTTPHeaders = [:], options: NWProtocolWebSocket.Options = NWWebSocket.defaultOptions,
        transport: any WebSocketTransport, connectionQueue: DispatchQueue = .main
    ) {
        // An empty path isn't the URL of a server, so connecting fails.
        self.state = Lock(State(url: url ?? URL(fileURLWithPath: "/")))
        self.settings = Self.settings(options, headers: headers)
        self.transport = transport
        self.connectionQueue = connectionQueue
        self.serialQueue = SerialQueue(connectionQueue)
        self.delivery = self.makeDelivery()
    }

    deinit {
        let (current, pings) = self.state.withLock { ($0.current, $0.pings) }
        pings?.timer.cancel()
        current?.connection.close(.normal, reason: "")
    }

    private static func settings(_ options: NWProtocolWebSocket.Options, headers: HTTPHeaders) -> Settings {
        var settings = Settings(headers: headers)
        if options.maximumMessageSize > 0 { settings.messageLimit = options.maximumMessageSize }
        #if !canImport(Network)
        settings.subprotocols = options.subprotocols
        for (name, value) in options.additionalHeaders { settings.headers.add(name, value) }
        #endif
        return settings
    }

    private func makeDelivery() -> CallbackQueue<(id: ConnectionID, event: Event)> {
        self.serialQueue.callbacks { [weak self] item in self?.handle(item.event, of: item.id) }
    }

    /// The object that receives the events of the socket. It isn't retained.
    public var delegate: (any WebSocketConnectionDelegate)? {
        get { self.state.withLock { $0.delegate.value } }
        set { self.state.withLock { $0.delegate.value = newValue } }
    }

    /// The URL to connect to. A change applies to the next connection.
    package var url: URL {
        get { self.state.withLock { $0.url } }
        set { self.state.withLock { $0.url = newValue } }
    }

    /// The reason of the last failure, which contains more than the delegate receives.
    package var lastError: TransportError? { self.state.withLock { $0.lastError } }

    // MARK: Commands

    /// Connects. Has no effect while the socket is connecting or connected.
    open func connect() { self.connect(for: nil) }

    /// - Parameter use: The use that connects, or `nil` for the application.
    final func connect(for use: UInt64?) {
        typealias Connection = any MessageConnection
        let endpoint = Result { () throws(TransportError) in try Endpoint(self.url.absoluteString) }
        let (connection, replaced) = self.state.withLock { state -> (Connection?, Connection?) in
            if let use, !state.isCurrent(use) { return (nil, nil) }
            if let current = state.current, current.use == state.use.number { return (nil, nil) }
            // An earlier use hasn't disconnected yet, and can't any more.
            let replaced = state.current?.connection
            let id = state.counter.next()
            state.lastError = nil
            let request = self.request((try? endpoint.get()) ?? Endpoint(scheme: "ws", host: "", port: 0))
            let connection = self.transport.makeConnection(request, id: id, events: Events(self))
            state.current = State.Current(id: id, connection: connection, use: state.use.number)
            (state.waitingBytes, state.isPaused) = (0, false)
            if case .failure(let error) = endpoint {
                self.delivery.append((id, .closed(.transport(error))))
                return (nil, replaced)
            }
            return (connection, replaced)
        }
        replaced?.close(.goingAway, reason: "")
        connection?.open()
    }

    private func request(_ endpoint: Endpoint) -> WebSocketRequest {
        WebSocketRequest(
            endpoint, headers: self.settings.headers, subprotocols: self.settings.subprotocols, messageLimit: self.settings.messageLimit)
    }

    /// Sends a text message. It is dropped if the socket is neither connecting nor connected.
    ///
    /// - Parameter string: The text.
    open func send(string: String) { self.send(.text(string)) }

    /// Sends a binary message. It is dropped if the socket is neither connecting nor connected.
    ///
    /// - Parameter data: The bytes.
    open func send(data: Data) { self.send(.binary(Array(data))) }

    /// Does nothing: messages are received without it.
    public func listen() {}

    /// Sends pings at intervals, until the connection ends.
    ///
    /// - Parameter interval: The time between two pings in seconds.
    open func ping(interval: TimeInterval) {
        let timer = DispatchSource.makeTimerSource(queue: self.connectionQueue)
        timer.setEventHandler { [weak self] in self?.ping() }
        timer.schedule(deadline: .now() + interval, repeating: interval)
        let pings = PingTimer(timer: timer)
        let old = self.state.withLock { state in
            defer { state.pings = pings }
            return state.pings
        }
        old?.timer.cancel()
        timer.resume()
    }

    /// Sends a ping.
    open func ping() { self.send(TransportMessage(.ping, Array("ping".utf8))) }

    /// Disconnects. The delegate is informed immediately, without waiting for the server.
    ///
    /// - Parameter closeCode: The close code that the server receives.
    open func disconnect(closeCode: NWProtocolWebSocket.CloseCode = .protocolCode(.normalClosure)) {
        _ = self.disconnect(closeCode.number, for: nil)
    }

    /// - Parameter use: The use that disconnects, or `nil` for the application.
    /// - Returns: Whether there was a connection.
    final func disconnect(_ code: CloseCode, for use: UInt64?) -> Bool {
        let (current, pings) = self.take(for: use)
        pings?.timer.cancel()
        guard let current else { return false }
        if let directUse = current.directUse {
            directUse.socketDisconnected(code)
            return true
        }
        current.connection.close(code, reason: "")
        self.delivery.append((current.id, .disconnected(code, use: current.use)))
        self.serialQueue.deliver(self.delivery)
        return true
    }

    /// Ends the connection of a use without a close frame. The delegate isn't informed.
    final func abandon(for use: UInt64) {
        let (current, pings) = self.take(for: use)
        pings?.timer.cancel()
        current?.connection.abandon()
    }

    private func take(for use: UInt64?) -> (State.Current?, PingTimer?) {
        self.state.withLock { state in
            if let use {
                guard state.isCurrent(use) else { return (nil, nil) }
                state.use.isOver = true
            }
            defer { (state.current, state.pings) = (nil, nil) }
            return (state.current, state.pings)
        }
    }

    /// - Parameter use: The use that sends, or `nil` for the application.
    final func send(_ message: TransportMessage, for use: UInt64? = nil) {
        let connection = self.state.withLock { state in
            guard let current = state.current, use == nil || (use == current.use && state.isCurrent(current.use)) else {
                return nil as (any MessageConnection)?
            }
            return current.connection
        }
        guard let connection else { return }
        connection.enqueue(message)
        connection.flush()
    }

    // MARK: Uses

    enum UseState { case current, over, replaced }

    /// Begins a use; see ``SocketUse``.
    final func beginUse() -> UInt64 {
        self.state.withLock { state in
            state.use = State.Use(number: state.use.number + 1)
            return state.use.number
        }
    }

    /// Ends a use.
    ///
    /// - Returns: Whether it was the current one.
    final func endUse(_ use: UInt64) -> Bool {
        self.state.withLock { state in
            guard state.isCurrent(use) else { return false }
            state.use.isOver = true
            return true
        }
    }

    final func state(of use: UInt64) -> UseState {
        self.state.withLock { state in
            guard state.use.number == use else { return .replaced }
            return state.use.isOver ? .over : .current
        }
    }

    // MARK: Direct uses

    /// Whether an engine can use the transport directly, because nothing can tell the difference: the socket has no methods of its own, and
    /// its delegate is the object that would pass the events on to the engine.
    package final func isUsableDirectly(by delegate: any WebSocketConnectionDelegate) -> Bool {
        type(of: self) == NWWebSocket.self && self.delegate === delegate
    }

    /// Makes a connection of the transport for an engine; see ``SocketUse/direct(_:for:)``. The methods of the socket then act on it.
    final func makeConnection(
        for directUse: any DirectUse
    ) throws(TransportError) -> (connection: any MessageConnection, use: UInt64, (any MessageConnection)?) {
        let request = self.request(try Endpoint(self.url.absoluteString))
        return self.state.withLock { state in
            let id = state.counter.next()
            let connection = self.transport.makeConnection(request, id: id, events: directUse)
            let replaced = state.current?.connection
            state.use = State.Use(number: state.use.number + 1)
            state.current = State.Current(id: id, connection: connection, use: state.use.number, directUse: directUse)
            state.lastError = nil
            return (connection, state.use.number, replaced)
        }
    }

    /// Ends a direct use.
    ///
    /// - Parameter reason: Why the connection ended, or `nil` if the engine ended it.
    final func endUse(_ use: UInt64, with reason: CloseReason?) {
        let (current, pings) = self.take(for: use)
        pings?.timer.cancel()
        guard current != nil, case .transport(let error) = reason else { return }
        self.state.withLock { $0.lastError = error }
    }

    // MARK: Events

    /// Receives the events of the connections. It isn't the socket, because a connection retains it.
    private final class Events: MessageEvents {
        /// `nonisolated(unsafe)`: written once, and the runtime protects weak references.
        private nonisolated(unsafe) weak var socket: NWWebSocket?

        init(_ socket: NWWebSocket) { self.socket = socket }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.socket?.receive([.opened], from: id) }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            var events: [Event] = []
            for entry in batch.entries {
                switch entry.kind {
                case .text: events.append(.text(String(decoding: batch.bytes[entry.range], as: UTF8.self)))
                case .binary: events.append(.binary(Data(batch.bytes[entry.range])))
                case .pong: events.append(.pong)
                case .ping: break
                }
            }
            self.socket?.receive(events, from: id)
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.socket?.receive([.closed(reason)], from: id) }
    }

    private func receive(_ events: [Event], from id: ConnectionID) {
        let size = events.reduce(0) { $0 + $1.size }
        self.state.withLock { state in
            guard let current = state.current, current.id == id else { return }
            state.waitingBytes += size
            guard state.waitingBytes > Self.pauseSize, !state.isPaused else { return }
            state.isPaused = true
            // Under the lock, so that pausing and resuming keep their order.
            current.connection.pauseReading()
        }
        for event in events { self.delivery.append((id, event)) }
        self.serialQueue.deliver(self.delivery)
    }

    /// Informs the delegate, unless the connection isn't the current one.
    private func handle(_ event: Event, of id: ConnectionID) {
        let delegate: (any WebSocketConnectionDelegate)?
        if case .disconnected(_, let use) = event {
            // The object would take it for the end of the newer connection.
            delegate = self.state.withLock { $0.current == nil && $0.use.number == use ? $0.delegate.value : nil }
        } else {
            guard let current = self.current(for: event, of: id) else { return }
            delegate = current
        }
        switch event {
        case .opened: delegate?.webSocketDidConnect(connection: self)
        case .text(let text): delegate?.webSocketDidReceiveMessage(connection: self, string: text)
        case .binary(let data): delegate?.webSocketDidReceiveMessage(connection: self, data: data)
        case .pong: delegate?.webSocketDidReceivePong(connection: self)
        case .closed(.peer(let code, let text)):
            let reason = text.isEmpty ? nil : Data(text.utf8)
            delegate?.webSocketDidDisconnect(connection: self, closeCode: NWProtocolWebSocket.CloseCode(code), reason: reason)
        case .closed(.transport(let error)): delegate?.webSocketDidReceiveError(connection: self, error: NWError(error))
        case .closed(.openTimeout), .closed(.heartbeatTimeout):
            delegate?.webSocketDidReceiveError(connection: self, error: .posix(.ETIMEDOUT))
        case .closed(.requested): delegate?.webSocketDidDisconnect(connection: self, closeCode: .protocolCode(.normalClosure), reason: nil)
        case .disconnected(let code, _):
            delegate?.webSocketDidDisconnect(connection: self, closeCode: NWProtocolWebSocket.CloseCode(code), reason: nil)
        }
    }

    /// Returns the delegate if the connection is the current one, and records the event.
    private func current(for event: Event, of id: ConnectionID) -> (any WebSocketConnectionDelegate)? {
        var resumed: (any MessageConnection)?
        // Released after the lock.
        var ended: (current: State.Current, pings: PingTimer?)?
        defer {
            resumed?.flush()
            ended?.pings?.timer.cancel()
        }
        return self.state.withLock { state in
            guard let current = state.current, current.id == id else { return nil }
            state.waitingBytes -= event.size
            if case .closed(let reason) = event {
                ended = (current, state.pings)
                (state.current, state.pings) = (nil, nil)
                if case .transport(let error) = reason { state.lastError = error }
            }
            if state.isPaused, state.waitingBytes < Self.resumeSize {
                state.isPaused = false
                current.connection.resumeReading()
                resumed = current.connection
            }
            return state.delegate.value
        }
    }
}

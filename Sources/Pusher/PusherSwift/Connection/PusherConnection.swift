public import Foundation
public import NWWebSocket
import PusherChannels
import RealtimeCore
import RealtimeSystem
import RealtimeTransports
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

/// The connection of a client.
///
/// Methods can be called from any thread. The delegate and handlers are called on the queue of the client, which is the main queue by default:
/// in one order, and one at a time. A call that is made on this queue has informed them of its effects when it returns, unless one of them
/// made the call. What the socket reports during the call is handled in a later turn of the queue.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class PusherConnection: NSObject, @unchecked Sendable {
    /// An item that waits to be handled on the queue.
    enum Item: Sendable {
        case update(PusherUpdate)
        /// - Parameter isFromEngine: Whether the frame arrived on a connection of the engine, which has handled it as well.
        case frame(String, isFromEngine: Bool)
        case opened(SocketConnection, isDirect: Bool)
        /// A connection of the engine has ended. The engine's updates about it follow.
        case ended(CloseReason)
        case log(LogText)
        case disconnecting
        case authorize(PusherAuthorizationRequest, PusherAuthorizer.Completion)
        case authorizationFailed(PusherChannel, AuthorizationFailure)
        case decide(PusherRetryContext, @Sendable (Duration?) -> Void)
        case push(PushNotice)
    }

    struct State {
        struct Delegate { weak var value: (any PusherDelegate)? }

        var options: PusherClientOptions
        var globalChannel: GlobalChannel?
        var socketID: String?
        var socketConnected = false
        var isEstablished = false
        var connectionState = ConnectionState.disconnected
        var channels = PusherSwift.PusherChannels()
        var socket: NWWebSocket?
        var session: URLSession
        var userDataFetcher: (() -> PusherPresenceChannelMember)?
        var reconnectAttemptsMax: Int?
        var reconnectAttempts = 0
        var maxReconnectGap: Double? = 120
        var delegate = Delegate()
        var pongTimeout: TimeInterval = 30
        var activityTimeout: TimeInterval
        /// The activity timeout that the application has set on the connection.
        var ownActivityTimeout: TimeInterval?
        var pushService: AnyObject?
        var phase = PusherConnectionPhase.initialized
        var listeners = ConnectionListeners()
        /// The connection of the engine that uses the socket.
        var current: SocketConnection?
        /// Whether the frames that are handled arrived without the delegate of the socket, which logs the others.
        var isDirect = false
        /// The channels whose subscriptions are confirmed, as far as updates have been handled.
        var confirmed: Set<ByteString> = []
        /// The channel whose rejection arrived last as an event of its own, until the engine has reported the failure.
        var rejected: String?
        /// The confirmation of a subscription that was handled last, until the engine has accepted it.
        var confirmation: PusherSwift.PusherEvent?
        var losses = LossHistory()
    }

    /// A report of a socket of the application.
    enum SocketReport: Sendable {
        case opened, pong
        case text(String)
        case closed(CloseReason)
    }

    /// The URL of the server.
    public let url: String
    /// The key of the app.
    public let key: String
    let state: Guarded<State>
    /// The socket that the library made itself, whose URL it may change.
    private let ownSocket: NWWebSocket
    private let link = ConnectionLink()
    let transports: Transports
    let cookies = RedirectingHTTP.Cookies()
    /// The queue of the client.
    private let serialQueue: SerialQueue
    /// The items that wait for the queue of the client, in one order: the engine's and the connection's.
    let queue: CallbackQueue<Item>
    /// The reports of sockets of the application, with the connections of the engine that used them, if any. They wait apart from the rest,
    /// so that reports that a socket makes while the library calls it are handled in a later turn.
    private let reports: CallbackQueue<(connection: SocketConnection?, report: SocketReport)>
    /// The number of calls of the socket that the queue of the client is making.
    private let socketCalls = Lock(0)
    let engine: PusherClient
    private let observation: CallbackObservation

    /// The settings. Changes apply to the next attempt to connect.
    open var options: PusherClientOptions {
        get { self.state.read { $0.options } }
        set { self.state.set(\.options, to: newValue) }
    }

    /// The handlers that are bound to the client.
    open var globalChannel: GlobalChannel! {
        get { self.state.read { $0.globalChannel } }
        set { self.state.set(\.globalChannel, to: newValue) }
    }

    /// The ID that the server assigned to the connection, while there is one.
    open var socketId: String? {
        get { self.state.read { $0.socketID } }
        set { self.state.set(\.socketID, to: newValue) }
    }

    /// The state of the connection. It changes right before the delegate is informed.
    open var connectionState: ConnectionState {
        get { self.state.read { $0.connectionState } }
        set { self.state.set(\.connectionState, to: newValue) }
    }

    /// Whether the socket is connected, as in version 5. Setting it doesn't change the connection.
    @available(*, deprecated, message: "Use connectionState instead.")
    open var socketConnected: Bool {
        get { self.state.value.socketConnected }
        set { self.state.update { $0.socketConnected = newValue } }
    }

    /// Whether the server has assigned an ID to the connection, as in version 5. Setting it doesn't change the connection.
    @available(*, deprecated, message: "Use socketId instead.")
    open var connectionEstablishedMessageReceived: Bool {
        get { self.state.value.isEstablished }
        set { self.state.update { $0.isEstablished = newValue } }
    }

    /// The channels.
    open var channels: PusherSwift.PusherChannels {
        get { self.state.read { $0.channels } }
        set { self.state.set(\.channels, to: newValue) }
    }

    /// The socket. It can be replaced, for example with a mock; the next attempt to connect uses it.
    ///
    /// A client takes the messages of its own socket from the network, without the methods and the delegate of the socket. To pass them through
    /// your code, set a subclass whose methods you override, or change the delegate of the socket before the client connects.
    open var socket: NWWebSocket! {
        get { self.state.read { $0.socket } }
        set {
            if newValue?.delegate == nil { newValue?.delegate = self }
            self.state.set(\.socket, to: newValue)
        }
    }

    /// The session for requests to the endpoint that authorizes subscriptions.
    ///
    /// On platforms without Apple's `URLSession`, the shared session represents the package's own HTTP client.
    open var URLSession: URLSession {
        get { self.state.read { $0.session } }
        set { self.state.set(\.session, to: newValue) }
    }

    /// Returns the client's own user, for presence channels that are authorized with ``AuthMethod/inline(secret:)``.
    open var userDataFetcher: (() -> PusherPresenceChannelMember)? {
        get { self.state.read { $0.userDataFetcher } }
        set { self.state.set(\.userDataFetcher, to: newValue) }
    }

    /// The maximum number of attempts to reconnect after a loss, or `nil` for unlimited attempts, which is the default.
    open var reconnectAttemptsMax: Int? {
        get { self.state.read { $0.reconnectAttemptsMax } }
        set { self.state.set(\.reconnectAttemptsMax, to: newValue) }
    }

    /// The number of attempts to reconnect since the last connection.
    open var reconnectAttempts: Int {
        get { self.state.read { $0.reconnectAttempts } }
        set { self.state.set(\.reconnectAttempts, to: newValue) }
    }

    /// The maximum delay before an attempt to reconnect in seconds, or `nil` for no maximum. The default is 120.
    open var maxReconnectGapInSeconds: Double? {
        get { self.state.read { $0.maxReconnectGap } }
        set { self.state.set(\.maxReconnectGap, to: newValue) }
    }

    /// The object that is informed about the connection. It isn't retained.
    open var delegate: (any PusherDelegate)? {
        get { self.state.read { $0.delegate.value } }
        set { self.state.set(\.delegate.value, to: newValue) }
    }

    /// The time to wait for any message after a ping, in seconds. A change applies to the next attempt to connect.
    open var pongResponseTimeoutInterval: TimeInterval {
        get { self.state.read { $0.pongTimeout } }
        set {
            self.state.set(\.pongTimeout, to: newValue)
            self.applySettings()
        }
    }

    /// The time without a message after which the client sends a ping, in seconds. A shorter one that the server requests takes precedence.
    /// A change applies to the next attempt to connect.
    open var activityTimeoutInterval: TimeInterval {
        get { self.state.read { $0.activityTimeout } }
        set {
            self.state.update {
                $0.activityTimeout = newValue
                $0.ownActivityTimeout = newValue
            }
            self.applySettings()
        }
    }

    /// Keeps the service for push notifications, which knows the connection only weakly.
    func setPushService(_ service: AnyObject) { self.state.set(\.pushService, to: service) }

    /// Creates a connection. Use it in tests with a mock of the socket; a ``Pusher`` creates its own.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - socket: The socket.
    ///   - url: The URL of the server, for information.
    ///   - options: The settings.
    ///   - URLSession: The session for requests to the endpoint that authorizes subscriptions.
    public init(
        key: String, socket: NWWebSocket, url: String, options: PusherClientOptions,
        URLSession: URLSession = .shared
    ) {
        self.key = key
        self.url = url
        self.ownSocket = socket
        self.state = Guarded(
            State(options: options, socket: socket, session: URLSession, activityTimeout: options.activityTimeout ?? 60))
        self.transports = options.transports ?? .standard
        let link = self.link
        var transports = self.transports
        transports.webSocket = SocketTransport(link: link)
        let host = options.host
        var configuration = PusherConfiguration(key: key, host: host, port: options.port, path: options.serverPath, useTLS: options.useTLS)
        configuration.transports = transports
        configuration.headers = options.httpHeaders
        configuration.validatesChannelNames = options.validatesChannelNames
        configuration.log = .none
        configuration.messageLimit = 16 << 20
        // The first event that can't be decrypted after a new key didn't fit soon loads another one, as in PusherSwift.
        configuration.backoff = Backoff(base: .milliseconds(1), cap: .seconds(60))
        configuration.authorizer = .direct { request, complete in
            guard let connection = link.value else { return Self.drop(.authorize(request, complete)) }
            connection.enqueue(.authorize(request, complete))
        }
        configuration.retryDecision = { context, answer in
            guard let connection = link.value else { return Self.drop(.decide(context, answer)) }
            connection.enqueue(.decide(context, answer))
        }
        self.engine = PusherClient(configuration)
        self.serialQueue = SerialQueue(options.callbackQueue)
        // Reading pauses while the queue is behind.
        let limit = ByteLimit<Item>(1 << 20) { if case .frame(let text, isFromEngine: true) = $0 { text.utf8.count } else { 0 } }
        self.queue = self.serialQueue.callbacks(.pauseReading(.max), byteLimit: limit) { item in
            guard let connection = link.value else { return Self.drop(item) }
            connection.handle(item)
        }
        self.reports = self.serialQueue.callbacks { link.value?.handle($0.report, of: $0.connection) }
        self.observation = self.engine.observeReceived(
            into: self.queue,
            eachElement { update in
                switch update {
                case .frame(let text): .frame(text, isFromEngine: true)
                case .sentFrame, .user, .watchlist, .members, .gap, .subscriptionCount: nil
                case .event, .attempt, .state, .connectingIn, .error, .subscription: .update(update)
                }
            })
        super.init()
        link.value = self
        socket.delegate = self
    }

    /// Returns the URL of the server.
    static func url(key: String, options: PusherClientOptions) -> String {
        // A host with colons is an IPv6 address.
        let host = options.host.utf8.contains(UInt8(ascii: ":")) && !options.host.hasPrefix("[") ? "[\(options.host)]" : options.host
        return "\(options.useTLS ? "wss" : "ws")://\(host):\(options.port)\(options.serverPath)/app/\(key)"
            + "?client=pusher-websocket-swift&version=10.1.10&protocol=7"
    }

    // MARK: Connecting

    /// Connects; see ``Pusher/connect()``.
    open func connect() {
        self.applySettings()
        self.engine.connect()
        self.drainIfOnQueue()
    }

    /// Disconnects; see ``Pusher/disconnect()``.
    open func disconnect() {
        switch self.engine.state {
        case .initialized, .failed, .disconnected: return
        case .connecting, .connected, .unavailable: break
        }
        self.queue.append(.disconnecting)
        self.engine.disconnect()
        self.drainIfOnQueue()
    }

    /// Passes the settings on to the engine, if they have changed.
    func applySettings() {
        let state = self.state.value
        let own = (state.ownActivityTimeout ?? state.options.activityTimeout).map { Self.duration($0) }
        let activity = own ?? .seconds(120)
        let fallback = own == nil ? Duration.seconds(60) : nil
        let pong = Self.duration(state.pongTimeout)
        let unavailable = Self.duration(state.options.unavailableTimeout)
        let connect = Self.duration(state.options.connectTimeout)
        let subscription = Self.duration(state.options.subscriptionTimeout)
        let configuration = self.engine.configuration
        guard
            configuration.activityTimeout != activity || configuration.fallbackActivityTimeout != fallback
                || configuration.pongTimeout != pong || configuration.unavailableTimeout != unavailable
                || configuration.connectTimeout != connect || configuration.subscriptionTimeout != subscription
        else { return }
        // A value that isn't valid is ignored.
        try? self.engine.update {
            $0.activityTimeout = activity
            $0.fallbackActivityTimeout = fallback
            $0.pongTimeout = pong
            $0.unavailableTimeout = unavailable
            $0.connectTimeout = connect
            $0.subscriptionTimeout = subscription
        }
    }

    /// Returns a duration in seconds. A number that isn't a time, such as infinity, becomes a very long one.
    private static func duration(_ seconds: TimeInterval) -> Duration {
        .nanoseconds(Int64(min(max(seconds.isNaN ? 0 : seconds, 0.001), 1e9) * 1e9))
    }

    /// Makes a connection of the engine the one that uses the socket.
    ///
    /// - Returns: The socket.
    func attach(_ connection: SocketConnection, to endpoint: Endpoint) -> NWWebSocket? {
        let (socket, old) = self.state.mutate { state -> (NWWebSocket?, SocketConnection?) in
            // One that was abandoned already mustn't replace its successor.
            guard connection.isIdle else { return (nil, nil) }
            let old = state.current
            state.current = connection
            return (state.socket, old)
        }
        withExtendedLifetime(old) {}
        if let socket, socket === self.ownSocket { self.secure(socket, if: endpoint.isSecure) }
        return socket
    }

    /// - Returns: Whether the connection was the one that used the socket.
    @discardableResult func detach(_ connection: SocketConnection) -> Bool {
        let old = self.state.mutate { state -> SocketConnection? in
            guard state.current === connection else { return nil }
            return state.current.take()
        }
        return old != nil
    }

    /// Changes the URL of a socket to TLS, because the server requires it.
    private func secure(_ socket: NWWebSocket, if isSecure: Bool) {
        guard isSecure, var components = URLComponents(url: socket.url, resolvingAgainstBaseURL: false), components.scheme == "ws" else {
            return
        }
        components.scheme = "wss"
        components.port = nil
        if let url = components.url { socket.url = url }
    }

    // MARK: Channels

    func subscribe(
        _ name: String, auth: PusherAuth?, onMemberAdded: ((PusherPresenceChannelMember) -> Void)?,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)?, onSubscriptionCountChanged: ((Int) -> Void)?
    ) -> PusherChannel {
        if PusherChannelType.isPresenceChannel(name: name) {
            return self.subscribeToPresenceChannel(
                name, auth: auth, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved,
                onSubscriptionCountChanged: onSubscriptionCountChanged)
        }
        let channel = self.channels.findOrAdd(name, as: PusherChannel.self) { _ in
            PusherChannel(name: name, connection: self, auth: auth, onSubscriptionCountChanged: onSubscriptionCountChanged)
        }
        self.subscribe(channel, auth: auth)
        return channel
    }

    func subscribeToPresenceChannel(
        _ name: String, auth: PusherAuth?, onMemberAdded: ((PusherPresenceChannelMember) -> Void)?,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)?, onSubscriptionCountChanged: ((Int) -> Void)?
    ) -> PusherPresenceChannel {
        let channel = self.channels.findOrAdd(name, as: PusherPresenceChannel.self) { existing in
            PusherPresenceChannel(
                name: name, connection: self, auth: auth, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved,
                onSubscriptionCountChanged: onSubscriptionCountChanged, replacing: existing)
        }
        self.subscribe(channel, auth: auth)
        return channel
    }

    private func subscribe(_ channel: PusherChannel, auth: PusherAuth?) {
        if let auth, !channel.subscribed { channel.auth = auth }
        self.subscribeEngine(channel)
        self.drainIfOnQueue()
    }

    /// Subscribes to a channel, unless it is subscribed already.
    func subscribeEngine(_ channel: PusherChannel) {
        do {
            _ = try self.engine.subscribe(channel.name)
        } catch {
            self.queue.append(.authorizationFailed(channel, AuthorizationFailure(error.message.namingOptions)))
        }
        // Another thread may have removed the channel and unsubscribed before. The last call of the engine must agree with the table.
        if self.channels.find(name: channel.name) == nil { self.unsubscribeEngine(channel.name) }
    }

    private func unsubscribeEngine(_ name: String) {
        self.engine.unsubscribe(name)
        // For the same reason.
        if let channel = self.channels.find(name: name) { self.subscribeEngine(channel) }
    }

    func unsubscribe(_ name: String) {
        guard let channel = self.channels.remove(name: name) else { return }
        channel.subscribed = false
        self.unsubscribeEngine(name)
        self.drainIfOnQueue()
    }

    func unsubscribeAll() { for channel in self.channels.all { self.unsubscribe(channel.name) } }

    // MARK: Handlers

    func createGlobalChannel() { self.globalChannel = GlobalChannel(connection: self) }

    // MARK: Sending

    /// Sends an event.
    ///
    /// - Parameters:
    ///   - event: The name of the event. If it starts with `client-`, the event is sent to the other subscribers of the channel.
    ///   - data: The data of the event, which must be convertible to JSON. Otherwise, nothing is sent.
    ///   - channel: The channel of a client event, which must be a private or presence channel.
    open func sendEvent(event: String, data: Any, channel: PusherChannel? = nil) {
        let isClientEvent = event.prefix { $0 != "-" } == "client"
        if isClientEvent {
            guard let channel else { return }
            guard channel.type != .normal else { return self.log(.clientEventNotAllowed) }
        }
        guard let name = FoundationJSON.text(event), let data = FoundationJSON.text(data) else { return self.log(.notJSON(event)) }
        var text = #"{"event":\#(name),"data":\#(data)"#
        if isClientEvent, let channel = channel.flatMap({ FoundationJSON.text($0.name) }) { text += #","channel":\#(channel)"# }
        text += "}"
        if self.state.read({ $0.current })?.send(text) != true {
            self.log(isClientEvent ? .sentClientEvent(text) : .sentEvent(text))
            self.callSocket { self.socket?.send(string: text) }
        }
        self.drainIfOnQueue()
    }

    // MARK: Handling

    /// Handles an event: keeps the state of the connection and the channels, and calls the handlers.
    ///
    /// The library calls it on the queue of the client, for each event in order. A subclass that overrides it calls `super`.
    ///
    /// - Parameter event: The event.
    open func handleEvent(event: PusherEvent) { self.process(event) }

    /// Handles an event, as in version 5: calls ``handleEvent(event:)``.
    ///
    /// The library calls it on the queue of the client, for each event in order. A subclass that overrides it calls `super`.
    ///
    /// - Parameters:
    ///   - eventName: The name of the event.
    ///   - jsonObject: The frame that contains the event.
    @available(*, deprecated, message: "Use handleEvent(event:) instead.")
    open func handleEvent(eventName: String, jsonObject: [String: AnyObject]) {
        var frame: [String: Any] = jsonObject
        frame["event"] = eventName
        if let event = PusherEvent(frame) { self.handleEvent(event: event) }
    }

    /// Handles an error of the server. The library calls it on the queue of the client. A subclass that overrides it calls `super`.
    ///
    /// - Parameter error: The error.
    open func handleError(error: PusherError) { self.delegate?.notifyReceivedError(error: error) }

    /// Parses a frame, as in version 5.
    ///
    /// - Parameter string: The text of the frame.
    /// - Returns: The members of the frame, or `nil` if it isn't a JSON object.
    @available(*, deprecated, message: "Use JSONSerialization instead.")
    open func getPusherEventJSON(from string: String) -> [String: AnyObject]? { FoundationJSON.object(string) }

    /// Parses the data of an event, as in version 5.
    ///
    /// - Parameter string: The data.
    /// - Returns: An object of Foundation, or the text if it isn't JSON.
    @available(*, deprecated, message: "Use JSONSerialization instead.")
    open func getEventDataJSON(from string: String) -> Any { FoundationJSON.parse(string) ?? string }

    // MARK: Socket

    /// Calls the socket. Its reports meanwhile are handled in a later turn of the queue, as in PusherSwift: a mock that answers
    /// immediately mustn't call handlers before, for example, `subscribe` has returned the channel to which they are bound.
    func callSocket(_ body: () -> Void) {
        // What a socket reports on other threads is handled later anyway.
        guard self.serialQueue.isCurrent else { return body() }
        self.socketCalls.withLock { $0 += 1 }
        body()
        self.socketCalls.withLock { $0 -= 1 }
    }

    /// Handles a report of a socket: now if this is the queue and the library isn't calling the socket, and soon otherwise.
    func report(_ report: SocketReport, of connection: SocketConnection?) {
        self.reports.append((connection, report))
        guard self.serialQueue.isCurrent, self.socketCalls.withLock({ $0 == 0 }) else { return }
        self.reports.deliverNow()
        self.queue.deliverNow()
    }

    private func handle(_ report: SocketReport, of connection: SocketConnection?) {
        // The start of an attempt is handled before its end.
        self.drainIfOnQueue()
        switch report {
        case .opened: connection?.opened()
        case .pong: connection?.receivedPong()
        case .text(let text):
            if let connection { connection.received(text) } else { self.queue.append(.frame(text, isFromEngine: false)) }
        case .closed(let reason): if let connection, connection === self.state.read({ $0.current }) { connection.closed(reason) }
        }
        self.drainIfOnQueue()
    }

    /// A connection of the engine has ended, which the engine is told afterwards.
    func ended(_ connection: SocketConnection, _ reason: CloseReason) {
        if self.detach(connection) { self.queue.append(.ended(reason)) }
    }

    // MARK: Delivery

    /// Handles an item after those that were enqueued before: now if this is the queue, and soon otherwise.
    func enqueue(_ item: Item) {
        self.queue.append(item)
        self.drainIfOnQueue()
    }

    /// Handles the waiting items now if the calling code runs on the queue, unless an item is being handled.
    func drainIfOnQueue() { self.serialQueue.deliver(self.queue) }

    /// Passes a message to the delegate's log: now if this is the queue, and soon otherwise. Without a delegate, the message isn't made.
    func log(_ message: @autoclosure () -> LogText) {
        guard let delegate = self.delegate else { return }
        if self.serialQueue.isCurrent { delegate.notifyDebugLog(message: message().text) } else { self.queue.append(.log(message())) }
    }

    /// Answers the question of an item when the connection has been released.
    private static func drop(_ item: Item) {
        switch item {
        case .authorize(_, let complete): complete(.failure(PusherAuthorizationRefusal("The client was released.")))
        case .decide(_, let answer): answer(nil)
        case .update, .frame, .opened, .ended, .log, .disconnecting, .authorizationFailed, .push: break
        }
    }

    private func handle(_ item: Item) {
        switch item {
        case .update(let update): self.handle(update)
        case .frame(let text, let isFromEngine): self.handle(frame: text, isFromEngine: isFromEngine)
        case .opened(let connection, let isDirect):
            self.state.update { state in
                if state.current === connection { state.socketConnected = true }
                state.isDirect = isDirect
            }
        case .ended(.peer(let code, let text)):
            self.state.update { $0.losses.close = (code.rawValue, text.isEmpty ? nil : text) }
        case .ended: self.state.update { $0.losses.close = nil }
        case .log(let message): self.delegate?.notifyDebugLog(message: message.text)
        case .disconnecting:
            if self.connectionState != .disconnected { self.setState(.disconnecting) }
        case .authorize(let request, let complete): self.authorize(request, complete)
        case .authorizationFailed(let channel, let failure): self.subscriptionFailed(channel, failure)
        case .decide(let context, let answer): self.decide(context, answer)
        case .push(let notice): self.delegate.map { notice.notify($0) }
        }
    }
}

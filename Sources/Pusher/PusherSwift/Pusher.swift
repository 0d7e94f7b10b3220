public import Foundation
import NWWebSocket
public import PusherChannels
import RealtimeCore
import RealtimeTransports

/// A client for Pusher Channels, or for any server that implements the Pusher protocol.
///
/// ```swift
/// let options = PusherClientOptions(host: .cluster("eu"))
/// let pusher = Pusher(key: "APP_KEY", options: options)
/// let myChannel = pusher.subscribe("my-channel")
/// myChannel.bind(eventName: "new-price") { event in
///     print(event.data ?? "")
/// }
/// pusher.connect()
/// ```
/// Keep a reference to the client: when it is released, its connection is closed.
///
/// Methods can be called from any thread, and from delegates and handlers. These are called on the main queue, or on the queue of
/// ``PusherClientOptions/callbackQueue``, in the order of the events.
///
/// `@unchecked Sendable`: the connection protects all state. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class Pusher: NSObject, @unchecked Sendable {
    /// The connection of the client.
    public let connection: PusherConnection
    /// The service for push notifications.
    public let nativePusher: NativePusher

    /// The client of `PusherChannels` that this client uses, for code that moves to the asynchronous API step by step.
    ///
    /// ```swift
    /// let prices = try pusher.client.subscribe("prices")
    /// for await event in prices.events("price") {
    ///     print(event.data ?? "")
    /// }
    /// ```
    /// Both have the same connection: ``connect()`` and ``disconnect()`` of one affect the other. Each channel belongs to the one with which it
    /// was subscribed, and must be unsubscribed with it. Channels of the other client are authorized with ``AuthMethod`` of the options as well,
    /// but neither the delegate nor handlers are informed about them.
    ///
    /// The settings come from the options. Those that the options have must not be changed with `update(_:)`.
    public var client: PusherClient { self.connection.engine }

    /// The object that is informed about the client. It isn't retained.
    open var delegate: (any PusherDelegate)? {
        get { self.connection.delegate }
        set { self.connection.delegate = newValue }
    }

    /// Creates a client. It connects when you call ``connect()``.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - options: The settings.
    ///   - nativePusher: A service for push notifications that is shared with other clients, or `nil` for one of its own.
    public init(key: String, options: PusherClientOptions = PusherClientOptions(), nativePusher: NativePusher? = nil) {
        let url = PusherConnection.url(key: key, options: options)
        let transports = options.transports ?? .standard
        let socket = NWWebSocket(
            url: URL(string: url), headers: options.httpHeaders, transport: transports.webSocket, connectionQueue: options.callbackQueue)
        let native = nativePusher ?? NativePusher(options: options)
        native.setPusherAppKey(pusherAppKey: key)
        self.nativePusher = native
        self.connection = PusherConnection(key: key, socket: socket, url: url, options: options)
        super.init()
        self.connection.createGlobalChannel()
        self.connection.setPushService(native)
        native.connection = self.connection
        if options.connectAutomatically { self.connection.connect() }
    }

    /// Creates a client, under the name for Objective-C.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - options: The settings.
    public convenience init(withAppKey key: String, options: PusherClientOptions) { self.init(key: key, options: options) }

    /// Creates a client with default settings, under a name for Objective-C.
    ///
    /// - Parameter key: The key of the app.
    public convenience init(withAppKey key: String) { self.init(key: key) }

    /// Creates a client with default settings, under a name for Objective-C.
    ///
    /// - Parameter key: The key of the app.
    public convenience init(withKey key: String) { self.init(key: key) }

    // MARK: Connection

    /// Connects, and reconnects after losses until ``disconnect()``.
    ///
    /// The socket has been asked to connect when this method returns. If a reconnect is pending, it is made immediately. While the client is
    /// connecting or connected, this method has no effect.
    open func connect() { self.connection.connect() }

    /// Disconnects, and doesn't reconnect until ``connect()`` is called. The channels remain, and are then subscribed again.
    open func disconnect() { self.connection.disconnect() }

    // MARK: Channels

    /// Subscribes to a channel: immediately if the client is connected, otherwise when it connects, and again after every reconnect.
    ///
    /// - Parameters:
    ///   - channelName: The name of the channel.
    ///   - auth: An authorization for the current connection, instead of the method in the options.
    ///   - onMemberAdded: Called with each member who joins a presence channel.
    ///   - onMemberRemoved: Called with each member who leaves a presence channel.
    ///   - onSubscriptionCountChanged: Called with the number of connections that are subscribed to the channel.
    /// - Returns: The channel. If it is subscribed already, the existing one, and the closures aren't used.
    @discardableResult
    open func subscribe(
        _ channelName: String, auth: PusherAuth? = nil, onMemberAdded: ((PusherPresenceChannelMember) -> Void)? = nil,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)? = nil, onSubscriptionCountChanged: ((Int) -> Void)? = nil
    ) -> PusherChannel {
        if channelName.hasPrefix("private-encrypted-"), auth != nil, auth?.sharedSecret == nil { self.connection.log(.authUnsupported) }
        return self.connection.subscribe(
            channelName, auth: auth, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved,
            onSubscriptionCountChanged: onSubscriptionCountChanged)
    }

    /// Subscribes to a presence channel; see ``subscribe(_:auth:onMemberAdded:onMemberRemoved:onSubscriptionCountChanged:)``.
    ///
    /// - Parameters:
    ///   - channelName: The name of the channel.
    ///   - auth: An authorization for the current connection, instead of the method in the options.
    ///   - onMemberAdded: Called with each member who joins.
    ///   - onMemberRemoved: Called with each member who leaves.
    ///   - onSubscriptionCountChanged: Called with the number of connections that are subscribed to the channel.
    /// - Returns: The channel. If it is subscribed already, the existing one, and the closures aren't used.
    @discardableResult
    open func subscribeToPresenceChannel(
        channelName: String, auth: PusherAuth? = nil, onMemberAdded: ((PusherPresenceChannelMember) -> Void)? = nil,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)? = nil, onSubscriptionCountChanged: ((Int) -> Void)? = nil
    ) -> PusherPresenceChannel {
        self.connection.subscribeToPresenceChannel(
            channelName, auth: auth, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved,
            onSubscriptionCountChanged: onSubscriptionCountChanged)
    }

    /// Unsubscribes from a channel. Its handlers aren't called anymore.
    ///
    /// - Parameter channelName: The name of the channel.
    open func unsubscribe(_ channelName: String) { self.connection.unsubscribe(channelName) }

    /// Unsubscribes from all channels.
    open func unsubscribeAll() { self.connection.unsubscribeAll() }

    // MARK: Handlers

    /// Calls a handler with the events of all channels from now on.
    ///
    /// - Parameter eventCallback: Called with each event.
    /// - Returns: An ID for ``unbind(callbackId:)``.
    @discardableResult
    open func bind(eventCallback: @escaping (PusherEvent) -> Void) -> String {
        self.connection.globalChannel?.add(eventCallback) ?? ""
    }

    /// Calls a handler with the events of all channels and the errors of the server from now on, as in versions 5 to 9.
    ///
    /// - Parameter callback: Called with each event: a dictionary with the members of its frame, such as `event`, `channel` and `data`.
    /// - Returns: An ID for ``unbind(callbackId:)``.
    @discardableResult
    @_disfavoredOverload
    @available(*, deprecated, message: "Use bind(eventCallback:) instead.")
    open func bind(_ callback: @escaping (Any?) -> Void) -> String { self.connection.globalChannel?.add(legacy: callback) ?? "" }

    /// Removes a handler.
    ///
    /// - Parameter callbackId: The ID that ``bind(eventCallback:)`` returned.
    open func unbind(callbackId: String) { self.connection.globalChannel?.remove(callbackId) }

    /// Removes all handlers that are bound to the client. Those of the channels remain.
    open func unbindAll() { self.connection.globalChannel?.unbindAll() }
}

extension Pusher {
    /// Subscribes to a channel; see ``subscribe(_:auth:onMemberAdded:onMemberRemoved:onSubscriptionCountChanged:)``.
    ///
    /// - Parameters:
    ///   - channelName: The name of the channel.
    ///   - onMemberAdded: Called with each member who joins a presence channel.
    ///   - onMemberRemoved: Called with each member who leaves a presence channel.
    ///   - onSubscriptionCountChanged: Called with the number of connections that are subscribed to the channel.
    /// - Returns: The channel.
    @discardableResult
    public func subscribe(
        channelName: String, onMemberAdded: ((PusherPresenceChannelMember) -> Void)? = nil,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)? = nil, onSubscriptionCountChanged: ((Int) -> Void)? = nil
    ) -> PusherChannel {
        self.subscribe(
            channelName, auth: nil, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved,
            onSubscriptionCountChanged: onSubscriptionCountChanged)
    }

    /// Subscribes to a presence channel; see
    /// ``subscribeToPresenceChannel(channelName:auth:onMemberAdded:onMemberRemoved:onSubscriptionCountChanged:)``.
    ///
    /// - Parameters:
    ///   - channelName: The name of the channel.
    ///   - auth: An authorization for the current connection, instead of the method in the options.
    ///   - onMemberAdded: Called with each member who joins.
    ///   - onMemberRemoved: Called with each member who leaves.
    ///   - onSubscriptionCountChanged: Called with the number of connections that are subscribed to the channel.
    /// - Returns: The channel.
    @discardableResult
    public func subscribeToPresenceChannel(
        _ channelName: String, auth: PusherAuth? = nil, onMemberAdded: ((PusherPresenceChannelMember) -> Void)? = nil,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)? = nil, onSubscriptionCountChanged: ((Int) -> Void)? = nil
    ) -> PusherPresenceChannel {
        self.subscribeToPresenceChannel(
            channelName: channelName, auth: auth, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved,
            onSubscriptionCountChanged: onSubscriptionCountChanged)
    }

    /// Calls a handler with the events of all channels from now on, as in versions 5 to 9; see ``bind(_:)``.
    ///
    /// - Parameter callback: Called with each event.
    /// - Returns: An ID for ``unbind(callbackId:)``.
    @discardableResult
    @_disfavoredOverload
    @available(*, deprecated, message: "Use bind(eventCallback:) instead.")
    public func bind(callback: @escaping (Any?) -> Void) -> String { self.bind(callback) }
}

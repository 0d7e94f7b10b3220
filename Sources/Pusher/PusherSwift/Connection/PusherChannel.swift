public import Foundation

/// A channel.
///
/// Methods can be called from any thread. Handlers are called on the queue of the client, which is the main queue by default.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class PusherChannel: NSObject, @unchecked Sendable {
    private struct State {
        weak var connection: PusherConnection?
        var eventHandlers: [String: [EventHandler]] = [:]
        /// The handlers of all events.
        var generalHandlers: [EventHandler] = []
        var subscriptionCount: Int?
        var subscribed = false
        var unsentEvents: [QueuedClientEvent] = []
        var auth: PusherAuth?
        var isAuthUsed = false
        var onSubscriptionCountChanged: ((Int) -> Void)?
    }

    private let state: Guarded<State>

    /// The name of the channel.
    public let name: String
    /// The kind of the channel.
    public let type: PusherChannelType

    /// The handlers that are bound, by the names of their events.
    open var eventHandlers: [String: [EventHandler]] {
        get { self.state.read { $0.eventHandlers } }
        set { self.state.set(\.eventHandlers, to: newValue) }
    }

    /// The number of connections that are subscribed to the channel, if the server has reported it.
    public var subscriptionCount: Int? { self.state.read { $0.subscriptionCount } }

    /// Whether the channel is subscribed.
    open var subscribed: Bool {
        get { self.state.read { $0.subscribed } }
        set { self.state.set(\.subscribed, to: newValue) }
    }

    /// The connection of the channel. It isn't retained.
    open var connection: PusherConnection? {
        get { self.state.read { $0.connection } }
        set { self.state.set(\.connection, to: newValue) }
    }

    /// The client events that wait for the subscription, the newest first.
    open var unsentEvents: [QueuedClientEvent] {
        get { self.state.read { $0.unsentEvents } }
        set { self.state.set(\.unsentEvents, to: newValue) }
    }

    /// The authorization that was passed with the subscription, until it is confirmed. It is used for one attempt to subscribe.
    public var auth: PusherAuth? {
        get { self.state.read { $0.auth } }
        set {
            let old = self.state.mutate { state in
                defer { (state.auth, state.isAuthUsed) = (newValue, false) }
                return state.auth
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Called with the number of connections that are subscribed to the channel, when the server reports it.
    open var onSubscriptionCountChanged: ((Int) -> Void)? {
        get { self.state.read { $0.onSubscriptionCountChanged } }
        set { self.state.set(\.onSubscriptionCountChanged, to: newValue) }
    }

    /// Creates a channel. It isn't subscribed: use ``Pusher/subscribe(_:auth:onMemberAdded:onMemberRemoved:onSubscriptionCountChanged:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the channel.
    ///   - connection: The connection of the channel.
    ///   - auth: The authorization for the first subscription.
    ///   - onSubscriptionCountChanged: Called with the number of connections that are subscribed to the channel.
    public init(
        name: String, connection: PusherConnection, auth: PusherAuth? = nil, onSubscriptionCountChanged: ((Int) -> Void)? = nil
    ) {
        self.name = name
        self.type = PusherChannelType(name: name)
        self.state = Guarded(State(connection: connection, auth: auth, onSubscriptionCountChanged: onSubscriptionCountChanged))
    }

    /// Creates a channel that has the state of another one, such as its handlers, and takes its place.
    init(replacing other: PusherChannel) {
        (self.name, self.type, self.state) = (other.name, other.type, other.state)
    }

    /// Whether this channel is another one or has taken its place.
    func isSame(as other: PusherChannel?) -> Bool { self.state === other?.state }

    // MARK: Handlers

    /// Calls a handler with the events of a name from now on.
    ///
    /// - Parameters:
    ///   - eventName: The name of the events.
    ///   - eventCallback: Called with each event. A handler that is bound while an event is being handled isn't called with that event.
    /// - Returns: An ID for ``unbind(eventName:callbackId:)``.
    @discardableResult
    open func bind(eventName: String, eventCallback: @escaping (PusherEvent) -> Void) -> String {
        let handler = EventHandler(id: UUID().uuidString, callback: eventCallback)
        self.state.mutate { $0.eventHandlers[eventName, default: []].append(handler) }
        return handler.id
    }

    /// Calls a handler with the data of the events of a name from now on, as in versions 5 to 9.
    ///
    /// - Parameters:
    ///   - eventName: The name of the events.
    ///   - callback: Called with the data of each event: if it is JSON and the options ask for it, an object of Foundation.
    /// - Returns: An ID for ``unbind(eventName:callbackId:)``.
    @discardableResult
    @_disfavoredOverload
    @available(*, deprecated, message: "Use bind(eventName:eventCallback:) instead.")
    open func bind(eventName: String, callback: @escaping (Any?) -> Void) -> String {
        self.bind(eventName: eventName) { [weak self] event in
            callback(event.legacyData(isParsed: self?.connection?.options.attemptToReturnJSONObject ?? true))
        }
    }

    /// Calls a handler with all events of the channel from now on.
    ///
    /// These include `pusher:subscription_succeeded`, `pusher:subscription_error`, `pusher:member_added`, `pusher:member_removed` and
    /// `pusher:subscription_count`. The handler is called after those of the name of the event.
    ///
    /// - Parameter eventCallback: Called with each event.
    /// - Returns: An ID for ``unbind(callbackId:)``.
    @discardableResult
    open func bind(eventCallback: @escaping (PusherEvent) -> Void) -> String {
        let handler = EventHandler(id: UUID().uuidString, callback: eventCallback)
        self.state.mutate { $0.generalHandlers.append(handler) }
        return handler.id
    }

    /// Removes a handler of all events.
    ///
    /// - Parameter callbackId: The ID that ``bind(eventCallback:)`` returned.
    open func unbind(callbackId: String) {
        _ = self.state.mutate { state in
            state.generalHandlers.firstIndex { $0.id == callbackId }.map { state.generalHandlers.remove(at: $0) }
        }
    }

    /// Removes a handler.
    ///
    /// - Parameters:
    ///   - eventName: The name of the events.
    ///   - callbackId: The ID that ``bind(eventName:eventCallback:)`` returned.
    open func unbind(eventName: String, callbackId: String) {
        _ = self.state.mutate { state in
            state.eventHandlers[eventName]?.firstIndex { $0.id == callbackId }.map { state.eventHandlers[eventName]?.remove(at: $0) }
        }
    }

    /// Removes all handlers.
    open func unbindAll() {
        self.state.set(\.eventHandlers, to: [:])
        self.state.set(\.generalHandlers, to: [])
    }

    /// Removes the handlers of the events of a name.
    ///
    /// - Parameter eventName: The name of the events.
    open func unbindAll(forEventName eventName: String) {
        _ = self.state.mutate { $0.eventHandlers.updateValue([], forKey: eventName) }
    }

    /// Calls the handlers of an event, in the order in which they were bound. The library calls it on the queue of the client.
    ///
    /// - Parameter event: The event. Each handler receives a copy.
    open func handleEvent(event: PusherEvent) {
        let (named, general) = self.state.read { ($0.eventHandlers[event.eventName] ?? [], $0.generalHandlers) }
        for handler in named { handler.callback(event.copied) }
        for handler in general { handler.callback(event.copied) }
    }

    /// Calls the handlers of an event, as in version 5. The library doesn't call it: a subclass overrides ``handleEvent(event:)`` instead.
    ///
    /// - Parameters:
    ///   - name: The name of the event.
    ///   - data: The data of the event.
    @available(*, deprecated, message: "Use handleEvent(event:) instead.")
    open func handleEvent(name: String, data: String) {
        self.handleEvent(
            event: PusherEvent(
                eventName: name, channelName: self.name, data: data, userId: nil,
                frame: .objects(["event": name, "channel": self.name, "data": data])))
    }

    // MARK: Client events

    /// Sends a client event to the other subscribers of the channel, as soon as the channel is subscribed.
    ///
    /// - Parameters:
    ///   - eventName: The name of the event, which must start with `client-`.
    ///   - data: The data of the event: objects of Foundation, or values that bridge to them, that can be converted to JSON.
    open func trigger(eventName: String, data: Any) {
        if self.name.hasPrefix("private-encrypted-") {
            self.connection?.log(.clientEventEncrypted(self.name, eventName))
            return
        }
        let event = QueuedClientEvent(name: eventName, data: data)
        // In one step, so that an event can't be queued after the others were sent.
        let isSubscribed = self.state.mutate { state in
            if !state.subscribed { state.unsentEvents.insert(event, at: 0) }
            return state.subscribed
        }
        if isSubscribed { self.connection?.sendEvent(event: eventName, data: data, channel: self) }
    }

    /// Returns the authorization that was passed with the subscription, once.
    func takeAuth() -> PusherAuth? {
        self.state.mutate { state in
            guard !state.isAuthUsed, let auth = state.auth else { return nil }
            state.isAuthUsed = true
            return auth
        }
    }

    /// Marks the channel as subscribed.
    func confirm() { self.subscribed = true }

    /// Sends the events that waited for the subscription.
    func sendUnsentEvents() {
        self.auth = nil
        while let event = self.state.mutate({ $0.unsentEvents.popLast() }) {
            self.connection?.sendEvent(event: event.name, data: event.data, channel: self)
        }
    }

    func setSubscriptionCount(_ count: Int) {
        self.state.mutate { $0.subscriptionCount = count }
        self.onSubscriptionCountChanged?(count)
    }
}

extension PusherEvent {
    /// A copy with the same type.
    var copied: PusherEvent { self.copy() as? PusherEvent ?? self }
}

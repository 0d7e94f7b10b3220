public import Foundation
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

#if canImport(ObjectiveC)
/// An object that is informed about a client. All methods are optional, and are called on the queue of the client.
@objc public protocol PusherDelegate: AnyObject {
    /// A message of the log.
    ///
    /// - Parameter message: The text. Messages for frames contain all of the frame, including signatures.
    @objc optional func debugLog(message: String)
    /// The state of the connection changed.
    ///
    /// - Parameters:
    ///   - old: The state before.
    ///   - new: The state now.
    @objc optional func changedConnectionState(from old: ConnectionState, to new: ConnectionState)
    /// A channel was subscribed. Its handlers of `pusher:subscription_succeeded` have been called already.
    ///
    /// - Parameter name: The name of the channel.
    @objc optional func subscribedToChannel(name: String)
    /// A subscription failed, because it wasn't authorized or confirmed.
    ///
    /// - Parameters:
    ///   - name: The name of the channel.
    ///   - response: The response of the endpoint, if there was one.
    ///   - data: The body of the response.
    ///   - error: The reason, unless it is the response.
    @objc optional func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?)
    /// An event of an encrypted channel couldn't be decrypted, and was dropped.
    ///
    /// - Parameters:
    ///   - eventName: The name of the event.
    ///   - channelName: The name of the channel.
    ///   - data: The encrypted data.
    @objc optional func failedToDecryptEvent(eventName: String, channelName: String, data: String?)
    /// The server reported an error.
    ///
    /// - Parameter error: The error.
    @objc(receivedError:) optional func receivedError(error: PusherError)
    /// The connection was lost, and an attempt to reconnect follows.
    ///
    /// - Parameter delay: The delay before the attempt in seconds.
    /// - Returns: Whether to reconnect. If `false`, the connection stays disconnected until `connect()` is called. Without this method, it reconnects.
    @objc(connectionWillReconnectAfterDelay:) optional func connectionWillReconnect(afterDelay delay: TimeInterval) -> Bool
    /// The device was registered for push notifications.
    ///
    /// - Parameter clientId: The ID that the service assigned to the device.
    @objc(registeredForPushNotificationsWithClientId:) optional func registeredForPushNotifications(clientId: String)
    /// The device couldn't be registered for push notifications.
    ///
    /// - Parameters:
    ///   - response: The response of the service.
    ///   - responseBody: The body of the response.
    @objc(failedToRegisterForPushNotificationsWithResponse:responseBody:) optional func failedToRegisterForPushNotifications(
        response: URLResponse, responseBody: String?)
    /// An interest was subscribed.
    ///
    /// - Parameter name: The name of the interest.
    @objc(subscribedToInterestWithName:) optional func subscribedToInterest(name: String)
    /// The interests were replaced.
    ///
    /// - Parameter interests: The names of the interests.
    @objc(subscribedToInterestsWithInterests:) optional func subscribedToInterests(interests: [String])
    /// An interest was unsubscribed.
    ///
    /// - Parameter name: The name of the interest.
    @objc(unsubscribedFromInterestWithName:) optional func unsubscribedFromInterest(name: String)
    /// The state of the connection changed. In Objective-C, earlier READMEs give this name to the method.
    ///
    /// - Parameters:
    ///   - old: The state before.
    ///   - new: The state now.
    @objc(changedConnectionState:to:) optional func changedConnectionState(_ old: ConnectionState, to new: ConnectionState)
}
#else
/// An object that is informed about a client. All methods are optional, and are called on the queue of the client.
public protocol PusherDelegate: AnyObject {
    /// A message of the log.
    ///
    /// - Parameter message: The text. Messages for frames contain all of the frame, including signatures.
    func debugLog(message: String)
    /// The state of the connection changed.
    ///
    /// - Parameters:
    ///   - old: The state before.
    ///   - new: The state now.
    func changedConnectionState(from old: ConnectionState, to new: ConnectionState)
    /// A channel was subscribed. Its handlers of `pusher:subscription_succeeded` have been called already.
    ///
    /// - Parameter name: The name of the channel.
    func subscribedToChannel(name: String)
    /// A subscription failed, because it wasn't authorized or confirmed.
    ///
    /// - Parameters:
    ///   - name: The name of the channel.
    ///   - response: The response of the endpoint, if there was one.
    ///   - data: The body of the response.
    ///   - error: The reason, unless it is the response.
    func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?)
    /// An event of an encrypted channel couldn't be decrypted, and was dropped.
    ///
    /// - Parameters:
    ///   - eventName: The name of the event.
    ///   - channelName: The name of the channel.
    ///   - data: The encrypted data.
    func failedToDecryptEvent(eventName: String, channelName: String, data: String?)
    /// The server reported an error.
    ///
    /// - Parameter error: The error.
    func receivedError(error: PusherError)
    /// The connection was lost, and an attempt to reconnect follows.
    ///
    /// - Parameter delay: The delay before the attempt in seconds.
    /// - Returns: Whether to reconnect. If `false`, the connection stays disconnected until `connect()` is called. Without this method, it reconnects.
    func connectionWillReconnect(afterDelay delay: TimeInterval) -> Bool
    /// The device was registered for push notifications.
    ///
    /// - Parameter clientId: The ID that the service assigned to the device.
    func registeredForPushNotifications(clientId: String)
    /// The device couldn't be registered for push notifications.
    ///
    /// - Parameters:
    ///   - response: The response of the service.
    ///   - responseBody: The body of the response.
    func failedToRegisterForPushNotifications(response: URLResponse, responseBody: String?)
    /// An interest was subscribed.
    ///
    /// - Parameter name: The name of the interest.
    func subscribedToInterest(name: String)
    /// The interests were replaced.
    ///
    /// - Parameter interests: The names of the interests.
    func subscribedToInterests(interests: [String])
    /// An interest was unsubscribed.
    ///
    /// - Parameter name: The name of the interest.
    func unsubscribedFromInterest(name: String)
}

extension PusherDelegate {
    /// Does nothing.
    public func debugLog(message: String) {}
    /// Does nothing.
    public func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {}
    /// Does nothing.
    public func subscribedToChannel(name: String) {}
    /// Does nothing.
    public func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?) {}
    /// Does nothing.
    public func failedToDecryptEvent(eventName: String, channelName: String, data: String?) {}
    /// Does nothing.
    public func receivedError(error: PusherError) {}
    /// Returns `true`.
    public func connectionWillReconnect(afterDelay delay: TimeInterval) -> Bool { true }
    /// Does nothing.
    public func registeredForPushNotifications(clientId: String) {}
    /// Does nothing.
    public func failedToRegisterForPushNotifications(response: URLResponse, responseBody: String?) {}
    /// Does nothing.
    public func subscribedToInterest(name: String) {}
    /// Does nothing.
    public func subscribedToInterests(interests: [String]) {}
    /// Does nothing.
    public func unsubscribedFromInterest(name: String) {}
}
#endif

/// The calls of a delegate, whose methods are optional in both forms of the protocol.
extension PusherDelegate {
    func notifyDebugLog(message: String) {
        #if canImport(ObjectiveC)
        self.debugLog?(message: message)
        #else
        self.debugLog(message: message)
        #endif
    }
    func notifyChangedConnectionState(from old: ConnectionState, to new: ConnectionState) {
        #if canImport(ObjectiveC)
        self.changedConnectionState?(from: old, to: new)
        self.changedConnectionState?(old, to: new)
        #else
        self.changedConnectionState(from: old, to: new)
        #endif
    }
    func notifySubscribedToChannel(name: String) {
        #if canImport(ObjectiveC)
        self.subscribedToChannel?(name: name)
        #else
        self.subscribedToChannel(name: name)
        #endif
    }
    func notifyFailedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?) {
        #if canImport(ObjectiveC)
        self.failedToSubscribeToChannel?(name: name, response: response, data: data, error: error)
        #else
        self.failedToSubscribeToChannel(name: name, response: response, data: data, error: error)
        #endif
    }
    func notifyFailedToDecryptEvent(eventName: String, channelName: String, data: String?) {
        #if canImport(ObjectiveC)
        self.failedToDecryptEvent?(eventName: eventName, channelName: channelName, data: data)
        #else
        self.failedToDecryptEvent(eventName: eventName, channelName: channelName, data: data)
        #endif
    }
    func notifyReceivedError(error: PusherError) {
        #if canImport(ObjectiveC)
        self.receivedError?(error: error)
        #else
        self.receivedError(error: error)
        #endif
    }
    func notifyConnectionWillReconnect(afterDelay delay: TimeInterval) -> Bool {
        #if canImport(ObjectiveC)
        return self.connectionWillReconnect?(afterDelay: delay) ?? true
        #else
        return self.connectionWillReconnect(afterDelay: delay)
        #endif
    }
    func notifyRegisteredForPushNotifications(clientId: String) {
        #if canImport(ObjectiveC)
        self.registeredForPushNotifications?(clientId: clientId)
        #else
        self.registeredForPushNotifications(clientId: clientId)
        #endif
    }
    func notifyFailedToRegisterForPushNotifications(response: URLResponse, responseBody: String?) {
        #if canImport(ObjectiveC)
        self.failedToRegisterForPushNotifications?(response: response, responseBody: responseBody)
        #else
        self.failedToRegisterForPushNotifications(response: response, responseBody: responseBody)
        #endif
    }
    func notifySubscribedToInterest(name: String) {
        #if canImport(ObjectiveC)
        self.subscribedToInterest?(name: name)
        #else
        self.subscribedToInterest(name: name)
        #endif
    }
    func notifySubscribedToInterests(interests: [String]) {
        #if canImport(ObjectiveC)
        self.subscribedToInterests?(interests: interests)
        #else
        self.subscribedToInterests(interests: interests)
        #endif
    }
    func notifyUnsubscribedFromInterest(name: String) {
        #if canImport(ObjectiveC)
        self.unsubscribedFromInterest?(name: name)
        #else
        self.unsubscribedFromInterest(name: name)
        #endif
    }
}

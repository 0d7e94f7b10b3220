public import Foundation

#if canImport(ObjectiveC)
@objc
#endif
extension PusherClientOptions {
    /// Creates settings from Objective-C.
    ///
    /// - Parameters:
    ///   - authMethod: How subscriptions are authorized.
    ///   - autoReconnect: Whether the client reconnects automatically.
    ///   - host: The server.
    ///   - port: The port, or `nil` for the default port.
    ///   - useTLS: Whether to use TLS.
    ///   - activityTimeout: The time in seconds without a message after which the client sends a ping.
    public convenience init(
        ocAuthMethod authMethod: OCAuthMethod, autoReconnect: Bool = true, ocHost host: OCPusherHost = OCPusherHost(),
        port: NSNumber? = nil, useTLS: Bool = true, activityTimeout: NSNumber? = nil
    ) {
        self.init(
            authMethod: authMethod.method, autoReconnect: autoReconnect, host: PusherHost.fromObjc(source: host), port: port?.intValue,
            useTLS: useTLS, activityTimeout: activityTimeout?.doubleValue)
    }

    /// Creates settings from Objective-C.
    ///
    /// - Parameters:
    ///   - authMethod: How subscriptions are authorized.
    ///   - attemptToReturnJSONObject: Whether handlers of versions 5 to 9 receive objects of Foundation.
    ///   - autoReconnect: Whether the client reconnects automatically.
    ///   - host: The server.
    ///   - port: The port, or `nil` for the default port.
    ///   - useTLS: Whether to use TLS.
    ///   - activityTimeout: The time in seconds without a message after which the client sends a ping.
    public convenience init(
        ocAuthMethod authMethod: OCAuthMethod, attemptToReturnJSONObject: Bool, autoReconnect: Bool = true,
        ocHost host: OCPusherHost = OCPusherHost(), port: NSNumber? = nil, useTLS: Bool = true, activityTimeout: NSNumber? = nil
    ) {
        self.init(
            authMethod: authMethod.method, attemptToReturnJSONObject: attemptToReturnJSONObject, autoReconnect: autoReconnect,
            host: PusherHost.fromObjc(source: host), port: port?.intValue, useTLS: useTLS,
            activityTimeout: activityTimeout?.doubleValue)
    }

    /// Creates settings from Objective-C, as in version 5.
    ///
    /// - Parameters:
    ///   - authMethod: How subscriptions are authorized.
    ///   - attemptToReturnJSONObject: Whether handlers receive objects of Foundation.
    ///   - autoReconnect: Whether the client reconnects automatically.
    ///   - host: The server.
    ///   - port: The port, or `nil` for the default port.
    ///   - encrypted: Whether to use TLS.
    public convenience init(
        ocAuthMethod authMethod: OCAuthMethod, attemptToReturnJSONObject: Bool = true, autoReconnect: Bool = true,
        ocHost host: OCPusherHost = OCPusherHost(), port: NSNumber? = nil, encrypted: Bool
    ) {
        self.init(
            authMethod: authMethod.method, attemptToReturnJSONObject: attemptToReturnJSONObject, autoReconnect: autoReconnect,
            host: PusherHost.fromObjc(source: host), port: port?.intValue, useTLS: encrypted)
    }

    /// Creates settings from Objective-C, as in versions 6 and 7.
    ///
    /// - Parameters:
    ///   - authMethod: How subscriptions are authorized.
    ///   - attemptToReturnJSONObject: Whether handlers receive objects of Foundation.
    ///   - autoReconnect: Whether the client reconnects automatically.
    ///   - host: The server.
    ///   - port: The port, or `nil` for the default port.
    ///   - encrypted: Whether to use TLS.
    ///   - activityTimeout: The time in seconds without a message after which the client sends a ping.
    public convenience init(
        ocAuthMethod authMethod: OCAuthMethod, attemptToReturnJSONObject: Bool = true, autoReconnect: Bool = true,
        ocHost host: OCPusherHost = OCPusherHost(), port: NSNumber? = nil, encrypted: Bool, activityTimeout: NSNumber?
    ) {
        self.init(
            authMethod: authMethod.method, attemptToReturnJSONObject: attemptToReturnJSONObject, autoReconnect: autoReconnect,
            host: PusherHost.fromObjc(source: host), port: port?.intValue, useTLS: encrypted,
            activityTimeout: activityTimeout?.doubleValue)
    }

    /// Creates settings from Objective-C with default values.
    ///
    /// - Parameter authMethod: How subscriptions are authorized.
    public convenience init(authMethod: OCAuthMethod) { self.init(authMethod: authMethod.method) }

    /// Sets how subscriptions are authorized.
    ///
    /// - Parameter authMethod: The method.
    public func setAuthMethod(authMethod: OCAuthMethod) { self.authMethod = authMethod.method }
}

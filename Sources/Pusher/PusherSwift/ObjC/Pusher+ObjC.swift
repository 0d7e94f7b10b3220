public import Foundation

#if canImport(ObjectiveC)
extension Pusher {
    /// Subscribes to a channel.
    ///
    /// - Parameter channelName: The name of the channel.
    @available(swift, obsoleted: 1.0)
    @objc(subscribeWithChannelName:) public func objcSubscribe(channelName: String) -> PusherChannel { self.subscribe(channelName) }

    /// Subscribes to a channel.
    ///
    /// - Parameters:
    ///   - channelName: The name of the channel.
    ///   - onMemberAdded: Called with each member who joins a presence channel.
    ///   - onMemberRemoved: Called with each member who leaves a presence channel.
    @available(swift, obsoleted: 1.0)
    @objc(subscribeWithChannelName:onMemberAdded:onMemberRemoved:)
    public func objcSubscribe(
        channelName: String, onMemberAdded: ((PusherPresenceChannelMember) -> Void)?,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)?
    ) -> PusherChannel {
        self.subscribe(channelName, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved)
    }

    /// Subscribes to a presence channel.
    ///
    /// - Parameter channelName: The name of the channel.
    @available(swift, obsoleted: 1.0)
    @objc(subscribeToPresenceChannelWithChannelName:)
    public func objcSubscribeToPresenceChannel(channelName: String) -> PusherPresenceChannel {
        self.subscribeToPresenceChannel(channelName: channelName)
    }

    /// Subscribes to a presence channel.
    ///
    /// - Parameters:
    ///   - channelName: The name of the channel.
    ///   - onMemberAdded: Called with each member who joins.
    ///   - onMemberRemoved: Called with each member who leaves.
    @available(swift, obsoleted: 1.0)
    @objc(subscribeToPresenceChannelWithChannelName:onMemberAdded:onMemberRemoved:)
    public func objcSubscribeToPresenceChannel(
        channelName: String, onMemberAdded: ((PusherPresenceChannelMember) -> Void)?,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)?
    ) -> PusherPresenceChannel {
        self.subscribeToPresenceChannel(channelName: channelName, onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved)
    }
}
#endif

#if canImport(ObjectiveC)
@objc
#endif
extension PusherConnection {
    /// ``reconnectAttemptsMax`` as an object.
    public var OCReconnectAttemptsMax: NSNumber? {
        get { self.reconnectAttemptsMax.map { NSNumber(value: $0) } }
        set { self.reconnectAttemptsMax = newValue?.intValue }
    }

    /// ``maxReconnectGapInSeconds`` as an object.
    public var OCMaxReconnectGapInSeconds: NSNumber? {
        get { self.maxReconnectGapInSeconds.map { NSNumber(value: $0) } }
        set { self.maxReconnectGapInSeconds = newValue?.doubleValue }
    }
}

import RealtimeCore

extension PusherChannelAttribute: CustomStringConvertible {
    /// The name of the attribute.
    public var description: String { self.rawValue }
}

extension PusherBatchEvent: PrintedParts {}

extension PusherChannelInfo: PrintedParts {}

extension PusherChannelInfo.CachedEvent: PrintedParts {}

extension PusherWebhook: PrintedParts {}

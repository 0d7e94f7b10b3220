package import PusherChannels

extension PusherConfiguration {
    /// For a client over sockets, while other tests use the processor.
    package mutating func allowLongTimes() {
        self.connectTimeout = .seconds(600)
        self.subscriptionTimeout = .seconds(600)
    }
}

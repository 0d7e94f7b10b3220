public import PusherChannels

extension PusherDecodedEvents where Value: Sendable {
    /// Takes the buffered events out of the sequence and returns their decoded data, without waiting for more.
    ///
    /// It is the same as `pending()` of an `EventSequence`. Events that can't be decoded are reported and left out, as by an iterator.
    ///
    /// - Returns: The values in order; empty if none are buffered.
    public func pending() async -> [Value] { self.takeBuffered() }
}

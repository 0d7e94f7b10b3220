package import PusherChannels
import Testing

extension PusherClient {
    /// Subscribes to a channel, and returns the error of the subscription with its cause.
    ///
    /// The channel doesn't keep an error that the application has thrown, so `subscribed()` throws an error without it if the subscription
    /// has failed before the call.
    package func subscriptionError(_ channel: String) async throws -> PusherError {
        let errors = self.errors.makeAsyncIterator()
        _ = try self.subscribe(channel)
        return try #require(await errors.next())
    }
}

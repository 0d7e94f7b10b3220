public import RealtimeCore

/// The webhooks of a server: requests with which it reports events to application servers.
///
/// ```swift
/// let webhooks = PusherServerWebhooks([try Endpoint("http://127.0.0.1:3000/pusher/webhooks")])
/// let server = PusherServer(app: app, webhooks: webhooks)
/// ```
/// The server reports when channels become occupied and vacated, when members join and leave, client events, subscriptions to cache
/// channels without an event, and, if ``PusherApp/sendsSubscriptionCounts`` is set, numbers of subscribers. A request is a `POST` of a
/// JSON object, signed with the secret of the app. An application server verifies and parses it with `PusherWebhook`, in the module
/// `PusherChannels`, and accepts it with a status from 200 to 299.
///
/// Each endpoint receives the events in order, with one request at a time. A request that isn't accepted is repeated after 1 second, 2
/// seconds, 4 seconds and so on, but at most after 1 minute; other requests don't wait for it, so that they can arrive earlier.
/// After five requests in a row that weren't accepted, other requests wait as well: for 1 second, and longer with each further one.
///
/// For each endpoint, at most 10,000 events wait to be sent, and as many to be repeated. The server drops further ones, and logs a warning.
public struct PusherServerWebhooks: Sendable {
    /// The endpoints of the application servers. Each receives all events.
    public var endpoints: [Endpoint]
    /// Whether a request contains the events that wait to be sent, up to 100. Otherwise, the default, each request contains one event.
    public var sendsBatches = false
    /// Additional header fields of the requests, such as `Authorization`.
    public var headers: HTTPHeaders = [:]
    /// How long a channel or a member must be absent before the server reports it. If a subscriber returns earlier, for example by reloading
    /// a web page, nothing is reported. The default is 3 seconds.
    public var absenceDelay = Duration.seconds(3)
    /// How long the server repeats a request that isn't accepted. The default is 5 minutes, as in the Pusher service.
    public var retryPeriod = Duration.seconds(300)
    /// The HTTP transport to use. If it is `nil`, the server uses the default transport of the platform or its in-memory network.
    public var http: (any HTTPTransport)?

    /// Creates webhooks with one event in each request.
    ///
    /// - Parameter endpoints: The endpoints of the application servers.
    public init(_ endpoints: [Endpoint]) {
        self.endpoints = endpoints
    }
}

extension PusherServerWebhooks: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoints", self.endpoints), ("sendsBatches", self.sendsBatches), ("headers", self.headers),
            ("absenceDelay", self.absenceDelay), ("retryPeriod", self.retryPeriod),
        ]
    }
}

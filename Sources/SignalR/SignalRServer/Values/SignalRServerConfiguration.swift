public import SignalRWire

/// The timing and the limits of a server. The defaults are the same as in ASP.NET Core where it has the same setting.
public struct SignalRServerConfiguration: Sendable, Hashable {
    // MARK: Transports

    /// The transports that negotiations offer, and with which clients can connect. The default is all of them, as in ASP.NET Core
    /// (`HttpConnectionDispatcherOptions.Transports`). A hub can have others; see ``Hub/transports``.
    ///
    /// Clients try the transports in the order WebSockets, Server-Sent Events, long polling.
    public var transports: HubTransportKinds = .all
    /// How long a poll of a connection over long polling waits for messages. Then the server answers it without messages, and the client
    /// sends the next one. The default is 90 seconds, as in ASP.NET Core (`LongPolling.PollTimeout`).
    ///
    /// Use less if a proxy between the clients and the server ends requests that aren't answered within this time.
    public var pollTimeout: Duration = .seconds(90)
    /// How long the client of a connection over long polling may take to send the next poll, and a client with stateful reconnect to resume
    /// its connection. Then the connection ends. The default is 15 seconds, as in ASP.NET Core (`DisconnectTimeout`).
    public var disconnectTimeout: Duration = .seconds(15)
    /// The number of bytes that may wait to be sent to the client of a connection over Server-Sent Events or long polling, which reads slowly
    /// or hasn't sent its next poll. A connection for which more wait ends. The default is 1 MiB, like that of WebSockets; see
    /// `ListenerLimits.messageBacklogBytes`.
    ///
    /// Methods that send to a single client wait earlier, when more than 256 KiB wait.
    public var backlogLimit = 1 << 20
    /// The number of bytes of messages that may wait for the clients of all connections over Server-Sent Events and long polling. A message to many
    /// clients counts once for each hub protocol, because they share it. While more wait, a connection ends when another message for it follows and
    /// its client hasn't asked for messages for a second, never asks, or reads too slowly. The default is 128 MiB.
    public var totalBacklogLimit = 128 << 20
    /// Whether clients that ask for stateful reconnect have it: when the WebSocket of such a connection is lost, the connection continues, and
    /// the client can resume it on another WebSocket within ``disconnectTimeout``, without a lost or repeated message. The default is `false`,
    /// as in ASP.NET Core (`AllowStatefulReconnects`).
    ///
    /// Meanwhile, the connection keeps its ID, its groups, calls and streams, and what is sent to the client is stored. Otherwise, the
    /// connection ends as any other does. It has no effect on other transports.
    public var allowsStatefulReconnects = false
    /// The number of bytes of the messages that a client with stateful reconnect hasn't acknowledged, at which methods that send to this client
    /// wait. The default is 100,000, as in ASP.NET Core (`StatefulReconnectBufferSize`).
    ///
    /// Further calls of this client wait as well. Messages to several clients, and the results of running calls, don't wait. A connection with
    /// ``backlogLimit`` more bytes ends. A resume sends all stored messages in a row, so `ListenerLimits.messageBacklogBytes` must not be less.
    public var statefulReconnectBufferBytes = 100_000

    // MARK: Timing

    /// The time limit from the opening of a connection to the client's handshake. Then the server closes the connection. The default is 15
    /// seconds, as in ASP.NET Core.
    public var handshakeTimeout: Duration = .seconds(15)
    /// How long the server sends nothing to a client before it sends a ping. The default is 15 seconds, as in ASP.NET Core.
    ///
    /// Connections over long polling need no pings.
    public var keepAliveInterval: Duration = .seconds(15)
    /// How long a client may send nothing before the server closes its connection and allows it to reconnect. The default is 30 seconds, as
    /// in ASP.NET Core.
    ///
    /// For a connection over long polling, ``disconnectTimeout`` applies in its place.
    public var clientTimeout: Duration = .seconds(30)
    /// How long a client may take to connect after a negotiation. Then the connection token expires. The default is 15 seconds, as in ASP.NET
    /// Core (`DisconnectTimeout`).
    public var connectTimeout: Duration = .seconds(15)
    /// How long the server waits for the hooks ``SignalRServerHooks/authenticate`` and ``SignalRServerHooks/approveRefresh``. Then it
    /// responds with the status 503. The default is 10 seconds.
    public var authenticationTimeout: Duration = .seconds(10)
    /// Whether clients may refresh their authentication without a reconnect, as with `EnableAuthenticationRefresh` in .NET 11; see
    /// ``SignalRServerHooks/approveRefresh``. The default is `false`.
    public var allowsAuthenticationRefresh = false
    /// The time limit for the result of a client's method, unless the call states another one. The default is 30 seconds. ASP.NET Core has no
    /// limit.
    public var clientResultTimeout: Duration = .seconds(30)

    // MARK: Limits

    /// The maximum size of a message from a client, in bytes. A larger message ends the connection. The default is 32 KiB, as in ASP.NET Core
    /// (`MaximumReceiveMessageSize`).
    ///
    /// A WebSocket message, or the body of a `POST` request, may contain several. One of more than 1 MiB and twice this size ends the
    /// connection, which bounds the memory for what hasn't arrived completely. The listener may have a smaller limit; see
    /// `ListenerLimits.messageBytes` and `ListenerLimits.bodyBytes`.
    public var messageLimit = 32 << 10
    /// The number of invocations of a connection that wait for earlier ones, at which the server stops reading from the connection. The
    /// server resumes reading at half of that number. The default is 1,000.
    ///
    /// While a method waits for a result of the same client, or the buffer of ``statefulReconnectBufferBytes`` is full, the server continues to
    /// read. If four times as many invocations wait then, the server rejects further ones with an error.
    public var pendingInvocationLimit = 1_000
    /// The number of bytes in the arguments of these invocations, at which the server stops reading from the connection. What is said of
    /// ``pendingInvocationLimit`` applies here as well. The default is 256 KiB.
    public var invocationBufferLimit = 256 << 10
    /// The number of invocations of a connection that run at the same time. Streaming invocations, which return a stream or receive one,
    /// aren't counted and don't delay others. The default is 1, as in ASP.NET Core (`MaximumParallelInvocationsPerClient`).
    public var parallelInvocations = 1
    /// The maximum number of streams of a connection, in both directions together. The server rejects an invocation that exceeds it. The
    /// default is 100. ASP.NET Core has no limit.
    public var streamLimit = 100
    /// The number of bytes that wait in the streams from a client to be read by methods, at which the server stops reading from the
    /// connection. The server resumes reading at half of that number. The default is 256 KiB. ASP.NET Core has a limit of 10 items per stream
    /// (`StreamBufferCapacity`).
    ///
    /// While a method waits for a result of the same client, or the buffer of ``statefulReconnectBufferBytes`` is full, the server continues to
    /// read. If four times as many bytes wait then, the stream that exceeds the limit fails.
    public var streamBufferLimit = 256 << 10
    /// The maximum number of connections. The server responds to further ones with the status 503. There is no limit by default.
    public var connectionLimit = Int.max
    /// The maximum number of negotiations whose clients haven't connected yet. With a further one, the token of the oldest one expires. The
    /// default is 10,000.
    public var negotiationLimit = 10_000

    // MARK: Web pages

    /// The origins of web pages that may use the hubs, in addition to pages of the server's own origin: a scheme, a host, and a port unless
    /// it is the usual one, such as `https://app.example.com`. `*` permits all origins. The default is none.
    ///
    /// The server adds the header fields to its responses with which a browser lets a page of another origin read them and send cookies and
    /// tokens, and answers the requests with which a browser asks for this (CORS). As in ASP.NET Core, browsers connect WebSockets without
    /// such fields, so a page of any origin can do that; a hook can check the field `Origin`.
    ///
    /// A server on a loopback address permits pages of loopback addresses as well, with any port.
    public var allowedOrigins: Set<String> = []
    /// Whether web pages of any origin may use the hubs of a server on a loopback address. The default is `false`.
    ///
    /// By default, such a server responds to a request with the status 403 if its field `Origin` names another host than a loopback address or
    /// `localhost`, with any port, unless ``allowedOrigins`` contains it. Otherwise, every page that a developer visits could call the hubs of
    /// a server on the same machine. The response and the log name the origin. Set it if a proxy on the same machine passes on the requests of pages of another host. It has no effect
    /// on other servers, whose hooks can check the field.
    public var allowsForeignOrigins = false
    /// Whether clients receive the descriptions of all errors that methods throw, and not only the messages of ``HubException``. The default
    /// is `false`, as in ASP.NET Core (`EnableDetailedErrors`).
    public var sendsDetailedErrors = false

    /// The advice about a web page that is refused, in the words of the user of the program that runs the server.
    package var adviceForForeignOrigins = "Set allowsForeignOrigins, or add the origin to allowedOrigins."

    /// Creates a configuration with the default values.
    public init() {}

    /// The maximum size of a WebSocket message, or of the body of a request. It is more than that of a message, because clients such as that
    /// of .NET send up to 1 MiB of messages as one.
    var containerLimit: Int { (1 << 20) + 2 * min(max(0, self.messageLimit), 1 << 30) }
}

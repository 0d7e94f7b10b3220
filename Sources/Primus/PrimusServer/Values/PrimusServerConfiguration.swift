public import PrimusWire
public import RealtimeCore

/// How a server talks to its clients.
public struct PrimusServerConfiguration: Sendable {
    /// The generation of Primus that the server resembles, with the direction of the heartbeat and the version of engine.io.
    public enum Version: Hashable, Sendable {
        /// Primus 8: the server sends pings, and engine.io has version 4.
        case v8
        /// Primus 6: the client sends pings, and engine.io has version 3.
        case v6

        /// The version that the specification names.
        var name: String { self == .v8 ? "8.0.9" : "6.1.0" }
    }

    /// The path at which clients connect. The default is `/primus`. As in Primus, longer paths that begin with it are the server's, too, and a
    /// slash at the beginning is added if there is none.
    public var pathname = "/primus" {
        didSet { if !self.pathname.isEmpty, !self.pathname.hasPrefix("/") { self.pathname = "/" + self.pathname } }
    }
    /// The transformer: one of `websockets`, `faye` and `uws`, which are the same on the wire and have WebSockets only, and `sockjs` and
    /// `engineIO`, whose clients may use requests over HTTP as well.
    public var transformer = PrimusTransformerKind.websockets
    /// The parser, one that Primus contains. Another one is set as ``customParser``.
    public var parser = PrimusParserKind.json
    /// A parser of the application, in place of ``parser``.
    public var customParser: (any PrimusParser)?
    /// The generation of Primus. The default is ``Version/v8``.
    public var version = Version.v8
    /// The interval of the server's pings with ``Version/v8``, at least 1 ms; `nil` for none. The default is 30 seconds. A client that hasn't
    /// answered a ping when the next one is due is disconnected, and may reconnect.
    public var pingInterval: Duration? = .seconds(30)
    /// The time after which the server disconnects a silent client with ``Version/v6``, at least 1 ms; `nil` for never. The default is 35
    /// seconds.
    public var silenceTimeout: Duration? = .seconds(35)
    /// The interval of engine.io's own pings, at least 1 ms. The default is 25 seconds.
    public var enginePingInterval: Duration = .seconds(25)
    /// The time in which a ping of engine.io is answered. The default is 20 seconds.
    public var enginePingTimeout: Duration = .seconds(20)
    /// The time in which a client of engine.io that has opened a WebSocket moves to it.
    package var engineProbeTimeout = Duration.seconds(10)
    /// Whether sessions of engine.io that began with polling may move to a WebSocket. The default is `true`.
    public var allowsUpgrades = true
    /// The name of a cookie for balancers that lead the requests of a session over HTTP to one server; `nil`, the default, for none.
    ///
    /// With engine.io, it has the ID of the session, and the first response sets it. With sockjs, as sockjs-node with its option `jsessionid` does
    /// under the name `JSESSIONID`, each response of a session sets it: to the value that the client sends, or to `dummy`. The balancer is expected
    /// to put its own value there.
    public var sessionCookie: String?
    /// Whether the server of SockJS accepts WebSockets, as its information says. The default is `true`.
    public var allowsSockJSWebSockets = true
    /// The interval of the heartbeats of SockJS, at least 1 ms. The default is 25 seconds.
    public var sockJSHeartbeatInterval: Duration = .seconds(25)
    /// The time after which a session of SockJS over HTTP ends whose client receives no messages, at least 1 ms. The default is 5 seconds.
    public var sockJSDisconnectDelay: Duration = .seconds(5)
    /// The number of bytes after which a response of SockJS ends, so that the client opens another one. The first piece, with which a stream begins,
    /// doesn't count. The default is 128 KiB.
    public var sockJSResponseLimit = 128 << 10
    /// Whether clients of engine.io 3 may connect to a server with ``Version/v8``. The default is `false`.
    public var allowsEIO3 = false
    /// The plugins. The default is none.
    public var plugins: PrimusServerPlugins = []
    /// The maximum size of a message in bytes. A client that exceeds it is disconnected with the close code 1009. The default is 10 MiB.
    public var messageLimit = 10_485_760
    /// The maximum number of clients. Others are rejected with the status 503. The default is 10,000.
    public var sparkLimit = 10_000
    /// The maximum number of sessions over HTTP whose clients have had no request that waits for messages for a second, or none since they have
    /// opened the session. While there are as many, another client takes the place of the oldest one whose client has never asked for messages: that
    /// session ends. If there is none, because all of them have asked before, the other client is rejected with the status 503. The default is
    /// 1,000.
    public var unreadSessionLimit = 1_000
    /// The number of bytes of messages that may wait for the next request of a session over HTTP, and of 64 more for each message. The session ends
    /// when another message follows. The default is 4 MiB.
    public var sessionBacklogLimit = 4 << 20
    /// The number of bytes of messages that may wait for the next requests of all sessions over HTTP. A message to many clients counts once for each
    /// framing, because they share it. While more wait, a session ends when another message for it follows and its client hasn't asked for messages
    /// for a second, never asks, or reads a stream too slowly. The default is 128 MiB.
    public var totalBacklogLimit = 128 << 20
    /// The maximum number of channels that a client joins. The default is 1,000. The names and IDs of all of them have at most as many times 256
    /// bytes.
    public var channelLimit = 1_000
    /// The maximum number of bytes of the name of a channel that a client joins, and of the ID that the client gives it. The default is 1,024. The
    /// client doesn't join a channel with a longer one.
    public var channelNameLimit = 1_024
    /// Whether web pages of any origin may use a server on a loopback address. The default is `true`, as in Primus, which allows pages of any origin
    /// to read its responses; ``authorize`` decides about clients.
    ///
    /// If it is `false`, such a server responds to a request with the status 403 if its field `Origin` or `Host` names another host than a loopback
    /// address or `localhost`, with any port. Otherwise, every page that a developer visits could use a server on the same machine that authorizes
    /// all clients. It has no effect on other servers. The tool `realtime serve primus` sets it to `false`, unless it has the option
    /// `--allow-foreign-origins`.
    public var allowsForeignOrigins = true
    /// The time in which ``authorize`` decides. Otherwise, the client is rejected with the status 503. The default is 9 seconds: a listener rejects
    /// an upgrade itself that isn't decided in its `upgradeTimeout`, 10 seconds by default.
    public var authorizationTimeout: Duration = .seconds(9)
    /// Decides about each request of a client, other than those for the specification. Runs in a task of its own, which is cancelled when the
    /// client disconnects. If the closure is `nil`, every client is accepted.
    public var authorize: (@Sendable (HTTPRequestHead) async -> PrimusAuthorizationDecision)?
    /// Changes or drops each message that an application receives, in the order of the messages, where the callbacks run: `nil` drops it.
    public var transformIncoming: (@Sendable (PrimusValue) -> PrimusValue?)?
    /// Changes or drops each message that is written, on the thread that writes it: `nil` drops it.
    public var transformOutgoing: (@Sendable (PrimusValue) -> PrimusValue?)?

    /// Creates a configuration: Primus 8 with the transformer `websockets` and the parser `json`, without plugins.
    public init() {}

    var coding: PrimusCoding {
        if let customParser { return PrimusCoding(customParser) }
        return PrimusCoding(self.parser) ?? .json
    }

    /// The reason why the configuration can't work; `nil` if it can.
    var problem: String? {
        switch self.transformer {
        case .websockets, .faye, .uws, .sockjs, .engineIO: break
        case .browserchannel, .custom:
            return "The server has no transformer \"\(self.transformer)\". Use websockets, sockjs or engine.io."
        }
        if self.customParser == nil, PrimusCoding(self.parser) == nil {
            return "Primus has no parser \"\(self.parser)\". Set customParser to an implementation of it."
        }
        return self.transformer.rejection(of: self.coding.kind)
    }

    /// The specification that the server publishes.
    var spec: PrimusSpec {
        func milliseconds(_ duration: Duration?) -> Double? {
            duration.map { Double(max(1, $0.nanoseconds / 1_000_000)) }
        }
        return PrimusSpec(
            version: self.version.name, pathname: self.pathname, parser: self.customParser == nil ? self.parser : .custom("custom"),
            transformer: self.transformer,
            heartbeat: self.version == .v8
                ? .serverPings(interval: milliseconds(self.pingInterval)) : .clientPings(timeout: milliseconds(self.silenceTimeout)))
    }
}

/// The plugins of a server.
public struct PrimusServerPlugins: OptionSet, Hashable, Sendable {
    /// The bits of the plugins.
    public let rawValue: UInt8

    /// Creates a set from its bits.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// primus-emitter: events with acknowledgements.
    public static let emitter = Self(rawValue: PrimusPluginSet.emitter.rawValue)
    /// primus-emit: events without acknowledgements.
    public static let emit = Self(rawValue: PrimusPluginSet.emit.rawValue)
    /// primus-multiplex: channels.
    public static let multiplex = Self(rawValue: PrimusPluginSet.multiplex.rawValue)
    /// substream: streams with a name.
    public static let substream = Self(rawValue: PrimusPluginSet.substream.rawValue)
    /// primus-responder: requests with a response.
    public static let responder = Self(rawValue: PrimusPluginSet.responder.rawValue)
    /// All plugins.
    public static let all: Self = [.emitter, .emit, .multiplex, .substream, .responder]

    var wire: PrimusPluginSet { PrimusPluginSet(rawValue: self.rawValue) }
}

/// The decision about a client's request.
public enum PrimusAuthorizationDecision: Sendable {
    /// The client may proceed.
    case accept
    /// The client may not proceed. It receives the message as `{"error":message}`, as from Primus.
    ///
    /// - Parameters:
    ///   - message: The message.
    ///   - status: The status of the response.
    ///   - headers: More header fields, such as `WWW-Authenticate`.
    case reject(_ message: String, status: Int = 401, headers: HTTPHeaders = [:])
    /// The client may not proceed, and receives this response.
    case respond(HTTPResponse)
}

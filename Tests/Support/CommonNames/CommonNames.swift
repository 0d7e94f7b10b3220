// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

// Names of public types in packages that are often used together with this one. A file that imports this module and a module of the
// package compiles only if the package exports none of these names.

// swift-nio
public struct ByteBuffer { public init() {} }
public protocol Channel {}
public protocol ChannelHandler {}
public protocol EventLoop {}
public protocol EventLoopGroup {}
public struct EventLoopFuture { public init() {} }
public struct EventLoopPromise { public init() {} }
public struct SocketAddress { public init() {} }
public struct TimeAmount { public init() {} }
public struct Scheduled { public init() {} }
public struct HTTPHeaders { public init() {} }
public struct HTTPRequestHead { public init() {} }
public struct HTTPResponseHead { public init() {} }
public struct HTTPMethod { public init() {} }
public struct HTTPVersion { public init() {} }
public struct HTTPResponseStatus { public init() {} }
public struct WebSocketFrame { public init() {} }
public struct WebSocketErrorCode { public init() {} }
public struct WebSocketOpcode { public init() {} }
public struct TLSConfiguration { public init() {} }
public struct TLSVersion { public init() {} }

// swift-http-types
public struct HTTPRequest { public init() {} }
public struct HTTPResponse { public init() {} }
public struct HTTPField { public init() {} }
public struct HTTPFields { public init() {} }

// swift-log, swift-metrics, swift-service-lifecycle
public struct Logger { public init() {} }
public protocol LogHandler {}
public enum LogLevel {}
public struct Counter { public init() {} }
public struct Recorder { public init() {} }
public struct Timer { public init() {} }
public protocol Service {}

// Vapor and Hummingbird
public struct Application { public init() {} }
public struct Authenticator { public init() {} }
public struct Authorizer { public init() {} }
public struct Client { public init() {} }
public struct Environment { public init() {} }
public struct Request { public init() {} }
public protocol Responder {}
public struct Response { public init() {} }
public struct Route { public init() {} }
public struct Router { public init() {} }
public struct WebSocket { public init() {} }
public struct WebSocketClient { public init() {} }

// Apps
public struct ConnectionState { public init() {} }
public struct ConnectionID { public init() {} }
public struct Event { public init() {} }
public struct Listener { public init() {} }
public struct Lock { public init() {} }
public struct Member { public init() {} }
public struct Message { public init() {} }
public struct SubscriptionState { public init() {} }

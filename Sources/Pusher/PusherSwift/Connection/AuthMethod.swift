#if canImport(FoundationNetworking)
import Foundation
public import FoundationNetworking
#else
public import Foundation
#endif

/// How subscriptions to private and presence channels are authorized.
public enum AuthMethod {
    /// With a request to an endpoint of the application server, which is a `POST` of a form with the fields `socket_id` and `channel_name`.
    case endpoint(authEndpoint: String)
    /// With a request of your own.
    case authRequestBuilder(authRequestBuilder: any AuthRequestBuilderProtocol)
    /// With a function of your own.
    case authorizer(authorizer: any Authorizer)
    /// With the secret of the app, for development. Never ship the secret with an app.
    case inline(secret: String)
    /// Not at all: only public channels can be subscribed.
    case noMethod

    /// Returns the method as an object for Objective-C.
    public func toObjc() -> OCAuthMethod {
        switch self {
        case .endpoint(let endpoint): OCAuthMethod(authEndpoint: endpoint)
        case .authRequestBuilder(let builder): OCAuthMethod(authRequestBuilder: builder)
        case .authorizer(let authorizer): OCAuthMethod(authorizer: authorizer)
        case .inline(let secret): OCAuthMethod(secret: secret)
        case .noMethod: OCAuthMethod()
        }
    }

    /// Returns the method of an object from Objective-C.
    ///
    /// - Parameter source: The object.
    public static func fromObjc(source: OCAuthMethod) -> AuthMethod { source.method }
}

#if canImport(ObjectiveC)
/// An object that makes the requests that authorize subscriptions.
@objc public protocol AuthRequestBuilderProtocol {
    /// Returns the request that authorizes a subscription.
    ///
    /// - Parameters:
    ///   - socketID: The ID that the server assigned to the connection.
    ///   - channelName: The name of the channel.
    /// - Returns: The request, or `nil` to fail the subscription. Called on the queue of the client.
    @objc optional func requestFor(socketID: String, channelName: String) -> URLRequest?
    /// Returns the request that authorizes a subscription, as in version 5. It takes precedence.
    ///
    /// - Parameters:
    ///   - socketID: The ID that the server assigned to the connection.
    ///   - channel: The channel.
    /// - Returns: The request, or `nil` to use the other method. Called on the queue of the client.
    @objc optional func requestFor(socketID: String, channel: PusherChannel) -> NSMutableURLRequest?
}

/// An object that authorizes subscriptions.
@objc public protocol Authorizer {
    /// Authorizes a subscription.
    ///
    /// Called on the queue of the client.
    ///
    /// - Parameters:
    ///   - socketID: The ID that the server assigned to the connection.
    ///   - channelName: The name of the channel.
    ///   - completionHandler: Receives the authorization, or `nil` to fail the subscription. It can be called on any thread; only the first
    ///     call counts.
    @objc func fetchAuthValue(socketID: String, channelName: String, completionHandler: @escaping (PusherAuth?) -> Void)
}
#else
/// An object that makes the requests that authorize subscriptions.
///
/// Both methods are optional.
public protocol AuthRequestBuilderProtocol {
    /// Returns the request that authorizes a subscription.
    ///
    /// - Parameters:
    ///   - socketID: The ID that the server assigned to the connection.
    ///   - channelName: The name of the channel.
    /// - Returns: The request, or `nil` to fail the subscription. Called on the queue of the client.
    func requestFor(socketID: String, channelName: String) -> URLRequest?
    /// Returns the request that authorizes a subscription, as in version 5. It takes precedence.
    ///
    /// - Parameters:
    ///   - socketID: The ID that the server assigned to the connection.
    ///   - channel: The channel.
    /// - Returns: The request, or `nil` to use the other method. Called on the queue of the client.
    func requestFor(socketID: String, channel: PusherChannel) -> NSMutableURLRequest?
}

extension AuthRequestBuilderProtocol {
    /// Returns `nil`.
    public func requestFor(socketID: String, channelName: String) -> URLRequest? { nil }
    /// Returns `nil`.
    public func requestFor(socketID: String, channel: PusherChannel) -> NSMutableURLRequest? { nil }
}

/// An object that authorizes subscriptions.
public protocol Authorizer {
    /// Authorizes a subscription.
    ///
    /// Called on the queue of the client.
    ///
    /// - Parameters:
    ///   - socketID: The ID that the server assigned to the connection.
    ///   - channelName: The name of the channel.
    ///   - completionHandler: Receives the authorization, or `nil` to fail the subscription. It can be called on any thread; only the first
    ///     call counts.
    func fetchAuthValue(socketID: String, channelName: String, completionHandler: @escaping (PusherAuth?) -> Void)
}
#endif

extension AuthRequestBuilderProtocol {
    /// Asks both methods.
    func request(socketID: String, channel: PusherChannel) -> URLRequest? {
        #if canImport(ObjectiveC)
        if let request = self.requestFor?(socketID: socketID, channel: channel) ?? nil { return request as URLRequest }
        return self.requestFor?(socketID: socketID, channelName: channel.name) ?? nil
        #else
        if let request = self.requestFor(socketID: socketID, channel: channel) { return request as URLRequest }
        return self.requestFor(socketID: socketID, channelName: channel.name)
        #endif
    }
}

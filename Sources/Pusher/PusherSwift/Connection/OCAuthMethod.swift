public import Foundation

/// How subscriptions are authorized, for Objective-C.
///
/// `@unchecked Sendable`: the object doesn't change, and the application's objects in it are only called on the queue of the client.
#if canImport(ObjectiveC)
@objcMembers
#endif
public class OCAuthMethod: NSObject, @unchecked Sendable {
    let method: AuthMethod

    /// Creates an object without a method.
    public override init() { self.method = .noMethod }

    /// Creates an object without a method, as version 10 does for code that then sets one.
    ///
    /// - Parameter type: Ignored.
    public init(type: Int) { self.method = .noMethod }

    /// Creates an object for an endpoint.
    ///
    /// - Parameter authEndpoint: The URL of the endpoint.
    public init(authEndpoint: String) { self.method = .endpoint(authEndpoint: authEndpoint) }

    /// Creates an object for requests of your own.
    ///
    /// - Parameter authRequestBuilder: The object that makes the requests.
    public init(authRequestBuilder: any AuthRequestBuilderProtocol) {
        self.method = .authRequestBuilder(authRequestBuilder: authRequestBuilder)
    }

    /// Creates an object for the secret of the app, for development.
    ///
    /// - Parameter secret: The secret. Never ship it with an app.
    public init(secret: String) { self.method = .inline(secret: secret) }

    /// Creates an object for a function of your own.
    ///
    /// - Parameter authorizer: The object with the function.
    public init(authorizer: any Authorizer) { self.method = .authorizer(authorizer: authorizer) }
}

public import Foundation

/// The authorization of a subscription, as an application server returns it.
///
/// `@unchecked Sendable`: an authorization doesn't change.
#if canImport(ObjectiveC)
@objcMembers
#endif
public class PusherAuth: NSObject, @unchecked Sendable {
    /// The key of the app and the signature, in the form `key:signature`.
    public let auth: String
    /// The user of a presence channel as JSON text, exactly as it was signed.
    public let channelData: String?
    /// The Base64-encoded key of an encrypted channel.
    public let sharedSecret: String?

    /// Creates an authorization.
    ///
    /// - Parameters:
    ///   - auth: The key of the app and the signature, in the form `key:signature`.
    ///   - channelData: The user of a presence channel as JSON text, exactly as it was signed.
    ///   - sharedSecret: The Base64-encoded key of an encrypted channel.
    public init(auth: String, channelData: String? = nil, sharedSecret: String? = nil) {
        self.auth = auth
        self.channelData = channelData
        self.sharedSecret = sharedSecret
    }
}

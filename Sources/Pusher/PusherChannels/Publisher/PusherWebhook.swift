import RealtimeCore
import RealtimeCoding
import RealtimeCrypto
import RealtimeSystem
public import PusherWire

/// A webhook: a request with which a Pusher service reports events to an application server.
///
/// The service signs the request with the secret of the app. Verify the signature before you trust the events, with
/// ``PusherPublisher/webhook(key:signature:body:)`` or ``init(key:signature:body:secrets:)``, and respond with status 200. The service
/// repeats a request that receives another status, or no response, for several minutes.
public struct PusherWebhook: Sendable, Hashable {
    /// The key of the app that sent the webhook.
    public let key: String
    /// When the service sent the webhook, in milliseconds since January 1, 1970 (UTC). Requests can arrive in another order.
    public let unixMilliseconds: Int64
    /// The events in order. There is more than one if the service is set to send batches.
    public let events: [PusherWebhookEvent]

    /// Creates a webhook, for a test of code that handles it.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - unixMilliseconds: When the webhook was sent, in milliseconds since January 1, 1970 (UTC).
    ///   - events: The events.
    public init(key: String, unixMilliseconds: Int64, events: [PusherWebhookEvent]) {
        self.key = key
        self.unixMilliseconds = unixMilliseconds
        self.events = events
    }

    /// Verifies and parses a webhook.
    ///
    /// - Parameters:
    ///   - key: The value of the header field `X-Pusher-Key`, or `nil` if it is missing.
    ///   - signature: The value of the header field `X-Pusher-Signature`, or `nil` if it is missing.
    ///   - body: The body of the request, byte by byte as it was received.
    ///   - secrets: The secrets of the apps and keys whose webhooks are accepted, by their keys.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidSignature`` if the key is missing or unknown, or the signature is missing or wrong,
    ///   - ``PusherError/Code/invalidWebhook`` if the body isn't a JSON object with a time and a list of events.
    public init(key: String?, signature: String?, body: some Sequence<UInt8>, secrets: [String: String]) throws(PusherError) {
        guard let key else { throw PusherError(.invalidSignature, "The webhook has no header field \(WebhookSignature.keyField).") }
        guard let secret = secrets.first(where: { ByteString($0.key) == ByteString(key) })?.value else {
            throw PusherError(.invalidSignature, "The key of the webhook, \(Excerpt.of(key, limit: 80)), is not one of those accepted.")
        }
        guard let signature else {
            throw PusherError(.invalidSignature, "The webhook has no header field \(WebhookSignature.signatureField).")
        }
        let body = Array(body)
        guard constantTimeEqual(signature, WebhookSignature.hex(of: body, secret: secret)) else {
            throw PusherError(
                .invalidSignature,
                "The signature of the webhook is wrong. Check the secret, and pass the body byte by byte as it was received.")
        }
        let json: JSONValue
        do throws(JSONError) {
            json = try JSONValue(parsing: body)
        } catch {
            throw PusherError(.invalidWebhook, "The body of the webhook is not JSON: \(error.message)", cause: error)
        }
        guard let time = json["time_ms"]?.number?.int64 else {
            throw PusherError(.invalidWebhook, "The body of the webhook has no integer \"time_ms\".")
        }
        guard let list = json["events"]?.array, case let objects = list.compactMap(\.object), objects.count == list.count else {
            throw PusherError(.invalidWebhook, "The body of the webhook has no array of objects \"events\".")
        }
        self.init(key: key, unixMilliseconds: time, events: objects.map { PusherWebhookEvent($0) })
    }
}

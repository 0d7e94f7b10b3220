import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// An event of push notifications, of which the delegate is informed.
///
/// `@unchecked Sendable` is right because a `URLResponse` is immutable after its creation; not every platform declares it `Sendable`.
enum PushNotice: @unchecked Sendable {
    case registered(clientID: String)
    case notRegistered(URLResponse, String?)
    case subscribed(String)
    case unsubscribed(String)
    case set([String])

    func notify(_ delegate: any PusherDelegate) {
        switch self {
        case .registered(let id): delegate.notifyRegisteredForPushNotifications(clientId: id)
        case .notRegistered(let response, let body):
            delegate.notifyFailedToRegisterForPushNotifications(response: response, responseBody: body)
        case .subscribed(let name): delegate.notifySubscribedToInterest(name: name)
        case .unsubscribed(let name): delegate.notifyUnsubscribedFromInterest(name: name)
        case .set(let names): delegate.notifySubscribedToInterests(interests: names)
        }
    }
}

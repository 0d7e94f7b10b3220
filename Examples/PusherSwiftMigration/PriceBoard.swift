import Foundation
import PusherSwift

/// A part of an app that was written for PusherSwift 10. Nothing in this file has changed for the migration.
final class PriceBoard: PusherDelegate {
    private let pusher: Pusher
    private let show: (String) -> Void

    init(key: String, options: PusherClientOptions, show: @escaping (String) -> Void) {
        self.pusher = Pusher(key: key, options: options)
        self.show = show
    }

    func start() {
        self.pusher.delegate = self
        let prices = self.pusher.subscribe("prices")
        prices.bind(eventName: "price") { [weak self] event in
            guard let data = event.data?.data(using: .utf8),
                let price = try? JSONSerialization.jsonObject(with: data) as? [String: Any], let symbol = price["symbol"] as? String
            else { return }
            self?.show("price of \(symbol)")
        }
        self.pusher.connect()
    }

    func stop() { self.pusher.disconnect() }

    func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {
        self.show("\(old.stringValue()) -> \(new.stringValue())")
    }

    func subscribedToChannel(name: String) { self.show("subscribed to \(name)") }
}

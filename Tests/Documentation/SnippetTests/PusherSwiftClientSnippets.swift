import PusherSwift

// The client of PusherChannels in a file that only imports PusherSwift.

func pusherSwiftClientSnippet(_ pusher: Pusher) async throws {
    // snippet:pusherswift-client
    let prices = try pusher.client.subscribe("prices")
    for await event in prices.events("price") {
        print(event.data ?? "")
    }
    // end
}

// snippet:pusherswift-main-actor
@MainActor final class PriceScreen: @preconcurrency PusherDelegate {
    var names: [String] = []

    func subscribedToChannel(name: String) { self.names.append(name) }
}
// end

// snippet:pusherswift-linux
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
// end

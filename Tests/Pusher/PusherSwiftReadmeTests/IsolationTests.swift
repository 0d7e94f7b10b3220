import Foundation
import PusherSwift
import RealtimeTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

// Delegates and methods of authorization in classes of the main actor, as the article about the migration shows them.

@MainActor private final class Screen: UIViewController, @preconcurrency PusherDelegate {
    var pusher: Pusher?
    var states: [ConnectionState] = []
    var subscribed: [String] = []
    var failures: [String] = []
    var prices: [String] = []

    func show(_ pusher: Pusher) {
        self.pusher = pusher
        pusher.delegate = self
        pusher.subscribe("prices").bind(eventName: "price") { event in self.prices.append(event.data ?? "") }
        pusher.subscribe("private-refused")
        pusher.connect()
    }

    func changedConnectionState(from old: ConnectionState, to new: ConnectionState) { self.states.append(new) }
    func subscribedToChannel(name: String) { self.subscribed.append(name) }
    func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?) { self.failures.append(name) }
}

@MainActor private final class Account: @preconcurrency Authorizer, @preconcurrency AuthRequestBuilderProtocol {
    var channels: [String] = []

    func fetchAuthValue(socketID: String, channelName: String, completionHandler: @escaping (PusherAuth?) -> Void) {
        self.channels.append(channelName)
        completionHandler(nil)
    }

    func requestFor(socketID: String, channelName: String) -> URLRequest? {
        self.channels.append(channelName)
        return nil
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct IsolationTests {
    @Test(arguments: [true, false])
    func `objects of the main actor are delegates, and authorize`(isBuilder: Bool) async throws {
        try await ReadmeServer.with(key: "APP_KEY") { server in try await Self.run(server, isBuilder: isBuilder) }
    }

    @MainActor private static func run(_ server: ReadmeServer, isBuilder: Bool) async throws {
        let (screen, account) = (Screen(), Account())
        let method: AuthMethod = isBuilder ? .authRequestBuilder(authRequestBuilder: account) : .authorizer(authorizer: account)
        screen.show(server.pusher(PusherClientOptions(authMethod: method)))
        try await eventually { screen.subscribed == ["prices"] && screen.failures == ["private-refused"] }
        server.publish("price", to: "prices", data: "1")
        try await eventually { screen.prices == ["1"] }
        #expect(account.channels == ["private-refused"] && screen.states == [.connecting, .connected])
        screen.pusher?.disconnect()
    }
}

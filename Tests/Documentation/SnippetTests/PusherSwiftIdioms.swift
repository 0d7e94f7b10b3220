import Foundation
import PusherSwift

// The code for the API of PusherSwift in the tables of the article MigratingFromPusherSwift. A test checks that each piece is in this file.

/// The counterparts of the names on the page about the connection.
func pusherSwiftConnectionPage(_ options: PusherClientOptions, _ delegate: any PusherDelegate) {
    let pusher = Pusher(key: "app-key", options: options)
    _ = pusher.connection.phase
    pusher.connection.bind("state_change") { print($0.previous!, $0.current!) }
    pusher.connection.bind("connected") { print($0.socketID ?? "") }
    pusher.connection.bind("connecting_in") { print($0.delay ?? 0) }
    pusher.connection.bind("error") { print($0.data?.code == 4004) }
    pusher.connection.unbind("connected")
    pusher.connection.unbindAll()
    pusher.connect()
    pusher.disconnect()
    pusher.delegate = delegate
    let channel = pusher.subscribe("prices")
    channel.bind(eventName: "pusher:subscription_error") { print($0.data ?? "") }

    _ = PusherClientOptions(encrypted: true)
    _ = PusherClientOptions(useTLS: true)
    _ = PusherClientOptions(host: .cluster("eu"))
    options.authEndpoint = "https://example.org/pusher/auth"
    options.authorizationURL = URL(string: "https://example.org/pusher/auth")
    options.authParameters = ["CSRFToken": "token"]
    options.authHeaders = ["X-CSRF-Token": "token"]
    options.connectAutomatically = true
    options.reconnectAutomatically = true
    options.reconnectDelay = 5
    options.unavailableTimeout = 30
    options.unavailableRetryInterval = 10
}

/// The calls that have counterparts in the asynchronous API.
func pusherSwiftCalls(_ pusher: Pusher, _ options: PusherClientOptions, _ auth: PusherAuth, _ queue: DispatchQueue) {
    _ = PusherClientOptions(host: .host("example.org"), port: 6001, path: "/ws", useTLS: true)
    _ = PusherClientOptions(activityTimeout: 30)
    _ = pusher.connection.connectionState
    _ = pusher.connection.socketId
    options.autoReconnect = false
    pusher.connection.maxReconnectGapInSeconds = 30
    pusher.connection.reconnectAttemptsMax = 3
    options.callbackQueue = queue

    let channel = pusher.subscribe("prices")
    pusher.subscribe("private-orders", auth: auth)
    let room = pusher.subscribeToPresenceChannel("presence-room")
    pusher.unsubscribe("prices")
    pusher.unsubscribeAll()
    _ = pusher.connection.channels.find(name: "prices")
    _ = pusher.connection.channels.findPresence(name: "presence-room")
    _ = channel.subscribed
    let id = channel.bind(eventName: "price") { event in print(event.data ?? "") }
    channel.unbind(eventName: "price", callbackId: id)
    channel.unbindAll()
    pusher.bind(eventCallback: { event in print(event.eventName) })
    pusher.unbind(callbackId: id)
    pusher.unbindAll()
    channel.trigger(eventName: "client-typing", data: ["on": true])
    channel.onSubscriptionCountChanged = { print($0) }
    _ = room.members
    _ = room.myId
    _ = room.me()
    _ = room.findMember(userId: "anna")
    room.onMemberAdded = { print($0.userId) }
    room.onMemberRemoved = { print($0.userId) }
    _ = pusher.nativePusher
}

/// The methods of authorization.
func pusherSwiftAuthorization(
    _ pusher: Pusher, _ options: PusherClientOptions, _ builder: any AuthRequestBuilderProtocol, _ authorizer: any Authorizer
) {
    options.authMethod = .endpoint(authEndpoint: "https://example.org/pusher/auth")
    options.authMethod = .authRequestBuilder(authRequestBuilder: builder)
    options.authMethod = .authorizer(authorizer: authorizer)
    options.authMethod = .inline(secret: "app-secret")
    pusher.connection.userDataFetcher = { PusherPresenceChannelMember(userId: "anna") }
}

import PusherChannels

// The calls in the table of the article MigratingFromPusherJS. A test checks that each of them is in this file.

func pusherJSIdioms(_ session: UserSession) async throws {
    let client = PusherClient(key: "app-key", cluster: "eu")
    var configuration = PusherConfiguration(key: "app-key", host: "localhost", port: 6001, useTLS: false)
    configuration.activityTimeout = .seconds(30)
    configuration.pongTimeout = .seconds(10)
    configuration.unavailableTimeout = .seconds(5)
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
    configuration.userAuthenticator = try .endpoint("https://example.org/pusher/user-auth")
    configuration.log = LogSink(minimumLevel: .trace) { print($2) }
    client.connect()
    client.disconnect()
    try client.switchCluster("us3", key: "other-key")
    _ = client.state.name
    _ = client.socketID
    for await change in client.stateChanges { print(change.old.name, change.new.name) }
    for await delay in client.connectingIn { print(delay) }
    for await error in client.errors { print(error.message) }

    let channel = try client.subscribe("prices")
    for await event in channel.events("price") { print(event.data ?? "") }
    let observation = channel.on("price") { event in print(event.data ?? "") }
    observation.cancel()
    for await price in channel.events("price", as: Price.self) { print(price.value) }
    for await event in channel.events() { print(event.name) }
    for await event in client.events("price") { print(event.data ?? "") }
    for await event in client.events() { print(event.name) }
    for await state in channel.states where state == .subscribed { print("subscribed") }
    try await channel.subscribed()
    for await event in channel.events("pusher:cache_miss") { print(event.name) }
    for await event in channel.events("pusher:subscription_error") { print(event.data ?? "") }
    for await count in channel.subscriptionCounts { print(count) }
    _ = channel.subscriptionCount
    client.unsubscribe("prices")
    _ = client.channel("prices")
    _ = client.channelNames

    let room = try client.subscribe("presence-room")
    _ = room.members.me
    _ = room.members.count
    _ = room.members[id: "anna"]
    for member in room.members { print(member.id) }
    for await change in room.memberChanges { print(change) }
    try room.trigger("client-typing", ["on": true])

    client.user.signIn()
    let user = try await client.user.signedIn()
    for await event in client.user.events("notification") { print(event) }
    for await change in client.user.watchlistChanges { print(change) }
    _ = user
}

func unbindSnippet(_ channel: PusherChannel) async {
    // snippet:js-unbind
    let prices = Task {
        for await event in channel.events("price") { print(event.data ?? "") }
    }
    prices.cancel()
    // end
}

import PusherChannels
import RealtimeCore

// The code for PusherChannels in the tables of the article MigratingFromPusherSwift. A test checks that each piece is in this file.

func pusherSwiftNextSteps(_ authorization: PusherChannelAuthorization) async throws {
    let client = PusherClient(key: "app-key", cluster: "eu")
    client.connect()
    try await client.run()
    client.disconnect()
    _ = client.state
    for await change in client.stateChanges { print(change.old.name, change.new.name) }
    _ = client.socketID

    let channel = try client.subscribe("prices")
    _ = try client.subscribe("private-orders", authorization: authorization)
    let room = try client.subscribe("presence-room")
    client.unsubscribe("prices")
    for name in client.channelNames { client.unsubscribe(name) }
    _ = client.channel("prices")
    _ = channel.state == .subscribed
    try await channel.subscribed()
    for await state in channel.states where state == .subscribed { print("subscribed") }
    for await event in channel.events("price") { print(event.data ?? "") }
    for await price in channel.events("price", as: Price.self) { print(price.value) }
    let observation = channel.on("price") { event in print(event.data ?? "") }
    observation.cancel()
    let other = channel.on("price", on: .tasks) { event in print(event.data ?? "") }
    other.cancel()
    for await event in client.events() { print(event.name) }
    try channel.trigger("client-typing", ["on": true])
    for await count in channel.subscriptionCounts { print(count) }
    _ = room.members
    _ = room.members.me
    _ = room.members[id: "anna"]
    for await change in room.memberChanges { print(change) }
    for await error in client.errors { print(error.message) }
    for await frame in client.frames() { print(frame) }
}

func pusherSwiftNextSettings(
    _ makeRequest: @escaping @Sendable (PusherAuthorizationRequest) async throws -> HTTPRequest,
    _ authorize: @escaping @Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization
) throws -> PusherConfiguration {
    var configuration = PusherConfiguration(key: "app-key", host: "example.org", port: 6001, path: "/ws", useTLS: true)
    configuration.activityTimeout = .seconds(30)
    configuration.retry = .none
    configuration.backoff = Backoff(base: .seconds(1), cap: .seconds(30))
    configuration.retry = .delays([.zero, .seconds(1), .seconds(4)])
    configuration.retry = .custom { context in context.retryCount < 6 ? .seconds(1) : nil }
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
    configuration.authorizer = .request(makeRequest)
    configuration.authorizer = .callback(authorize)
    configuration.authorizer = .secret("app-secret", userID: "anna")
    configuration.log = LogSink(minimumLevel: .debug) { print($2) }
    return configuration
}

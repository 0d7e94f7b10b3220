import PusherChannels

// The snippets of the articles Channels and Presence, and those about channels in documentation comments.

func cacheSnippet(_ client: PusherClient, load: () async -> Void, show: (Price) -> Void) async throws {
    // snippet:channels-cache
    let events = try client.subscribe("cache-prices").events()
    for await event in events {
        switch event.name {
        case "price": show(try event.decode(Price.self))
        case "pusher:cache_miss": await load()
        default: break
        }
    }
    // end
}

func gapSnippet(_ channel: PusherChannel) async {
    func reload(changedWithin duration: Duration) async {}
    // snippet:channels-gap
    for await gap in channel.gaps {
        await reload(changedWithin: gap.duration + .seconds(10))
    }
    // end
}

func countSnippet(_ channel: PusherChannel) async {
    // snippet:channels-counts
    for await count in channel.subscriptionCounts {
        print("\(count) connections")
    }
    // end
}

func protocolEventSnippet(_ client: PusherClient) async {
    // snippet:channels-protocol-events
    for await event in client.events("pusher:subscription_error") {
        print(event.channel ?? "", event.data ?? "")
    }
    // end
}

func presenceListSnippet(_ client: PusherClient, show: @MainActor (PusherMembers) -> Void) async throws {
    // snippet:presence-lists
    let room = try client.subscribe("presence-room")
    for await members in room.memberLists {
        await show(members)
    }
    // end
}

func presenceChangeSnippet(_ room: PusherChannel) async {
    // snippet:presence-changes
    for await change in room.memberChanges {
        switch change {
        case .subscribed(let members): print("\(members.count) members")
        case .resubscribed(_, let joined, let left): print("\(joined.count) joined and \(left.count) left meanwhile")
        case .joined(let member): print("\(member.id) joined")
        case .left(let member): print("\(member.id) left")
        }
    }
    // end
}

// snippet:presence-info
struct Profile: Codable {
    let name: String
}

func greet(_ room: PusherChannel) throws {
    for member in room.members where member.id != room.members.me?.id {
        print("Hello,", try member.decodeInfo(Profile.self).name)
    }
}
// end

func presenceAuthorizationSnippet(_ publisher: PusherPublisher, socketID: String) throws -> PusherChannelAuthorization {
    // snippet:presence-authorize
    let info = try JSONValueEncoder().encodeToValue(Profile(name: "Anna"))
    let user = PusherMember(id: "42", info: info)
    let authorization = try publisher.authorize(socketID: socketID, channel: "presence-room", user: user)
    // end
    return authorization
}

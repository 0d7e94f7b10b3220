public import RealtimeCoding
import RealtimeCore

/// An event that a Pusher service reports to an application server with a webhook.
///
/// Which events a service reports is a setting of the app. Future versions may add cases for events that are ``other(_:)`` now.
public enum PusherWebhookEvent: Sendable, Hashable {
    /// A channel has its first subscriber.
    case channelOccupied(channel: String)
    /// The last subscriber has left a channel. The service reports this after a few seconds, and not if a subscriber returns meanwhile.
    case channelVacated(channel: String)
    /// A user joined a presence channel. Further connections of the user aren't reported.
    case memberAdded(channel: String, userID: String)
    /// The last connection of a user left a presence channel. The service reports this after a few seconds, and not if the user returns
    /// meanwhile.
    case memberRemoved(channel: String, userID: String)
    /// A client sent an event to the other subscribers of a channel. The user ID is the ID of the member of a presence channel.
    case clientEvent(channel: String, event: String, data: String, socketID: String, userID: String?)
    /// A client subscribed to a cache channel that had no cached event.
    case cacheMiss(channel: String)
    /// The number of a channel's subscribers has changed.
    case subscriptionCount(channel: String, count: Int)
    /// An event that this version doesn't know, or one whose members it doesn't expect: the JSON object, whose `name` says what it is.
    case other(JSONObject)

    /// The name of the event in the protocol, such as `channel_occupied`; `nil` if it has none.
    public var name: String? {
        switch self {
        case .channelOccupied: Name.channelOccupied.rawValue
        case .channelVacated: Name.channelVacated.rawValue
        case .memberAdded: Name.memberAdded.rawValue
        case .memberRemoved: Name.memberRemoved.rawValue
        case .clientEvent: Name.clientEvent.rawValue
        case .cacheMiss: Name.cacheMiss.rawValue
        case .subscriptionCount: Name.subscriptionCount.rawValue
        case .other(let object): object["name"]?.string
        }
    }

    /// The name of the channel that the event concerns; `nil` if it names none.
    public var channel: String? {
        switch self {
        case .channelOccupied(let channel), .channelVacated(let channel), .memberAdded(let channel, _), .memberRemoved(let channel, _),
            .clientEvent(let channel, _, _, _, _), .cacheMiss(let channel), .subscriptionCount(let channel, _):
            channel
        case .other(let object): object["channel"]?.string
        }
    }

    private enum Name: String {
        case channelOccupied = "channel_occupied"
        case channelVacated = "channel_vacated"
        case memberAdded = "member_added"
        case memberRemoved = "member_removed"
        case clientEvent = "client_event"
        case cacheMiss = "cache_miss"
        case subscriptionCount = "subscription_count"
    }
}

extension PusherWebhookEvent {
    /// Creates an event from its JSON object.
    package init(_ json: JSONObject) {
        guard let name = json["name"]?.string.flatMap({ Name(rawValue: $0) }), let channel = json["channel"]?.string,
            let event = Self.known(name, channel, json)
        else {
            self = .other(json)
            return
        }
        self = event
    }

    private static func known(_ name: Name, _ channel: String, _ json: JSONObject) -> PusherWebhookEvent? {
        let userID = json["user_id"].flatMap(PresenceUser.text)
        switch name {
        case .channelOccupied: return .channelOccupied(channel: channel)
        case .channelVacated: return .channelVacated(channel: channel)
        case .memberAdded: return userID.map { .memberAdded(channel: channel, userID: $0) }
        case .memberRemoved: return userID.map { .memberRemoved(channel: channel, userID: $0) }
        case .clientEvent:
            guard let event = json["event"]?.string, let socketID = json["socket_id"]?.string else { return nil }
            // soketi omits the data of an event that has none.
            let data = json["data"].map { $0 == .null ? "" : $0.string ?? $0.description } ?? ""
            return .clientEvent(channel: channel, event: event, data: data, socketID: socketID, userID: userID)
        case .cacheMiss: return .cacheMiss(channel: channel)
        case .subscriptionCount: return json["subscription_count"]?.int.map { .subscriptionCount(channel: channel, count: $0) }
        }
    }

    /// The event as it is sent.
    package var json: JSONObject {
        if case .other(let object) = self { return object }
        var json = JSONObject()
        json["name"] = self.name.map { .string($0) }
        json["channel"] = self.channel.map { .string($0) }
        switch self {
        case .memberAdded(_, let userID), .memberRemoved(_, let userID): json["user_id"] = .string(userID)
        case .clientEvent(_, let event, let data, let socketID, let userID):
            json["event"] = .string(event)
            json["data"] = .string(data)
            json["socket_id"] = .string(socketID)
            json["user_id"] = userID.map { .string($0) }
        case .subscriptionCount(_, let count): json["subscription_count"] = .number(JSONNumber(count))
        case .channelOccupied, .channelVacated, .cacheMiss, .other: break
        }
        return json
    }
}

extension PusherWebhookEvent: CustomStringConvertible {
    /// The name of the case and its values.
    public var description: String {
        switch self {
        case .channelOccupied(let channel): PartText.text(ofCase: "channelOccupied", ["channel": channel])
        case .channelVacated(let channel): PartText.text(ofCase: "channelVacated", ["channel": channel])
        case .memberAdded(let channel, let userID): PartText.text(ofCase: "memberAdded", ["channel": channel, "userID": userID])
        case .memberRemoved(let channel, let userID): PartText.text(ofCase: "memberRemoved", ["channel": channel, "userID": userID])
        case .clientEvent(let channel, let event, let data, let socketID, let userID):
            PartText.text(
                ofCase: "clientEvent", ["channel": channel, "event": event, "data": data, "socketID": socketID, "userID": userID])
        case .cacheMiss(let channel): PartText.text(ofCase: "cacheMiss", ["channel": channel])
        case .subscriptionCount(let channel, let count):
            PartText.text(ofCase: "subscriptionCount", ["channel": channel, "count": count])
        case .other(let object): PartText.text(ofCase: "other", ["": object])
        }
    }
}

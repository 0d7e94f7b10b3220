import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem

/// The calls of the HTTP API.
extension PusherServerMachine {
    /// Performs a call, and returns the response.
    mutating func perform(_ call: PusherServerAPI.Call, now: Instant, _ effects: inout Effects<Self>) -> JSONObject {
        switch call {
        case .health: return [:]
        case .publish(let publication):
            self.publish(publication, now: now, &effects)
            guard !publication.attributes.isEmpty else { return [:] }
            let channels = publication.channels.map { ($0, JSONValue.object(self.info(of: $0, publication.attributes, now: now))) }
            return ["channels": .object(JSONObject(channels))]
        case .publishBatch(let batch):
            let infos = batch.map { publication in
                self.publish(publication, now: now, &effects)
                return JSONValue.object(self.info(of: publication.channels[0], publication.attributes, now: now))
            }
            return batch.allSatisfy(\.attributes.isEmpty) ? [:] : ["batch": .array(infos)]
        case .channels(let prefix, let attributes):
            let names = self.channels.filter { $0.key.string.utf8.starts(with: prefix.utf8) && self.isListed($0.key) }.keys.sorted()
            return ["channels": .object(JSONObject(names.map { ($0.string, .object(self.info(of: $0.string, attributes, now: now))) }))]
        case .channel(let name, let attributes):
            let occupied: JSONObject = ["occupied": .bool(self.channels[ByteString(name)]?.subscribers.isEmpty == false)]
            return JSONObject(Array(occupied) + Array(self.info(of: name, attributes, now: now)))
        case .users(let channel):
            let users = self.channels[ByteString(channel)]?.users ?? []
            return ["users": .array(users.map { ["id": .string($0.id)] })]
        case .terminateConnections(let userID):
            self.terminateConnections(ofUser: userID, &effects)
            return [:]
        }
    }

    /// Whether a channel is occupied, and isn't the channel of a single user.
    private func isListed(_ name: ByteString) -> Bool {
        self.channels[name]?.subscribers.isEmpty == false && UserID.user(ofChannel: name.string) == nil
    }

    private mutating func publish(_ publication: PusherServerAPI.Publication, now: Instant, _ effects: inout Effects<Self>) {
        for channel in publication.channels {
            self.publish(
                publication.event, to: channel, data: publication.data, tags: publication.tags, except: publication.except, now: now,
                &effects)
        }
    }

    /// Returns the attributes that the channel has.
    private func info(of name: String, _ attributes: Set<PusherServerAPI.Attribute>, now: Instant) -> JSONObject {
        let key = ByteString(name)
        let (channel, kind) = (self.channels[key], ChannelName.kind(of: name))
        var info = JSONObject()
        for attribute in [PusherServerAPI.Attribute.userCount, .subscriptionCount, .cache]
        where attributes.contains(attribute) && attribute.isAvailable(for: kind) {
            info[attribute.rawValue] =
                switch attribute {
                case .userCount: .number(JSONNumber(channel?.members.count ?? 0))
                case .subscriptionCount: .number(JSONNumber(channel?.subscribers.count ?? 0))
                case .cache: self.cachedEvent(on: key, now: now)
                }
        }
        return info
    }

    private func cachedEvent(on name: ByteString, now: Instant) -> JSONValue {
        guard let event = self.cachedEvents[name], event.expiration > now else { return .null }
        let seconds = Int(now.duration(to: event.expiration) / .seconds(1))
        return ["data": .string(event.data), "ttl": .number(JSONNumber(seconds))]
    }
}

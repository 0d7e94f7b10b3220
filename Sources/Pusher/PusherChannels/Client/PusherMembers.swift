public import RealtimeJSON
import RealtimeCore

/// Somebody on a presence channel. A user with several connections is one member.
public struct PusherMember: Sendable, Hashable, Identifiable {
    /// The user's ID.
    public let id: String
    /// What the application's server says about the user.
    public let info: JSONValue?

    package init(id: String, info: JSONValue?) {
        self.id = id
        self.info = info
    }

    /// Reads what the server says about the user into a type of your own.
    public func decodeInfo<Value: Decodable>(
        _ type: Value.Type = Value.self, with decoder: JSONValueDecoder = JSONValueDecoder()
    ) throws -> Value {
        try decoder.decode(type, from: self.info ?? .null)
    }
}

/// Who is on a presence channel: in the order in which they came, each once.
public struct PusherMembers: Sendable, Hashable, RandomAccessCollection {
    private var order: [PusherMember] = []
    private var myID: String?

    package init() {}

    package init(_ members: [PusherMember], myID: String?) {
        self.myID = myID
        // Not one by one: servers may send long lists.
        var known: Set<String> = []
        self.order = members.filter { known.insert($0.id).inserted }
    }

    /// This client's own user; `nil` until the channel is subscribed.
    public var me: PusherMember? { self.myID.flatMap { self[id: $0] } }

    /// The member with this ID.
    public subscript(id id: String) -> PusherMember? { self.order.first { $0.id == id } }

    /// Zero: the member that came first.
    public var startIndex: Int { 0 }
    /// The number of members.
    public var endIndex: Int { self.order.count }
    /// The member at this place, in the order in which they came.
    public subscript(position: Int) -> PusherMember { self.order[position] }

    /// False when the member was there: some servers announce each connection of a user.
    mutating func add(_ member: PusherMember) -> Bool {
        guard self[id: member.id] == nil else { return false }
        self.order.append(member)
        return true
    }

    mutating func remove(id: String) -> PusherMember? {
        self.order.firstIndex { $0.id == id }.map { self.order.remove(at: $0) }
    }
}

/// What changed on a presence channel.
public enum PusherMemberChange: Sendable, Hashable {
    /// The channel was subscribed, for the first time or again: these are there now.
    case subscribed(PusherMembers)
    /// Somebody came.
    case joined(PusherMember)
    /// Somebody went.
    case left(PusherMember)
}

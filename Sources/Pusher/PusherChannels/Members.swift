public import RealtimeJSON
import RealtimeCore

/// Somebody on a presence channel. A user with several connections is one member.
public struct Member: Sendable, Hashable, Identifiable {
    /// The user's ID.
    public let id: String
    /// What the application's server says about the user.
    public let info: JSONValue?

    package init(id: String, info: JSONValue?) {
        self.id = id
        self.info = info
    }

    /// Reads what the server says about the user into a type of your own.
    public func decodeInfo<Value: Decodable>(_ type: Value.Type = Value.self, with decoder: ValueDecoder = ValueDecoder()) throws -> Value {
        try decoder.decode(type, from: self.info ?? .null)
    }
}

/// Who is on a presence channel: in the order in which they came, each once.
public struct Members: Sendable, Hashable, RandomAccessCollection {
    private var order: [Member] = []
    private var myID: String?

    package init() {}

    package init(_ members: [Member], myID: String?) {
        self.myID = myID
        // Not one by one: servers may send long lists.
        var known: Set<String> = []
        self.order = members.filter { known.insert($0.id).inserted }
    }

    /// This client's own user; `nil` until the channel is subscribed.
    public var me: Member? { self.myID.flatMap { self[id: $0] } }

    /// The member with this ID.
    public subscript(id id: String) -> Member? { self.order.first { $0.id == id } }

    /// Zero: the member that came first.
    public var startIndex: Int { 0 }
    /// The number of members.
    public var endIndex: Int { self.order.count }
    /// The member at this place, in the order in which they came.
    public subscript(position: Int) -> Member { self.order[position] }

    /// False when the member was there: some servers announce each connection of a user.
    mutating func add(_ member: Member) -> Bool {
        guard self[id: member.id] == nil else { return false }
        self.order.append(member)
        return true
    }

    mutating func remove(id: String) -> Member? {
        self.order.firstIndex { $0.id == id }.map { self.order.remove(at: $0) }
    }
}

/// What changed on a presence channel.
public enum MemberChange: Sendable, Hashable {
    /// The channel was subscribed, for the first time or again: these are there now.
    case subscribed(Members)
    /// Somebody came.
    case joined(Member)
    /// Somebody went.
    case left(Member)
}

public import RealtimeJSON
import RealtimeCore

/// A member of a presence channel. A user with several connections is one member.
public struct PusherMember: Sendable, Hashable, Identifiable {
    /// The ID of the user.
    public let id: String
    /// The information that the application server provided about the user, if any.
    public let info: JSONValue?

    package init(id: String, info: JSONValue?) {
        self.id = id
        self.info = info
    }

    /// Decodes the information about the user.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    /// - Returns: The decoded value.
    /// - Throws: A `DecodingError` if the information doesn't match the type. Missing information is decoded as JSON's `null`.
    public func decodeInfo<Value: Decodable>(
        _ type: Value.Type = Value.self, with decoder: JSONValueDecoder = JSONValueDecoder()
    ) throws -> Value {
        try decoder.decode(type, from: self.info ?? .null)
    }
}

/// The members of a presence channel, in the order in which they joined.
public struct PusherMembers: Sendable, Hashable, RandomAccessCollection {
    private var order: [PusherMember] = []
    private var myID: String?

    package init() {}

    package init(_ members: [PusherMember], myID: String?) {
        self.myID = myID
        // Removes duplicates with a set, since the server may send a long list.
        var ids: Set<String> = []
        self.order = members.filter { ids.insert($0.id).inserted }
    }

    /// The member that represents this client's user, or `nil` while the channel isn't subscribed.
    public var me: PusherMember? { self.myID.flatMap { self[id: $0] } }

    /// Accesses the member with an ID.
    ///
    /// - Parameter id: The ID of the user.
    /// - Returns: The member, or `nil` if the user isn't present.
    public subscript(id id: String) -> PusherMember? { self.order.first { $0.id == id } }

    /// The position of the member that joined first.
    public var startIndex: Int { 0 }
    /// The position after that of the member that joined last.
    public var endIndex: Int { self.order.count }

    /// Accesses the member at a position.
    ///
    /// - Parameter position: The position of the member, in the order of joining.
    public subscript(position: Int) -> PusherMember { self.order[position] }

    /// Adds a member, and returns `false` if the user is present already: some servers announce each connection of a user.
    mutating func add(_ member: PusherMember) -> Bool {
        guard self[id: member.id] == nil else { return false }
        self.order.append(member)
        return true
    }

    mutating func remove(id: String) -> PusherMember? {
        self.order.firstIndex { $0.id == id }.map { self.order.remove(at: $0) }
    }
}

/// A change of the members of a presence channel.
public enum PusherMemberChange: Sendable, Hashable {
    /// The channel was subscribed, initially or after a reconnect, and has these members.
    case subscribed(PusherMembers)
    /// A user joined.
    case joined(PusherMember)
    /// A user left.
    case left(PusherMember)
}

public import RealtimeCoding
import RealtimeCore
import RealtimeSystem

/// A member of a presence channel. A user with several connections is one member.
public struct PusherMember: Sendable, Hashable, Identifiable {
    /// The ID of the user.
    public let id: String
    /// The information that the application server provided about the user, if any.
    public let info: JSONValue?

    /// Creates a member, for example to authorize a user with ``PusherPublisher/authorize(socketID:channel:user:)``, or for a preview.
    ///
    /// - Parameters:
    ///   - id: The ID of the user.
    ///   - info: Information about the user for the other members, if any. To create it from an `Encodable` value, use
    ///     `JSONValueEncoder.encodeToValue(_:)`.
    public init(id: String, info: JSONValue? = nil) {
        self.id = id
        self.info = info
    }

    /// Returns whether two members have the same ID, byte by byte, and equal information.
    public static func == (left: Self, right: Self) -> Bool {
        ByteString(left.id) == ByteString(right.id) && left.info == right.info
    }

    /// Hashes the ID and the information.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(ByteString(self.id))
        hasher.combine(self.info)
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
///
/// Copies share their members, so it costs little to keep one and to ask the channel for the members after each change. Accessing a
/// position or an ID takes logarithmic time.
public struct PusherMembers: Sendable, RandomAccessCollection {
    private struct Contents: Sendable {
        var members = SharedMap<Int, PusherMember>()
        /// The keys of ``members``, by the IDs of the users.
        var keys = SharedMap<IDKey, Int>()
        var myID: String?
    }

    /// The ID of a user, ordered by its hash value first: comparing numbers takes much less time than comparing the bytes of strings, and a
    /// search makes several comparisons.
    private struct IDKey: Comparable, Sendable {
        private let hash: Int
        private let id: ByteString

        init(_ id: String) {
            self.id = ByteString(id)
            self.hash = self.id.hashValue
        }

        static func == (left: Self, right: Self) -> Bool { left.hash == right.hash && left.id == right.id }

        static func < (left: Self, right: Self) -> Bool { left.hash == right.hash ? left.id < right.id : left.hash < right.hash }
    }

    // In a box, because most channels have no members.
    @Boxed private var contents: Contents?

    /// Creates an empty list.
    public init() {}

    /// Creates a list, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - members: The members, in the order in which they joined. Of members with the same ID, the first is kept.
    ///   - myID: The ID of the member that represents the client's user, if any.
    public init(_ members: [PusherMember], myID: String? = nil) {
        var ids: Set<ByteString> = []
        let unique = members.filter { ids.insert(ByteString($0.id)).inserted }
        let keys = unique.enumerated().map { (key: IDKey($0.element.id), value: $0.offset) }
        self.contents = Contents(
            members: SharedMap(sorted: unique.enumerated().map { ($0.offset, $0.element) }),
            keys: SharedMap(sorted: keys.sorted { $0.key < $1.key }), myID: myID)
    }

    /// The member that represents this client's user, or `nil` if the list is empty.
    public var me: PusherMember? { self.contents?.myID.flatMap { self[id: $0] } }

    /// Accesses the member with an ID.
    ///
    /// - Parameter id: The ID of the user. IDs are compared byte by byte.
    /// - Returns: The member, or `nil` if the user isn't present.
    public subscript(id id: String) -> PusherMember? {
        guard let contents, let key = contents.keys[IDKey(id)] else { return nil }
        return contents.members[key]
    }

    /// The position of the member that joined first.
    public var startIndex: Int { 0 }
    /// The position after the member that joined last.
    public var endIndex: Int { self.contents?.members.count ?? 0 }

    /// Accesses the member at a position.
    ///
    /// - Parameter position: The position of the member, in the order of joining.
    public subscript(position: Int) -> PusherMember {
        guard let contents else { preconditionFailure("The position is out of range.") }
        return contents.members[position: position].value
    }

    /// Adds a member, and returns `false` if the user is present already: some servers announce each connection of a user.
    mutating func add(_ member: PusherMember) -> Bool {
        let id = IDKey(member.id)
        var contents = self.contents ?? Contents()
        guard contents.keys[id] == nil else { return false }
        // Removes the second reference to the contents, which are then changed in place, unless a copy of the list shares them.
        self.contents = nil
        let key = (contents.members.last?.key ?? 0) + 1
        contents.members.insert(member, forKey: key)
        contents.keys.insert(key, forKey: id)
        self.contents = contents
        return true
    }

    /// Returns the members that only another list has, and those that it lacks, each in the order in which they joined.
    func changes(to other: PusherMembers) -> (joined: [PusherMember], left: [PusherMember]) {
        (other.filter { self[id: $0.id] == nil }, self.filter { other[id: $0.id] == nil })
    }

    mutating func remove(id: String) -> PusherMember? {
        guard var contents = self.contents else { return nil }
        self.contents = nil
        defer { self.contents = contents }
        return contents.keys.removeValue(forKey: IDKey(id)).flatMap { contents.members.removeValue(forKey: $0) }
    }
}

extension PusherMembers {
    /// Visits the members in the order in which they joined.
    public struct Iterator: IteratorProtocol, Sendable {
        fileprivate var members: SharedMap<Int, PusherMember>.Iterator

        /// Returns the next member, or `nil` after the last one.
        public mutating func next() -> PusherMember? { self.members.next()?.value }
    }

    /// Returns an iterator over the members.
    public func makeIterator() -> Iterator { Iterator(members: (self.contents?.members ?? SharedMap()).makeIterator()) }
}

extension PusherMembers: Hashable {
    /// Returns whether two lists have equal members in the same order, and the same user is the client's.
    public static func == (left: Self, right: Self) -> Bool {
        left.contents?.myID.map(ByteString.init) == right.contents?.myID.map(ByteString.init) && left.elementsEqual(right)
    }

    /// Hashes the members in order.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.count)
        for member in self { hasher.combine(member) }
    }
}

extension PusherMembers: CustomStringConvertible, CustomReflectable {
    /// The members as an array.
    public var description: String { "\(Array(self))" }

    /// A mirror with the members as children.
    public var customMirror: Mirror { Mirror(self, unlabeledChildren: self, displayStyle: .collection) }
}

/// A change of the members of a presence channel.
public enum PusherMemberChange: Sendable, Hashable {
    /// The channel was subscribed, and has these members.
    case subscribed(PusherMembers)
    /// The channel was subscribed again after an interruption, and has these members. The others are the users who joined and those who left
    /// during the interruption.
    case resubscribed(PusherMembers, joined: [PusherMember], left: [PusherMember])
    /// A user joined.
    case joined(PusherMember)
    /// A user left.
    case left(PusherMember)
}

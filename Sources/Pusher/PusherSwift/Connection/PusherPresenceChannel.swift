public import Foundation

/// Information about the user of a member.
public typealias PusherUserInfoObject = [String: AnyObject]

/// A member of a presence channel.
///
/// `@unchecked Sendable`: a member doesn't change.
#if canImport(ObjectiveC)
@objcMembers
#endif
public class PusherPresenceChannelMember: NSObject, @unchecked Sendable {
    /// The ID of the user.
    public let userId: String
    /// Information about the user, usually a dictionary.
    public let userInfo: Any?

    /// Creates a member.
    ///
    /// - Parameters:
    ///   - userId: The ID of the user.
    ///   - userInfo: Information about the user, which must be convertible to JSON.
    public init(userId: String, userInfo: Any? = nil) {
        self.userId = userId
        self.userInfo = userInfo
    }

    /// Creates a member from the frame of a server, or returns `nil` if it has no ID.
    convenience init?(frame: [String: Any]) {
        guard let id = Self.id(frame["user_id"]) else { return nil }
        self.init(userId: id, userInfo: frame["user_info"] as? PusherUserInfoObject)
    }

    /// Returns an ID, which some servers send as a number.
    static func id(_ value: Any?) -> String? {
        if let text = value as? String { return text }
        // A truth value is a number of Foundation, with the type of a character.
        guard let number = value as? NSNumber, !["c", "B"].contains(String(cString: number.objCType)) else { return nil }
        return number.stringValue
    }
}

/// A presence channel, which has members.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class PusherPresenceChannel: PusherChannel, @unchecked Sendable {
    private struct Members {
        var members: [PusherPresenceChannelMember] = []
        var onMemberAdded: ((PusherPresenceChannelMember) -> Void)?
        var onMemberRemoved: ((PusherPresenceChannelMember) -> Void)?
        var myID: String?
    }

    private let membership: Guarded<Members>

    /// The members, since the channel was subscribed.
    open var members: [PusherPresenceChannelMember] {
        get { self.membership.read { $0.members } }
        set { self.membership.set(\.members, to: newValue) }
    }

    /// Called with each member who joins.
    open var onMemberAdded: ((PusherPresenceChannelMember) -> Void)? {
        get { self.membership.read { $0.onMemberAdded } }
        set { self.membership.set(\.onMemberAdded, to: newValue) }
    }

    /// Called with each member who leaves.
    open var onMemberRemoved: ((PusherPresenceChannelMember) -> Void)? {
        get { self.membership.read { $0.onMemberRemoved } }
        set { self.membership.set(\.onMemberRemoved, to: newValue) }
    }

    /// The ID of the client's own user, since the channel was authorized.
    open var myId: String? {
        get { self.membership.read { $0.myID } }
        set { self.membership.set(\.myID, to: newValue) }
    }

    init(
        name: String, connection: PusherConnection, auth: PusherAuth?, onMemberAdded: ((PusherPresenceChannelMember) -> Void)?,
        onMemberRemoved: ((PusherPresenceChannelMember) -> Void)?, onSubscriptionCountChanged: ((Int) -> Void)?,
        replacing existing: PusherChannel? = nil
    ) {
        self.membership = Guarded(Members(onMemberAdded: onMemberAdded, onMemberRemoved: onMemberRemoved))
        if let existing {
            super.init(replacing: existing)
            if let onSubscriptionCountChanged { self.onSubscriptionCountChanged = onSubscriptionCountChanged }
        } else {
            super.init(name: name, connection: connection, auth: auth, onSubscriptionCountChanged: onSubscriptionCountChanged)
        }
    }

    /// Returns the member with an ID.
    ///
    /// - Parameter userId: The ID of the user.
    open func findMember(userId: String) -> PusherPresenceChannelMember? { self.members.first { $0.userId == userId } }

    /// Returns the member who is the client's own user.
    open func me() -> PusherPresenceChannelMember? { self.myId.flatMap { self.findMember(userId: $0) } }

    /// Replaces the members with the members of a confirmed subscription.
    func replaceMembers(with presence: [String: Any]) {
        // In PHP, an object whose keys are 0, 1 and so on is a list, and a list whose numbers have gaps is an object.
        let list = (presence["hash"] as? [Any] ?? []).enumerated().map { ("\($0.offset)", $0.element) }
        let hash = presence["hash"] as? [String: Any] ?? Dictionary(uniqueKeysWithValues: list)
        // The order of the IDs is the server's, if it sends them.
        let ids = presence["ids"] as? [Any] ?? (presence["ids"] as? [String: Any]).map { ids in ids.keys.sorted().compactMap { ids[$0] } }
        let listed = (ids ?? []).compactMap { PusherPresenceChannelMember.id($0) }
        var seen: Set<String> = []
        self.members = (listed + hash.keys.sorted()).filter { seen.insert($0).inserted }.map {
            PusherPresenceChannelMember(userId: $0, userInfo: hash[$0] as? PusherUserInfoObject)
        }
    }

    /// Adds a member who has joined, unless the member is in the list already.
    func add(_ member: PusherPresenceChannelMember) {
        let isNew = self.membership.mutate { state in
            guard !state.members.contains(where: { $0.userId == member.userId }) else { return false }
            state.members.append(member)
            return true
        }
        if isNew { self.onMemberAdded?(member) }
    }

    /// Removes a member who has left.
    func remove(userID: String) {
        let member = self.membership.mutate { state in
            state.members.firstIndex { $0.userId == userID }.map { state.members.remove(at: $0) }
        }
        if let member { self.onMemberRemoved?(member) }
    }

    /// Sets the ID of the client's own user to that in the data of an authorization.
    func setMyID(channelData: String) {
        guard let data = FoundationJSON.object(channelData) else { return self.connection?.log(.unparsable(channelData)) ?? () }
        if let id = PusherPresenceChannelMember.id(data["user_id"]) { self.myId = id }
    }
}

import RealtimeCoding
import RealtimeCrypto
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Users: signing in, watchlists, and ending the connections of a user.
extension PusherServerMachine {
    /// The sign-in of a connection.
    struct SignIn: Sendable {
        var user: PresenceUser
        let userID: ByteString
        /// The number of the connection among the user's connections.
        let number: UInt64
        /// The users that the connection watches, and its number among their watchers.
        var watchlist: (userIDs: [ByteString], number: UInt64) = ([], 0)
    }

    /// A user who is signed in, or watched by someone who is.
    struct User: Sendable {
        /// The connections that are signed in as the user.
        var connections = SubscriberList()
        /// The connections whose watchlist contains the user.
        var watchers = SubscriberList()
    }

    // MARK: Signing in

    mutating func signIn(_ id: ConnectionID, _ data: JSONValue, _ effects: inout Effects<Self>) throws(PusherFrameError) {
        guard let socketID = self.connections[id]?.socketID else { return }
        guard let auth = data["auth"]?.string else { throw .missing("auth") }
        guard let userData = data["user_data"]?.string else { throw .missing("user_data") }
        let expected = UserSignature.token(key: self.app.key, secret: self.app.secret, socketID: socketID, userData: userData)
        guard constantTimeEqual(auth, expected) else {
            return self.rejectSignIn(id, "The connection is not authorized to sign in: invalid signature", &effects)
        }
        guard let json = try? JSONValue(parsing: userData), let userID = json["id"]?.string, !userID.isEmpty else {
            return self.rejectSignIn(id, "The user_data must be a JSON object with an id, which is a string that isn't empty", &effects)
        }
        let user = PresenceUser(id: userID, info: json["user_info"])
        if let message = self.validationError(user, id, &effects) { return self.rejectSignIn(id, message, &effects) }
        // The ID is a part of the name of the user's channel.
        guard !self.app.validatesChannelNames || ChannelName.validationError(userID, limit: .max) == nil else {
            return self.rejectSignIn(id, "The user ID contains an invalid character; use letters, digits and _ - = @ , . ;", &effects)
        }
        let key = ByteString(userID)
        if let current = self.signIns[id], current.userID != key {
            return self.rejectSignIn(id, "The connection is signed in as another user already; open another connection", &effects)
        }
        self.endAuthorizationTimeout(of: id)
        let repeated = self.profile.repeatsSignInSignature ? auth : nil
        self.send(PusherFrames.signInSucceeded(userData: userData, auth: repeated, as: self.profile.signInData), to: id, &effects)
        self.deliver(.signedIn(socketID: socketID, userID: userID), &effects)
        if self.signIns[id] == nil {
            self.addConnection(id, of: user, key, &effects)
        } else {
            self.signIns[id]!.user = user
        }
        self.watch(json["watchlist"]?.array?.compactMap(\.string) ?? [], by: id, &effects)
    }

    private func rejectSignIn(_ id: ConnectionID, _ message: String, _ effects: inout Effects<Self>) {
        let code = PusherCloseCode.unauthorized
        guard self.profile.closesAfterFailedSignIn else { return self.sendError(Int(code.rawValue), message, to: id, &effects) }
        self.close(id, code, message, &effects)
        self.deliver(.error(socketID: self.connections[id]?.socketID, code: Int(code.rawValue), message: message), &effects)
    }

    private mutating func addConnection(_ id: ConnectionID, of user: PresenceUser, _ key: ByteString, _ effects: inout Effects<Self>) {
        let number = self.nextSubscription()
        self.signIns[id] = SignIn(user: user, userID: key, number: number)
        if self.users[key]?.connections.isEmpty ?? true { self.notifyWatchers(of: key, online: [key], &effects) }
        self.users[key, default: User()].connections.append(id, number: number)
    }

    /// Ends the sign-in of a connection that has ended.
    mutating func signOut(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        guard let signIn = self.signIns.removeValue(forKey: id) else { return }
        self.unwatch(signIn)
        self.users[signIn.userID]?.connections.remove(number: signIn.number)
        if self.users[signIn.userID]?.connections.isEmpty == true {
            self.notifyWatchers(of: signIn.userID, offline: [signIn.userID], &effects)
        }
        self.removeUserIfUnused(signIn.userID)
    }

    private mutating func removeUserIfUnused(_ key: ByteString) {
        if let user = self.users[key], user.connections.isEmpty, user.watchers.isEmpty { self.users[key] = nil }
    }

    // MARK: Watchlists

    /// Replaces the watchlist of a connection, and notifies it of the users on it.
    private mutating func watch(_ userIDs: [String], by id: ConnectionID, _ effects: inout Effects<Self>) {
        guard self.profile.watchlistEvents != .none, let signIn = self.signIns[id] else { return }
        self.unwatch(signIn)
        var seen: Set<ByteString> = []
        var watched: [ByteString] = []
        for key in userIDs.lazy.map(ByteString.init) where seen.insert(key).inserted {
            watched.append(key)
            if watched.count > self.app.watchlistLimit { break }
        }
        if watched.count > self.app.watchlistLimit {
            watched.removeLast()
            self.logLimit("\(self.app.watchlistLimit) users on a watchlist", id, &effects)
            let message = "The watchlist has too many users; the first \(self.app.watchlistLimit) are watched"
            self.sendError(Int(PusherCloseCode.watchlistLimit.rawValue), message, to: id, &effects)
        }
        let number = self.nextSubscription()
        self.signIns[id]!.watchlist = (watched, number)
        var (online, offline): ([ByteString], [ByteString]) = ([], [])
        for key in watched {
            self.users[key, default: User()].watchers.append(id, number: number)
            if self.users[key]!.connections.isEmpty { offline.append(key) } else { online.append(key) }
        }
        for message in self.watchlistFrames(online: online, offline: offline) { self.send(message, to: id, &effects) }
    }

    private mutating func unwatch(_ signIn: SignIn) {
        for key in signIn.watchlist.userIDs {
            self.users[key]?.watchers.remove(number: signIn.watchlist.number)
            self.removeUserIfUnused(key)
        }
    }

    private func notifyWatchers(
        of key: ByteString, online: [ByteString] = [], offline: [ByteString] = [], _ effects: inout Effects<Self>
    ) {
        guard let watchers = self.users[key]?.watchers, !watchers.isEmpty else { return }
        for message in self.watchlistFrames(online: online, offline: offline) {
            for watcher in watchers { self.send(message, to: watcher, &effects) }
        }
    }

    /// Returns the messages about users on a watchlist.
    private func watchlistFrames(online: [ByteString], offline: [ByteString]) -> [TransportMessage] {
        let changes = [("online", online.map(\.string)), ("offline", offline.map(\.string))].filter { !$0.1.isEmpty }
        return switch self.profile.watchlistEvents {
        case .grouped: changes.isEmpty ? [] : [PusherFrames.watchlistEvents(changes)]
        case .separate: changes.map { PusherFrames.watchlistEvent($0.0, $0.1) }
        case .none: []
        }
    }

    // MARK: Terminating

    /// Closes the connections that are signed in as a user.
    func terminateConnections(ofUser userID: String, _ effects: inout Effects<Self>) {
        for id in self.users[ByteString(userID)]?.connections ?? SubscriberList() {
            self.close(id, PusherCloseCode.unauthorized, "The app ended the connections of the user.", &effects)
        }
    }
}

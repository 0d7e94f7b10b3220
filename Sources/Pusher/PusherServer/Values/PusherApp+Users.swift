import PusherWire
import RealtimeCoding

extension PusherApp {
    /// Returns why a user cannot be a member or sign in, and the limit that it exceeds, or `nil` if it can.
    func violation(by user: PresenceUser) -> (message: String, limit: String?)? {
        if user.id.isEmpty { return ("The user_id must not be empty", nil) }
        // Most IDs are so short that their characters need not be counted.
        if user.id.utf8.count > self.userIDLimit, user.id.unicodeScalars.count > self.userIDLimit {
            let message = "The user_id has \(user.id.unicodeScalars.count) characters; it can have at most \(self.userIDLimit)"
            return (message, "\(self.userIDLimit) characters of a user ID")
        }
        guard let info = user.info, info != .null else { return nil }
        if self.profile.limits.requiresUserInfoObjects, info.object == nil {
            return ("The user_info must be a JSON object, such as {\"name\":\"Anna\"}", nil)
        }
        var json = JSONWriter()
        json.value(info)
        guard json.bytes.count > self.userInfoLimit else { return nil }
        let message = "The user_info has \(json.bytes.count) bytes; it can have at most \(self.userInfoLimit)"
        return (message, "\(self.userInfoLimit) bytes of a user_info")
    }
}

public import Foundation

/// A received event as a dictionary, as version 5 passed it to handlers.
public typealias PusherEventJSON = [String: AnyObject]

/// An event that was received.
///
/// `@unchecked Sendable`: an event doesn't change.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class PusherEvent: NSObject, NSCopying, @unchecked Sendable {
    /// The name of the event.
    public let eventName: String
    /// The name of the channel on which the event was published, if any.
    public let channelName: String?
    /// The data of the event as text: the text that was published, or JSON if it was an object.
    public let data: String?
    /// The ID of the user who triggered the event. Only client events on presence channels have one.
    public let userId: String?
    /// The frame as objects of Foundation.
    let raw: [String: Any]

    init(eventName: String, channelName: String?, data: String?, userId: String?, raw: [String: Any]) {
        self.eventName = eventName
        self.channelName = channelName
        self.data = data
        self.userId = userId
        self.raw = raw
    }

    /// Creates an event from a frame, or returns `nil` if the frame has no name of an event.
    convenience init?(_ frame: [String: Any]) {
        guard let name = frame["event"] as? String else { return nil }
        let data = frame["data"].flatMap { $0 is NSNull ? nil : $0 as? String ?? FoundationJSON.text($0) }
        let userID = frame["user_id"].flatMap { $0 as? String ?? ($0 as? NSNumber).map(\.stringValue) }
        self.init(eventName: name, channelName: frame["channel"] as? String, data: data, userId: userID, raw: frame)
    }

    /// Returns a member of the frame that contained the event.
    ///
    /// - Parameter key: The name of the member, such as `data`.
    /// - Returns: The value as an object of Foundation; `NSNull` for `null`.
    public func property(withKey key: String) -> Any? { self.raw[key] }

    /// Returns a copy of the event.
    ///
    /// - Parameter zone: Ignored.
    public func copy(with zone: NSZone? = nil) -> Any {
        PusherEvent(eventName: self.eventName, channelName: self.channelName, data: self.data, userId: self.userId, raw: self.raw)
    }

    /// The data as an object of Foundation, if it is JSON.
    func dataToJSONObject() -> Any? { self.data.flatMap { FoundationJSON.parse($0) } }

    /// Returns a copy with another name.
    func copy(withEventName name: String) -> PusherEvent {
        var raw = self.raw
        raw["event"] = name
        return PusherEvent(eventName: name, channelName: self.channelName, data: self.data, userId: self.userId, raw: raw)
    }

    /// The data for a handler of versions 5 to 9.
    ///
    /// - Parameter isParsed: Whether data that is JSON is passed as an object of Foundation.
    func legacyData(isParsed: Bool) -> Any? {
        guard isParsed else { return self.raw["data"].flatMap { $0 is NSNull ? nil : $0 } }
        return self.data.map { FoundationJSON.parse($0) ?? $0 }
    }
}

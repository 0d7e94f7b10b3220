public import Foundation
import PusherWire
import RealtimeCoding

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
    /// The frame that contained the event.
    enum Frame {
        /// A text whose members are made objects of Foundation only when they are asked for.
        case text(String)
        case objects([String: Any])
    }

    let frame: Frame

    init(eventName: String, channelName: String?, data: String?, userId: String?, frame: Frame) {
        self.eventName = eventName
        self.channelName = channelName
        self.data = data
        self.userId = userId
        self.frame = frame
    }

    /// Creates an event from the text of a frame in the usual form, in which the members of the protocol are strings. Returns `nil` for other
    /// frames, whose members are converted by Foundation, and for errors of the server.
    convenience init?(scanning text: String) {
        var text = text
        let members = text.withUTF8 { utf8 -> (String, String?, String?, String?)? in
            guard let frame = try? PusherFrame(scanning: UnsafeRawBufferPointer(utf8)), !frame.isEvent("pusher:error") else { return nil }
            let optional = [frame.channel, frame.data, frame.userID]
            guard optional.allSatisfy({ $0.kind.isString || $0.kind == .missing }) else { return nil }
            return (frame.eventName, frame.channelName, frame.dataText, frame.user)
        }
        guard let (name, channel, data, user) = members else { return nil }
        self.init(eventName: name, channelName: channel, data: data, userId: user, frame: .text(text))
    }

    /// Creates an event from a frame, or returns `nil` if the frame has no name of an event.
    convenience init?(_ frame: [String: Any]) {
        guard let name = frame["event"] as? String else { return nil }
        let data = frame["data"].flatMap { $0 is NSNull ? nil : $0 as? String ?? FoundationJSON.text($0) }
        let userID = frame["user_id"].flatMap { $0 as? String ?? ($0 as? NSNumber).map(\.stringValue) }
        self.init(eventName: name, channelName: frame["channel"] as? String, data: data, userId: userID, frame: .objects(frame))
    }

    /// The frame as objects of Foundation.
    var raw: [String: Any] {
        switch self.frame {
        case .objects(let objects): return objects
        case .text(let text):
            var objects: [String: Any] = FoundationJSON.object(text) ?? [:]
            objects["event"] = self.eventName
            return objects
        }
    }

    /// Returns a member of the frame that contained the event.
    ///
    /// - Parameter key: The name of the member, such as `data`.
    /// - Returns: The value as an object of Foundation; `NSNull` for `null`.
    public func property(withKey key: String) -> Any? {
        guard case .text = self.frame else { return self.raw[key] }
        return switch key {
        case "event": self.eventName
        case "channel": self.channelName
        case "data": self.data
        case "user_id": self.userId
        default: self.raw[key]
        }
    }

    /// Returns a copy of the event.
    ///
    /// - Parameter zone: Ignored.
    public func copy(with zone: NSZone? = nil) -> Any {
        PusherEvent(eventName: self.eventName, channelName: self.channelName, data: self.data, userId: self.userId, frame: self.frame)
    }

    /// The data as an object of Foundation, if it is JSON.
    func dataToJSONObject() -> Any? { self.data.flatMap { FoundationJSON.parse($0) } }

    /// Returns a copy with another name.
    func copy(withEventName name: String) -> PusherEvent {
        var frame = self.frame
        if case .objects(var objects) = frame {
            objects["event"] = name
            frame = .objects(objects)
        }
        return PusherEvent(eventName: name, channelName: self.channelName, data: self.data, userId: self.userId, frame: frame)
    }

    /// The data for a handler of versions 5 to 9.
    ///
    /// - Parameter isParsed: Whether data that is JSON is passed as an object of Foundation.
    func legacyData(isParsed: Bool) -> Any? {
        guard isParsed else { return self.property(withKey: "data").flatMap { $0 is NSNull ? nil : $0 } }
        return self.data.map { FoundationJSON.parse($0) ?? $0 }
    }
}

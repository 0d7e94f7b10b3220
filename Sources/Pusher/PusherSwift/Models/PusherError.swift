public import Foundation

/// An error that the server reported.
///
/// `@unchecked Sendable`: an error doesn't change.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class PusherError: NSObject, @unchecked Sendable {
    /// The code, such as 4301, if the server sent one.
    public let code: Int?
    /// The message of the server.
    public let message: String

    /// The code as an object, for Objective-C.
    public var codeOC: NSNumber? { self.code.map { NSNumber(value: $0) } }

    /// Creates an error from a frame, or returns `nil` if the frame has no message.
    init?(jsonObject frame: [String: Any]) {
        // Some servers send a text instead of an object.
        let text = (frame["data"] as? String).flatMap { FoundationJSON.object($0) }
        guard let data = frame["data"] as? [String: Any] ?? text, let message = data["message"] as? String else { return nil }
        self.code = data["code"] as? Int
        self.message = message
    }
}

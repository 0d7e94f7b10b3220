// The Swift part of the stub of Foundation: the value types and the bridging that this package uses.
@_exported public import Dispatch
@_exported public import Foundation
@_exported public import ObjectiveC

public typealias TimeInterval = Double

public struct NSZone {}

public struct Date: Sendable, Hashable {
    public init(timeIntervalSince1970: TimeInterval) {}
    public var timeIntervalSince1970: TimeInterval { 0 }
}

public func NSClassFromString(_ name: String) -> AnyClass? { nil }
public func NSStringFromClass(_ type: AnyClass) -> String { "" }
public func NSStringFromSelector(_ selector: Selector) -> String { "" }

public struct Notification: Sendable {
    public struct Name: Sendable {
        public init(_ name: String) {}
    }
}

public final class OperationQueue {}

public final class NotificationCenter: Sendable {
    public static let `default` = NotificationCenter()
    public func addObserver(
        forName name: Notification.Name?, object: Any?, queue: OperationQueue?, using block: @escaping @Sendable (Notification) -> Void
    ) -> any NSObjectProtocol { NSObject() }
    public func removeObserver(_ observer: Any) {}
}

public final class ProcessInfo: Sendable {
    public static let processInfo = ProcessInfo()
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) {}
}

public final class Bundle: Sendable {
    public static let main = Bundle()
    public var infoDictionary: [String: Any]? { nil }
}

public protocol CustomNSError: Error {
    static var errorDomain: String { get }
    var errorCode: Int { get }
    var errorUserInfo: [String: Any] { get }
}

extension NSArray: Sequence {
    public func makeIterator() -> AnyIterator<Any> { AnyIterator { nil } }
}

extension NSDictionary: Sequence {
    public func makeIterator() -> AnyIterator<(key: Any, value: Any)> { AnyIterator { nil } }
}

extension NSMutableDictionary {
    public subscript(key: Any) -> Any? {
        get { nil }
        set {}
    }
}

extension NSNumber {
    public var objCType: UnsafePointer<CChar> { UnsafePointer(bitPattern: 1)! }
    public var uint64Value: UInt64 { 0 }
    public var int64Value: Int64 { 0 }
    public var boolValue: Bool { false }
    public convenience init(value: Int) { self.init(integer: value) }
    public convenience init(value: Double) { self.init(double: value) }
    public var intValue: Int { self.integerValue }
    public var stringValue: String { "" }
}

extension NSObject {
    @objc open var description: String { "" }
}

public struct URL: Sendable, Hashable {
    public init?(string: String) {}
    public init?(string: String, relativeTo: URL?) {}
    public init(fileURLWithPath: String) {}
    public var absoluteString: String { "" }
    public var absoluteURL: URL { self }
    public var scheme: String? { nil }
    public var host: String? { nil }
    public var path: String { "" }
    public var port: Int? { nil }
}

public struct URLComponents: Sendable {
    public init?(url: URL, resolvingAgainstBaseURL: Bool) {}
    public var scheme: String?
    public var port: Int?
    public var url: URL? { nil }
}

public struct Data: Sendable, Hashable, RandomAccessCollection {
    public init(_ bytes: some Sequence<UInt8>) {}
    public var startIndex: Int { 0 }
    public var endIndex: Int { 0 }
    public subscript(index: Int) -> UInt8 { 0 }
}

public struct UUID: Sendable {
    public init() {}
    public var uuidString: String { "" }
}

public struct CharacterSet: Sendable {
    public static var alphanumerics: CharacterSet { CharacterSet(charactersIn: "") }
    public init(charactersIn text: String) {}
    public func union(_ other: CharacterSet) -> CharacterSet { other }
}

extension String {
    public func addingPercentEncoding(withAllowedCharacters allowed: CharacterSet) -> String? { nil }
}

public enum JSONSerialization {
    public struct ReadingOptions: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let fragmentsAllowed = ReadingOptions(rawValue: 1)
    }

    public struct WritingOptions: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let fragmentsAllowed = WritingOptions(rawValue: 1)
        public static let sortedKeys = WritingOptions(rawValue: 2)
        public static let withoutEscapingSlashes = WritingOptions(rawValue: 4)
    }

    public static func jsonObject(with data: Data, options: ReadingOptions = []) throws -> Any { data }
    public static func data(withJSONObject object: Any, options: WritingOptions = []) throws -> Data { Data([]) }
    public static func isValidJSONObject(_ object: Any) -> Bool { false }
}

public struct URLRequest: Sendable, Hashable {
    public init(url: URL) {}
    public var url: URL? { nil }
    public var httpMethod: String?
    public var httpBody: Data?
    public var allHTTPHeaderFields: [String: String]?
    public var timeoutInterval: TimeInterval { 0 }
    public mutating func setValue(_ value: String?, forHTTPHeaderField name: String) {}
}

public typealias URLSession = NSURLSession
public typealias URLSessionDataTask = NSURLSessionDataTask
public typealias URLResponse = NSURLResponse
public typealias HTTPURLResponse = NSHTTPURLResponse

extension NSURLSession {
    public static var shared: URLSession { URLSession() }
    public func dataTask(
        with request: URLRequest, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDataTask { URLSessionDataTask() }
}

extension NSURLResponse {
    public var url: URL? { nil }
}

extension NSHTTPURLResponse {
    public convenience init?(url: URL, statusCode: Int, httpVersion: String?, headerFields: [String: String]?) { self.init() }
    public var statusCode: Int { 0 }
}

public let NSURLErrorDomain = ""
public let NSLocalizedDescriptionKey = ""
public let NSLocalizedFailureReasonErrorKey = ""

public struct URLError: Error {
    public struct Code: RawRepresentable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public static let badURL = Code(rawValue: 1), cannotFindHost = Code(rawValue: 2), cannotConnectToHost = Code(rawValue: 3)
        public static let timedOut = Code(rawValue: 4), networkConnectionLost = Code(rawValue: 5), unknown = Code(rawValue: 6)
        public static let serverCertificateUntrusted = Code(rawValue: 7), secureConnectionFailed = Code(rawValue: 8)
    }
}

extension NSError: Error {
    public convenience init(domain: String, code: Int, userInfo: [String: Any]? = nil) { self.init() }
}

public enum POSIXErrorCode: Int32, Sendable {
    case ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT, ECONNRESET, EINVAL, ECONNABORTED
}

// MARK: Bridging

extension String: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSString { NSString() }
    public static func _forceBridgeFromObjectiveC(_ source: NSString, result: inout String?) {}
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSString, result: inout String?) -> Bool { false }
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSString?) -> String { "" }
}

extension Array: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSArray { NSArray() }
    public static func _forceBridgeFromObjectiveC(_ source: NSArray, result: inout Array?) {}
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSArray, result: inout Array?) -> Bool { false }
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSArray?) -> Array { [] }
}

extension Dictionary: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSDictionary { NSDictionary() }
    public static func _forceBridgeFromObjectiveC(_ source: NSDictionary, result: inout Dictionary?) {}
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSDictionary, result: inout Dictionary?) -> Bool { false }
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSDictionary?) -> Dictionary { [:] }
}

extension Data: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSData { NSData() }
    public static func _forceBridgeFromObjectiveC(_ source: NSData, result: inout Data?) {}
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSData, result: inout Data?) -> Bool { false }
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSData?) -> Data { Data([]) }
}

extension URL: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSURL { NSURL() }
    public static func _forceBridgeFromObjectiveC(_ source: NSURL, result: inout URL?) {}
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSURL, result: inout URL?) -> Bool { false }
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSURL?) -> URL { URL(fileURLWithPath: "") }
}

extension URLRequest: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSURLRequest { NSURLRequest() }
    public static func _forceBridgeFromObjectiveC(_ source: NSURLRequest, result: inout URLRequest?) {}
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSURLRequest, result: inout URLRequest?) -> Bool { false }
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSURLRequest?) -> URLRequest {
        URLRequest(url: URL(fileURLWithPath: ""))
    }
}

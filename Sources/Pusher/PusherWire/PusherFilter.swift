package import RealtimeCoding
import RealtimeSystem

/// A condition on the tags of events, with which a client subscribes to a channel.
///
/// Publishers attach tags to an event, such as `region` with the value `eu`. The server only sends the events that satisfy the condition, so
/// that the others cost neither bandwidth nor power:
///
/// ```swift
/// let filter = PusherFilter.all([.equals("region", "eu"), .isAtLeast("total", 100)])
/// let orders = try client.subscribe("orders", filter: filter)
/// ```
/// Texts are compared byte by byte. An event that doesn't have a tag satisfies only the conditions ``doesNotEqual(_:_:)``,
/// ``isNotIn(_:_:)`` and ``doesNotExist(_:)`` on it; one without any tags is treated in the same way.
///
/// A filter can have at most 128 conditions, including those of ``all(_:)``, ``any(_:)`` and ``not(_:)``, in 16 levels. The name of a tag can
/// have 1 to 256 bytes, a value 1 to 1,024 bytes, and a list 1 to 128 values. These are the limits of the server sockudo.
public struct PusherFilter: Sendable, Hashable {
    private enum Operation: String, Sendable {
        case equal = "eq"
        case notEqual = "neq"
        case isIn = "in"
        case isNotIn = "nin"
        case exists = "ex"
        case doesNotExist = "nex"
        case hasPrefix = "sw"
        case hasSuffix = "ew"
        case contains = "ct"
        case greater = "gt"
        case greaterOrEqual = "gte"
        case less = "lt"
        case lessOrEqual = "lte"
        case all = "and"
        case any = "or"
        case not

        var isLogical: Bool { self == .all || self == .any || self == .not }
        var isAboutExistence: Bool { self == .exists || self == .doesNotExist }
        var hasList: Bool { self == .isIn || self == .isNotIn }
    }

    private let operation: Operation
    /// Empty for a logical operation.
    private let tag: ByteString
    private let values: [ByteString]
    /// The operands of a logical operation.
    private let nodes: [PusherFilter]

    private init(_ operation: Operation, _ tag: String = "", _ values: [String] = [], nodes: [PusherFilter] = []) {
        (self.operation, self.tag, self.values, self.nodes) = (operation, ByteString(tag), values.map { ByteString($0) }, nodes)
    }

    // MARK: Texts

    /// The tag has this value.
    public static func equals(_ tag: String, _ value: String) -> PusherFilter { Self(.equal, tag, [value]) }

    /// The tag has another value, or is missing.
    public static func doesNotEqual(_ tag: String, _ value: String) -> PusherFilter { Self(.notEqual, tag, [value]) }

    /// The tag has one of these values.
    public static func isIn(_ tag: String, _ values: [String]) -> PusherFilter { Self(.isIn, tag, values) }

    /// The tag has none of these values, or is missing.
    public static func isNotIn(_ tag: String, _ values: [String]) -> PusherFilter { Self(.isNotIn, tag, values) }

    /// The event has the tag.
    public static func exists(_ tag: String) -> PusherFilter { Self(.exists, tag) }

    /// The event doesn't have the tag.
    public static func doesNotExist(_ tag: String) -> PusherFilter { Self(.doesNotExist, tag) }

    /// The value of the tag starts with this text.
    public static func hasPrefix(_ tag: String, _ prefix: String) -> PusherFilter { Self(.hasPrefix, tag, [prefix]) }

    /// The value of the tag ends with this text.
    public static func hasSuffix(_ tag: String, _ suffix: String) -> PusherFilter { Self(.hasSuffix, tag, [suffix]) }

    /// The value of the tag contains this text.
    public static func contains(_ tag: String, _ text: String) -> PusherFilter { Self(.contains, tag, [text]) }

    // MARK: Numbers

    /// The value of the tag is a number that is greater than this one.
    public static func isGreater(_ tag: String, than number: Double) -> PusherFilter { Self(.greater, tag, [self.text(number)]) }

    /// The value of the tag is a number that is greater than or equal to this one.
    public static func isAtLeast(_ tag: String, _ number: Double) -> PusherFilter { Self(.greaterOrEqual, tag, [self.text(number)]) }

    /// The value of the tag is a number that is less than this one.
    public static func isLess(_ tag: String, than number: Double) -> PusherFilter { Self(.less, tag, [self.text(number)]) }

    /// The value of the tag is a number that is less than or equal to this one.
    public static func isAtMost(_ tag: String, _ number: Double) -> PusherFilter { Self(.lessOrEqual, tag, [self.text(number)]) }

    private static func text(_ number: Double) -> String { Int64(exactly: number)?.description ?? number.description }

    // MARK: Combinations

    /// All of these conditions are satisfied. There must be at least one.
    public static func all(_ filters: [PusherFilter]) -> PusherFilter { Self(.all, nodes: filters) }

    /// At least one of these conditions is satisfied. There must be at least one.
    public static func any(_ filters: [PusherFilter]) -> PusherFilter { Self(.any, nodes: filters) }

    /// The condition isn't satisfied.
    public static func not(_ filter: PusherFilter) -> PusherFilter { Self(.not, nodes: [filter]) }

    // MARK: Validation

    private static let nodeLimit = 128, depthLimit = 16, tagLimit = 256, valueLimit = 1_024, listLimit = 128

    /// A message that says why the server would reject the filter, or `nil` if it is valid.
    package var validationError: String? {
        var count = 0
        return self.validationError(depth: 1, &count)
    }

    private func validationError(depth: Int, _ count: inout Int) -> String? {
        count += 1
        if count > Self.nodeLimit { return "The filter has more than \(Self.nodeLimit) conditions." }
        if depth > Self.depthLimit { return "The conditions of the filter are nested more than \(Self.depthLimit) times." }
        if self.operation.isLogical {
            if self.nodes.isEmpty { return "A filter with all(_:) or any(_:) must have at least one condition." }
            for node in self.nodes {
                if let error = node.validationError(depth: depth + 1, &count) { return error }
            }
            return nil
        }
        guard (1...Self.tagLimit).contains(self.tag.string.utf8.count) else {
            return "The name of a tag must have 1 to \(Self.tagLimit) bytes, but has \(self.tag.string.utf8.count)."
        }
        guard !self.operation.isAboutExistence else { return nil }
        guard (1...Self.listLimit).contains(self.values.count) else {
            return "The list for the tag \(self.tag) must have 1 to \(Self.listLimit) values, but has \(self.values.count)."
        }
        for value in self.values.map(\.string) where value.utf8.count > Self.valueLimit || value.isEmpty && !self.operation.hasList {
            return "A value for the tag \(self.tag) must have 1 to \(Self.valueLimit) bytes, but has \(value.utf8.count)."
        }
        return nil
    }

    // MARK: Evaluation

    /// The number of bytes that the conditions of a filter may compare for an event. A client could otherwise delay all others with many
    /// conditions on a long value.
    package static let comparisonLimit = 64 << 10

    /// Returns whether an event with these tags satisfies the condition. It doesn't if the comparison would exceed ``comparisonLimit``.
    package func matches(_ tags: EventTags?) -> Bool {
        var budget = Self.comparisonLimit
        return self.matches(tags, &budget) && budget >= 0
    }

    private func matches(_ tags: EventTags?, _ budget: inout Int) -> Bool {
        guard budget >= 0 else { return false }
        switch self.operation {
        case .all: return self.nodes.allSatisfy { $0.matches(tags, &budget) }
        case .any: return self.nodes.contains { $0.matches(tags, &budget) }
        case .not: return !self.nodes.contains { $0.matches(tags, &budget) }
        default: break
        }
        guard let tag = tags?[self.tag] else {
            return self.operation == .notEqual || self.operation == .isNotIn || self.operation == .doesNotExist
        }
        let operand = self.values.first?.string ?? ""
        let value = tag.string
        switch self.operation {
        case .contains, .greater, .greaterOrEqual, .less, .lessOrEqual: budget -= value.utf8.count + operand.utf8.count
        case .hasSuffix: budget -= operand.utf8.count
        default: budget -= self.values.reduce(0) { $0 + $1.string.utf8.count }
        }
        guard budget >= 0 else { return false }
        switch self.operation {
        case .equal, .isIn: return self.values.contains(tag)
        case .notEqual, .isNotIn: return !self.values.contains(tag)
        case .exists: return true
        case .hasPrefix: return value.utf8.starts(with: operand.utf8)
        case .hasSuffix: return value.utf8.reversed().starts(with: operand.utf8.reversed())
        case .contains: return value.containsText(operand)
        case .greater, .greaterOrEqual, .less, .lessOrEqual: return self.compares(value, operand)
        case .doesNotExist, .all, .any, .not: return false
        }
    }

    private func compares(_ value: String, _ operand: String) -> Bool {
        guard let value = Self.number(value), let operand = Self.number(operand) else { return false }
        switch self.operation {
        case .greater: return value > operand
        case .greaterOrEqual: return value >= operand
        case .less: return value < operand
        default: return value <= operand
        }
    }

    /// Returns the number that a text contains. Hexadecimal numbers, which Swift reads as well, are texts for other servers.
    private static func number(_ text: String) -> Double? {
        text.utf8.contains { $0 | 0x20 == UInt8(ascii: "x") || $0 == UInt8(ascii: "(") } ? nil : Double(text)
    }
}

extension PusherFilter: CustomStringConvertible {
    /// The filter as it is sent to the server, in JSON.
    public var description: String {
        var json = JSONWriter()
        self.append(to: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    package func append(to json: inout JSONWriter) {
        json.beginObject()
        if self.operation.isLogical {
            json.key("op")
            json.value(self.operation.rawValue)
            json.key("nodes")
            json.beginArray()
            for node in self.nodes { node.append(to: &json) }
            json.endArray()
        } else {
            json.key("key")
            json.value(self.tag.string)
            json.key("cmp")
            json.value(self.operation.rawValue)
            if self.operation.hasList {
                json.key("vals")
                json.beginArray()
                for value in self.values { json.value(value.string) }
                json.endArray()
            } else if let value = self.values.first {
                json.key("val")
                json.value(value.string)
            }
        }
        json.endObject()
    }

    /// Why a filter that a client has sent is invalid.
    package struct Invalid: Error, Hashable, Sendable {
        package var message: String
    }

    /// Reads the filter that a client has sent.
    ///
    /// - Throws: ``Invalid`` if it isn't a filter, or exceeds the limits.
    package init(_ json: JSONValue) throws(Invalid) {
        self = try Self(json, depth: 1)
        if let error = self.validationError { throw Invalid(message: error) }
    }

    private init(_ json: JSONValue, depth: Int) throws(Invalid) {
        guard json.object != nil, depth <= Self.depthLimit + 1 else { throw Invalid(message: "A condition must be an object.") }
        let name = json["op"]?.string ?? json["cmp"]?.string ?? ""
        guard let operation = Operation(rawValue: name), operation.isLogical == (json["op"]?.string != nil) else {
            throw Invalid(message: "A filter has no operation \(String(reflecting: String(name.prefix(20)))).")
        }
        var nodes: [PusherFilter] = []
        if operation.isLogical {
            for node in json["nodes"]?.array ?? [] { nodes.append(try Self(node, depth: depth + 1)) }
            guard operation != .not || nodes.count == 1 else { throw Invalid(message: "The operation not has one condition.") }
        }
        let values = operation.hasList ? json["vals"]?.array ?? [] : json["val"].map { [$0] } ?? []
        // Numbers and Booleans are used as their texts.
        self.init(operation, json["key"]?.string ?? "", values.map { $0.string ?? $0.description }, nodes: nodes)
    }
}

/// The tags of an event, which filters refer to.
package struct EventTags: Hashable, Sendable {
    private struct Tag: Hashable, Sendable {
        var name: ByteString
        var value: ByteString
    }

    /// Sorted by name.
    private let tags: [Tag]

    /// Creates tags, or returns `nil` if there are none.
    package init?(_ tags: [String: String]) {
        guard !tags.isEmpty else { return nil }
        self.tags = tags.map { Tag(name: ByteString($0.key), value: ByteString($0.value)) }.sorted { $0.name < $1.name }
    }

    /// Reads the tags in a request, or returns `nil` if they aren't an object whose values are texts.
    package init?(_ json: JSONValue) {
        guard let object = json.object else { return nil }
        var tags: [Tag] = []
        for (name, value) in object {
            guard let text = value.string else { return nil }
            tags.append(Tag(name: ByteString(name), value: ByteString(text)))
        }
        self.tags = tags.sorted { $0.name < $1.name }
    }

    /// The number of bytes of all names and values.
    package var size: Int { self.tags.reduce(0) { $0 + $1.name.string.utf8.count + $1.value.string.utf8.count } }

    package subscript(name: String) -> String? { self[ByteString(name)]?.string }

    fileprivate subscript(name: ByteString) -> ByteString? { self.tags.first { $0.name == name }?.value }

    package func append(to json: inout JSONWriter) {
        json.beginObject()
        for tag in self.tags {
            json.key(tag.name.string)
            json.value(tag.value.string)
        }
        json.endObject()
    }
}

import Foundation
import PrimusClient

/// An argument of an event.
enum PrimusArgument: Sendable {
    /// A value that was received.
    case value(PrimusValue)
    case error(PrimusError)
    /// A packet, in the encoding of the parser.
    case packet(TransportMessage)
    /// Another object: of the library, or of the application that has emitted the event.
    case object(any Sendable)

    /// The argument as a listener without types receives it.
    var any: Any {
        switch self {
        case .value(let value): FoundationValue.object(value)
        case .error(let error): error
        case .packet(let packet): packet.kind == .text ? String(decoding: packet.bytes, as: UTF8.self) : Data(packet.bytes)
        case .object(let box as ObjectBox): box.object
        case .object(let object): object
        }
    }

    /// Returns the argument as the type of a listener's parameter; `nil` if it can't be.
    func converted<Value>(to type: Value.Type) -> Value? {
        if case .value(let value) = self, let same = value as? Value, !(Value.self == Any.self) { return same }
        if case .error(let error) = self, type == NSError.self { return error as NSError as? Value }
        if let value = self.any as? Value { return value }
        // Numbers, and types of the application.
        guard case .value(let value) = self, let decodable = type as? any Decodable.Type else { return nil }
        return Self.decode(decodable, value) as? Value
    }

    private static func decode<Value: Decodable>(_ type: Value.Type, _ value: PrimusValue) -> Value? { try? value.decode(as: type) }
}

/// The arguments of an event, for a listener that takes them one by one.
struct ListenerArguments {
    /// An argument that doesn't have the type of the listener's parameter.
    struct Mismatch: Error {
        var message: String
        /// Whether the value is of another kind than all that the parameter takes, such as a text for a dictionary: other messages may fit.
        var isOtherKind = false
    }

    /// Types that take all values of their kind.
    private static let kinds: [Any.Type] = [
        [String: Any].self, [Any].self, String.self, Data.self, NSDictionary.self, NSArray.self, NSString.self, NSData.self,
    ]

    private let arguments: [PrimusArgument]
    private var index = 0

    init(_ arguments: [PrimusArgument]) {
        self.arguments = arguments
    }

    /// Returns the next argument. An event may have more arguments than a listener takes. One that is missing is `nil` for an optional
    /// parameter.
    mutating func next<Value>(_ type: Value.Type) throws(Mismatch) -> Value {
        defer { self.index += 1 }
        guard self.index < self.arguments.count else {
            if let none = Optional<Any>.none as? Value, type is any ExpressibleByNilLiteral.Type { return none }
            throw Mismatch(message: "takes \(self.index + 1) arguments or more, but the event has \(self.arguments.count)")
        }
        let argument = self.arguments[self.index]
        if let value = argument.converted(to: type) { return value }
        let isOtherKind = if case .value = argument { Self.kinds.contains { $0 == type } } else { false }
        throw Mismatch(
            message: "takes a \(type) as argument \(self.index + 1), but the event has a \(Swift.type(of: argument.any))",
            isOtherKind: isOtherKind)
    }
}

/// An object of the application that isn't `Sendable`.
///
/// `@unchecked Sendable`: the object is only passed from the code that emits an event to the listeners, which the application chose to
/// share it.
struct ObjectBox: @unchecked Sendable {
    let object: Any

    init(_ object: Any) { self.object = object }
}

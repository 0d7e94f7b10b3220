import Foundation
import RealtimeCore
import SignalRHubs
import SignalRWire

// The API of signalr-client-swift has no constraints on the types of arguments and results: whether they are `Encodable` or `Decodable` is
// only known when they are used.

extension HubValueCoder {
    /// Encodes the arguments of a call.
    ///
    /// - Returns: The arguments that aren't streams, and the streams.
    func untyped(_ arguments: [Any], _ method: String) throws(HubError) -> (HubPayload, [HubUpload]) {
        var values: [any Encodable] = []
        var uploads: [HubUpload] = []
        do {
            for (index, argument) in arguments.enumerated() {
                if let upload = argument as? HubUpload {
                    uploads.append(upload)
                } else if let value = UntypedValue.encodable(argument) {
                    values.append(value)
                } else if let sequence = argument as? any AsyncSequence {
                    uploads.append(HubUpload(untyped: sequence))
                } else {
                    let position = "Argument \(index + 1) of \(arguments.count)"
                    throw HubValueError("\(position) has the type \(type(of: argument)), which is neither Encodable nor an AsyncSequence.")
                }
            }
            return (try self.arguments(of: values), uploads)
        } catch {
            throw .encoding(error, method)
        }
    }

    /// Encodes the result of a handler.
    ///
    /// - Returns: The payload; `nil` if the handler has no result.
    func untypedPayload<Value>(_ value: Value) throws -> HubPayload? {
        if value is Void { return nil }
        guard let value = UntypedValue.encodable(value) else {
            throw HubValueError("The result of the type \(Value.self) can't be sent, because it isn't Encodable.")
        }
        return try self.payload(value)
    }

    /// Decodes a result or an item. A method without a result has the result `nil` of an optional type.
    func decodeUntyped<Value>(_ type: Value.Type, from payload: HubPayload?) throws -> Value {
        let payload = payload ?? .null(self.format)
        func decode<Concrete: Decodable>(_ type: Concrete.Type) throws -> any Decodable { try self.decode(type, from: payload) }
        return try decode(try decodable(type)) as! Value
    }
}

/// An element of an array or a dictionary whose elements have the type `Any`, or an object of Foundation.
struct UntypedValue: Encodable {
    private enum Value {
        case null
        case value(any Encodable)
        case array([Any])
        case dictionary([String: Any])
        case number(NSNumber)
        /// A value that can't be sent.
        case other(Any.Type)
    }

    private let value: Value

    private init(_ value: Any) {
        self.value =
            switch value {
            case is NSNull: .null
            // Collections of one type, and values of it, which have the forms that the coder gives to their types.
            case let value as any Encodable: .value(value)
            case let optional as any AnyOptional: optional.wrappedValue.map { UntypedValue($0).value } ?? .null
            case let array as [Any]: .array(array)
            case let dictionary as [String: Any]: .dictionary(dictionary)
            case let number as NSNumber: .number(number)
            case let text as NSString: .value("\(text)")
            case let array as NSArray: .array(array.map(\.self))
            default: .other(type(of: value))
            }
    }

    /// Returns what encodes a value; `nil` if its type can't be sent. The types of elements are checked when they are encoded.
    static func encodable(_ value: Any) -> (any Encodable)? {
        let untyped = UntypedValue(value)
        return switch untyped.value {
        case .value(let value): value
        case .null, .array, .dictionary, .number: untyped
        case .other: nil
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self.value {
        case .null: try container.encodeNil()
        case .value(let value): try container.encode(value)
        case .array(let array): try container.encode(array.map { UntypedValue($0) })
        // As a dictionary, whose keys are sent unchanged.
        case .dictionary(let dictionary): try container.encode(dictionary.mapValues { UntypedValue($0) })
        case .number(let number): try Self.encode(number, to: &container)
        case .other(let type): throw HubValueError("A value has the type \(type), which isn't Encodable.")
        }
    }

    private static func encode(_ number: NSNumber, to container: inout any SingleValueEncodingContainer) throws {
        // What `JSONSerialization` writes tells a Boolean from a number on all systems.
        let text = (try? JSONSerialization.data(withJSONObject: [number])).map { String(decoding: $0, as: UTF8.self) }
        switch text {
        case "[true]"?: return try container.encode(true)
        case "[false]"?: return try container.encode(false)
        default: break
        }
        if let decimal = number as? NSDecimalNumber { return try container.encode(decimal.decimalValue) }
        switch UInt8(bitPattern: number.objCType.pointee) {
        case UInt8(ascii: "d"), UInt8(ascii: "f"): try container.encode(number.doubleValue)
        case UInt8(ascii: "Q"): try container.encode(number.uint64Value)
        default: try container.encode(number.int64Value)
        }
    }
}

/// An optional of any type.
private protocol AnyOptional {
    var wrappedValue: Any? { get }
}

extension Optional: AnyOptional {
    fileprivate var wrappedValue: Any? { self.map { $0 as Any } }
}

extension HubArguments {
    /// Decodes the next argument of a handler.
    mutating func nextUntyped<Value>(_ type: Value.Type) throws -> sending Value {
        func decode<Concrete: Decodable>(_ type: Concrete.Type) throws -> any Decodable { try self.next(type) }
        // Nothing else refers to a value that was just decoded.
        nonisolated(unsafe) let value = try decode(try decodable(type)) as! Value
        return value
    }
}

private func decodable<Value>(_ type: Value.Type) throws -> any Decodable.Type {
    guard let decodable = type as? any Decodable.Type else {
        throw HubValueError("A value can't be received as \(type), because the type isn't Decodable.")
    }
    return decodable
}

extension HubUpload {
    /// Creates a stream of the elements of a sequence.
    init(untyped elements: any AsyncSequence) {
        // The caller passes the sequence on, as an argument of the call, and only the task of the stream uses it. Its type can't be required
        // to be `Sendable`, because arguments have the type `Any`.
        nonisolated(unsafe) let next = Self.iterator(elements)
        self.init { coder, send in
            while let element = try await next() {
                guard let value = UntypedValue.encodable(element) else {
                    throw HubValueError("An element of the type \(type(of: element)) can't be sent, because it isn't Encodable.")
                }
                try await send(try coder.payload(value))
            }
        }
    }

    private static func iterator<Elements: AsyncSequence>(_ elements: Elements) -> () async throws -> Any? {
        // Only used by the task that calls the closure.
        nonisolated(unsafe) var iterator = elements.makeAsyncIterator()
        return { try await iterator.next() }
    }
}

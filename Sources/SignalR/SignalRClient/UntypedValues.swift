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
                } else if let value = argument as? any Encodable {
                    values.append(value)
                } else if let sequence = argument as? any AsyncSequence {
                    uploads.append(HubUpload(untyped: sequence))
                } else if argument is NSNull {
                    values.append(Bool?.none)
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
        guard let value = value as? any Encodable else {
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
                guard let value = element as? any Encodable else {
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

package import SignalRWire

/// A stream from the client to the server, as an argument of a call.
///
/// ```swift
/// let total: Int = try await client.invoke("Sum", HubUpload(numbers))
/// ```
/// The elements are sent in order, in a task of the client, from when the call was sent until the sequence ends, the call has a result or is
/// cancelled, or the connection is lost. The next element isn't requested while much output waits for a server that reads slowly. If the
/// sequence throws, the server receives the message of a ``HubError``, and the type of any other error.
public struct HubUpload: Encodable, Sendable {
    package typealias Send = (HubPayload) async throws -> Void

    /// Sends the elements, and returns or throws when the sequence does.
    let run: @Sendable (HubValueCoder, Send) async throws -> Void

    package init(_ run: @escaping @Sendable (HubValueCoder, Send) async throws -> Void) {
        self.run = run
    }

    /// Creates a stream of the elements of a sequence, which is iterated once for each call.
    ///
    /// - Parameter elements: The sequence, such as an `AsyncStream`.
    public init<Elements: AsyncSequence & Sendable>(_ elements: Elements) where Elements.Element: Encodable {
        self.run = { coder, send in
            for try await element in elements { try await send(try coder.payload(element)) }
        }
    }

    /// Throws an error, because a stream can only be an argument itself, and not a part of one.
    public func encode(to encoder: any Encoder) throws {
        throw HubValueError("A stream can't be a part of an argument. Pass it as an argument of its own.")
    }
}

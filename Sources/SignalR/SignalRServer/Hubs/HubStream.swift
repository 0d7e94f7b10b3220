import RealtimeCore
import RealtimeSystem
import SignalRWire

/// A stream from a client, as a parameter of a hub's method.
///
/// ```swift
/// hub.on("Sum") { (caller, numbers: HubStream<Int>) in
///     try await numbers.reduce(0, +)
/// }
/// ```
/// Iterate it once, before the method returns. When the items arrive faster than the method reads them, the server stops reading from the
/// connection; see ``SignalRServerConfiguration/streamBufferLimit``.
///
/// The iteration throws a ``HubException`` with the client's message if the client ends the stream with an error, a `CancellationError` if
/// the task is cancelled, the connection or the method has ended, and the error of an item that can't be decoded.
public struct HubStream<Element: Decodable & Sendable>: AsyncSequence, Sendable {
    private let source: HubStreamSource

    init(_ source: HubStreamSource) {
        self.source = source
    }

    /// Returns an iterator over the items.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(source: self.source) }

    /// An iterator over the items of a stream.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let source: HubStreamSource
        private var items: [HubPayload] = []
        private var index = 0
        private var end: SignalRServerMachine.StreamEnd?

        fileprivate init(source: HubStreamSource) {
            self.source = source
        }

        /// Waits for the next item.
        ///
        /// - Returns: The item, or `nil` if the client has ended the stream.
        /// - Throws: See ``HubStream``.
        public mutating func next() async throws -> Element? {
            try Task.checkCancellation()
            while self.index == self.items.count {
                switch self.end {
                case .completed: return nil
                case .failed(let message): throw HubException(message)
                case nil: break
                }
                (self.items, self.end) = try await self.source.items()
                self.index = 0
            }
            defer { self.index += 1 }
            return try self.source.coder.decode(Element.self, from: self.items[self.index])
        }
    }
}

// Parameters are decoded, so the type has to be decodable. Its values come from the invocation instead.
extension HubStream: Decodable {
    /// Throws an error, because a stream can't be part of a value. Use it as a parameter of a method.
    public init(from decoder: any Decoder) throws {
        throw DecodingError.dataCorrupted(
            DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "A HubStream can only be a parameter of a method."))
    }
}

/// A parameter that is a stream from the client.
protocol HubStreamParameter {
    init(_ source: HubStreamSource)
}

extension HubStream: HubStreamParameter {}

/// The items of a stream, before they are decoded.
struct HubStreamSource: Sendable {
    let id: ByteString
    let connection: ConnectionID
    let coder: HubValueCoder
    let driver: SessionDriver<SignalRServerMachine>

    /// Waits for items, or for the end of the stream.
    func items() async throws -> ([HubPayload], SignalRServerMachine.StreamEnd?) {
        do throws(SignalRServerMachine.Failure) {
            let result = try await self.driver.awaitResult(awaitsPeer: false) { machine, waiter, now, effects in
                machine.readItems(of: self.id, self.connection, waiter, now: now, &effects)
            }
            guard case .items(let items, let end) = result else { return ([], .completed) }
            return (items, end)
        } catch {
            throw CancellationError()
        }
    }
}

import RealtimeCore
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

extension SessionDriver<HubSession> {
    /// Sends the elements of a stream.
    ///
    /// - Returns: The text of the error for the server, if the stream failed.
    func perform(_ upload: HubUpload, _ id: UInt64, _ coder: HubValueCoder) async -> String? {
        do {
            try await upload.run(coder) { item in
                let message = HubMessageWriter.message(.streamItem(id: "\(id)", item), coder.format)
                try await self.sendWhenPossible(message) { session, now throws(HubError) in
                    try session.connectionForItem(of: id, now: now)
                }
            }
            return nil
        } catch {
            return HubError.text(forServer: error, from: "The stream")
        }
    }

    /// Sends as soon as the server has read enough of what was sent before.
    func sendWhenPossible(
        _ send: (inout HubSession, Instant, inout Effects<HubSession>) -> HubSession.SendResult
    ) async throws(HubError) {
        while true {
            if Task.isCancelled { throw .cancelled }
            var result = HubSession.SendResult.sent
            self.step { result = send(&$0, $1, &$2) }
            switch result {
            case .sent: return
            case .failed(let error): throw error
            case .paused: try await self.awaitWriting()
            }
        }
    }

    /// Sends a message as soon as the server has read enough of what was sent before.
    ///
    /// - Parameter connection: Returns the connection for the message, or `nil` if much output waits.
    func sendWhenPossible(
        _ message: WebSocketMessage, on connection: (inout HubSession, Instant) throws(HubError) -> ConnectionID?
    ) async throws(HubError) {
        while true {
            if Task.isCancelled { throw .cancelled }
            var isSent = false
            try self.send { session throws(HubError) in
                guard let id = try connection(&session, self.now) else { return nil }
                isSent = true
                return (id, message)
            }
            if isSent { return }
            try await self.awaitWriting()
        }
    }

    /// Sends a message to which the server doesn't respond, as soon as the server has read enough of what was sent before.
    func sendWhenPossible(_ message: WebSocketMessage) async throws(HubError) {
        try await self.sendWhenPossible(message) { session, now throws(HubError) in try session.connectionForSending(now: now) }
    }

    func awaitWriting(limit: Duration? = nil) async throws(HubError) {
        _ = try await self.awaitResult(limit: limit) { session, waiter, _, effects in session.awaitWriting(waiter, &effects) }
    }
}

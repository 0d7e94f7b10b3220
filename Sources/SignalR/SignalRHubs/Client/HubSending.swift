import RealtimeCore
import SignalRWire

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
            // Most sequences end when their task is cancelled, as if they were complete.
            try Task.checkCancellation()
            return nil
        } catch {
            return HubError.text(forServer: error, from: "The stream")
        }
    }

    /// Sends a message to which the server doesn't respond, as soon as the server has read enough of what was sent before. Over HTTP, waits until
    /// the server has taken it.
    @inline(__always)  // An asynchronous function that isn't inlined switches the task.
    func sendWhenPossible(_ message: TransportMessage) async throws(HubError) {
        if Task.isCancelled { throw .cancelled }
        // Usually, it is a WebSocket, and nothing waits. Another asynchronous call would cost as much as the sending itself.
        let isSent = try self.sendIfPossible(message) { session, now throws(HubError) in
            session.isOverHTTP ? nil : try session.connectionForSending(now: now)
        }
        if isSent { return }
        try await self.sendAwaitingAnswer { session, now, effects throws(HubError) in
            guard let id = try session.connectionForSending(now: now) else { return nil }
            session.sendCounted(message, on: id, &effects)
            return id
        }
    }

    /// Sends a message to which the server doesn't respond, as soon as the server has read enough of what was sent before, and waits until the server
    /// has taken it, if the connection tells that.
    ///
    /// - Parameter send: Sends the message, and returns its connection; `nil` if much output waits.
    func sendAwaitingAnswer(
        _ send: (inout HubSession, Instant, inout Effects<HubSession>) throws(HubError) -> ConnectionID?
    ) async throws(HubError) {
        var isSent = false
        while true {
            if Task.isCancelled { throw .cancelled }
            _ = try await self.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                do throws(HubError) {
                    guard let id = try send(&session, now, &effects) else { return effects.resume(waiter, .success(.none)) }
                    isSent = true
                    session.awaitAnswer(waiter, on: id, &effects)
                } catch {
                    effects.resume(waiter, .failure(error))
                }
            }
            if isSent { return }
            // The message that lets writing go on is read although other messages aren't. An answer doesn't need that.
            _ = try await self.awaitResult { session, waiter, _, effects in session.awaitWriting(waiter, &effects) }
        }
    }

    /// Sends a message to which the server doesn't respond, as soon as the server has read enough of what was sent before.
    ///
    /// - Parameter connection: Returns the connection for the message, or `nil` if much output waits.
    @inline(__always)  // As above.
    func sendWhenPossible(
        _ message: TransportMessage, on connection: (inout HubSession, Instant) throws(HubError) -> ConnectionID?
    ) async throws(HubError) {
        if Task.isCancelled { throw .cancelled }
        if try self.sendIfPossible(message, on: connection) { return }
        try await self.sendWhenPossible { () throws(HubError) in try self.sendIfPossible(message, on: connection) }
    }

    /// Sends a message, or returns `false` if much output waits.
    @inline(__always)
    private func sendIfPossible(
        _ message: TransportMessage, on connection: (inout HubSession, Instant) throws(HubError) -> ConnectionID?
    ) throws(HubError) -> Bool {
        var (isSent, sendsWithEffects) = (false, false)
        try self.send { session throws(HubError) in
            sendsWithEffects = session.sendsWithEffects
            guard !sendsWithEffects, let id = try connection(&session, self.now) else { return nil }
            isSent = true
            return session.store(message) ? (id, message) : nil
        }
        guard sendsWithEffects else { return isSent }
        var failure: HubError?
        self.step { session, now, effects in
            do throws(HubError) {
                guard let id = try connection(&session, now) else { return }
                isSent = true
                session.sendCounted(message, on: id, &effects)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return isSent
    }

    /// Sends as soon as the server has read enough of what was sent before, unless the task is cancelled.
    ///
    /// - Parameter attempt: Sends, or returns `false` if much output waits.
    func sendWhenPossible(_ attempt: () throws(HubError) -> Bool) async throws(HubError) {
        try await self.sendWhenWritable { () throws(HubError) in
            if Task.isCancelled { throw .cancelled }
            return try attempt()
        } wait: { session, waiter, effects in
            session.awaitWriting(waiter, &effects)
        }
    }
}

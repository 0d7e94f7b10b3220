package import RealtimeCore
package import SignalRWire

/// The calls of the application, the streams in both directions, and the answers to the server.
extension HubSession {
    static let noResult = "Client didn't provide a result."

    /// An invocation or a stream that the server hasn't completed.
    struct Call: Sendable {
        enum Kind: Sendable {
            case invocation(WaiterID)
            case stream(EventRoute, ConsumerID)
        }

        var kind: Kind
        var target: String
        /// The streams to the server that are its arguments.
        var uploads: [UInt64] = []
    }

    /// A stream to the server.
    struct Upload: Sendable {
        var work: WorkID
        /// The invocation whose end ends it; `nil` if the server doesn't report its end.
        var call: UInt64?
    }

    // MARK: Sending

    /// Sends a message without waiting. One for which no memory is left, as the server acknowledges too little, ends the connection.
    mutating func send(_ message: HubMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let frame = HubMessageWriter.message(message, self.options.format)
        if message.isSequenced {
            guard !self.exceedsBacklogLimit else { return self.endAtBacklogLimit(on: id, now: now, &effects) }
            self.sendCounted(frame, on: id, &effects)
        } else {
            self.send(frame, on: id, &effects)
        }
        self.connection.sent(id, now: now)
    }

    var notConnected: HubError {
        switch self.state {
        case .stopped(let error):
            HubError(
                .notConnected, "The client isn't connected. Call start() first.\(error.map { " \($0.message)" } ?? "")", cause: error?.cause
            )
        case .connecting:
            HubError(
                .notConnected,
                "The client isn't connected yet. Wait until start() returns.\(self.knownFailure.map { " \($0.message)" } ?? "")")
        case .reconnecting(let error):
            HubError(.notConnected, "The client isn't connected: it reconnects after a loss. \(error.message)", cause: error.cause)
        case .connected: HubError(.notConnected, "The client isn't connected.")
        }
    }

    private mutating func nextCall() -> UInt64 {
        self.lastCall += 1
        return self.lastCall
    }

    /// Sends an invocation, and begins its uploads behind it. The connection may have ended afterwards.
    ///
    /// - Returns: The uploads.
    private mutating func write(
        _ id: UInt64?, _ target: String, _ arguments: HubPayload, _ streams: [HubUpload], isStream: Bool = false,
        on connection: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) -> [UInt64] {
        let uploads = streams.map { _ in self.nextCall() }
        let invocation = HubInvocation(
            id: id.map { "\($0)" }, target: target, arguments: arguments, streamIDs: uploads.map { "\($0)" })
        self.send(isStream ? .streamInvocation(invocation) : .invocation(invocation), on: connection, now: now, &effects)
        guard self.connection.established == connection else { return [] }
        for (upload, stream) in zip(uploads, streams) {
            self.uploads[upload] = Upload(work: self.works.start(.upload(id: upload, stream), for: .upload(upload), &effects), call: id)
        }
        return uploads
    }

    /// Determines the number of a call that is encoded before it is made.
    ///
    /// - Returns: `false` if much output waits. Try again after ``awaitWriting(_:_:)``.
    package mutating func reserveCall(_ number: inout UInt64) -> Bool {
        guard !self.mustWaitToWrite else { return false }
        number = self.nextCall()
        return true
    }

    /// Invokes a method whose result the caller waits for.
    ///
    /// - Parameters:
    ///   - id: The number of the call, from ``reserveCall(_:)``.
    ///   - target: The name of the method.
    ///   - message: The invocation with this number.
    ///   - waiter: The caller.
    package mutating func invoke(
        _ id: UInt64, _ target: String, _ message: TransportMessage, _ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connection.established else { return effects.resume(waiter, .failure(self.notConnected)) }
        self.callers[waiter.rawValue] = id
        self.calls[id] = Call(kind: .invocation(waiter), target: target)
        self.sendCounted(message, on: connection, &effects)
        self.connection.sent(connection, now: now)
    }

    /// Invokes a method whose result the caller waits for, with streams to the server.
    ///
    /// - Parameter id: The number of the call, from ``reserveCall(_:)``; `nil` for a new one.
    package mutating func invoke(
        _ target: String, _ arguments: HubPayload, _ streams: [HubUpload], id: UInt64? = nil, _ waiter: WaiterID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connection.established else { return effects.resume(waiter, .failure(self.notConnected)) }
        let id = id ?? self.nextCall()
        self.callers[waiter.rawValue] = id
        self.calls[id] = Call(kind: .invocation(waiter), target: target)
        let uploads = self.write(id, target, arguments, streams, on: connection, now: now, &effects)
        self.calls[id]?.uploads = uploads
    }

    /// Invokes a method without waiting for its end.
    ///
    /// - Returns: The connection; `nil` if much output waits. Try again after ``awaitWriting(_:_:)``.
    /// - Throws: ``HubError/Code/notConnected``.
    package mutating func send(
        _ target: String, _ arguments: HubPayload, _ streams: [HubUpload], now: Instant, _ effects: inout Effects<Self>
    ) throws(HubError) -> ConnectionID? {
        guard let connection = try self.connectionForSending(now: now) else { return nil }
        _ = self.write(nil, target, arguments, streams, on: connection, now: now, &effects)
        return connection
    }

    /// Returns the connection on which the caller sends a message now, without waiting for an answer.
    ///
    /// - Returns: The connection, which may be being resumed, for ``store(_:)``; `nil` if much output waits. Try again after
    ///   ``awaitWriting(_:_:)``.
    /// - Throws: ``HubError/Code/notConnected``.
    package mutating func connectionForSending(now: Instant) throws(HubError) -> ConnectionID? {
        guard let connection = self.connection.established else { throw self.notConnected }
        guard !self.mustWaitToWrite else { return nil }
        self.connection.sent(connection, now: now)
        return connection
    }

    /// Waits until the server has read what was sent.
    package mutating func awaitWriting(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        if self.connection.established != nil, self.mustWaitToWrite {
            self.writingCallers.insert(waiter)
        } else {
            effects.resume(waiter, .success(.none))
        }
    }

    /// Whether messages are sent in requests, whose answers tell what the server has taken.
    package var isOverHTTP: Bool { self.attempt.transport != .webSockets }

    /// Waits until the server has taken what was sent on a connection over HTTP.
    package mutating func awaitAnswer(_ waiter: WaiterID, on id: ConnectionID, _ effects: inout Effects<Self>) {
        guard id == self.connection.established else { return effects.resume(waiter, .failure(self.notConnected)) }
        self.answerCallers.insert(waiter, on: id)
        effects.commands.append(.awaitAnswer(waiter, on: id))
    }

    package mutating func answered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        if self.answerCallers.remove(waiter) { effects.resume(waiter, .success(.none)) }
    }

    package mutating func unanswered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        let other = self.notConnected
        if let failure = self.answerCallers.takeFailure(waiter, else: other) { effects.resume(waiter, .failure(failure)) }
    }

    package mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        // Ignores a connection that closes: the next one starts with no pending output.
        guard id == self.connection.established else { return }
        self.isWritingPaused = paused
        self.resumeWritingCallers(&effects)
    }

    // MARK: Streams from the server

    /// Registers the consumer of a stream, which is opened with ``openStream(_:_:_:_:now:_:)``.
    package mutating func addStream(_ target: String, _ consumer: ConsumerID, _ effects: inout Effects<Self>) -> UInt64 {
        let id = self.nextCall()
        var route = EventRoutes.none
        effects.routes.add(consumer, to: &route)
        self.calls[id] = Call(kind: .stream(route, consumer), target: target)
        return id
    }

    /// - Returns: The error, if the stream can't be opened.
    package mutating func openStream(
        _ id: UInt64, _ target: String, _ arguments: HubPayload, _ streams: [HubUpload], now: Instant, _ effects: inout Effects<Self>
    ) -> HubError? {
        guard let connection = self.connection.established, self.calls[id] != nil else {
            let error = self.notConnected
            if let call = self.calls.take(id) { self.finish(call, .failure(error), &effects) }
            return error
        }
        let uploads = self.write(id, target, arguments, streams, isStream: true, on: connection, now: now, &effects)
        self.calls[id]?.uploads = uploads
        return nil
    }

    // MARK: Answers

    /// Returns the number of a call with this ID. Only the spelling that was sent is the ID of a call.
    private func call(_ id: String) -> UInt64? {
        guard let number = UInt64(id), id.utf8.first != UInt8(ascii: "+"), id.utf8.first != UInt8(ascii: "0") else { return nil }
        return self.calls[number] == nil ? nil : number
    }

    mutating func received(item: HubPayload, for id: String, _ effects: inout Effects<Self>) {
        guard let number = self.call(id), case .stream(let route, _)? = self.calls[number]?.kind else {
            return self.ignore("an item for the unknown stream \(id.prefix(32))", &effects)
        }
        effects.deliver(.item(item), on: route)
    }

    mutating func received(_ completion: HubCompletion, for id: String, _ effects: inout Effects<Self>) {
        guard let number = self.call(id), let call = self.calls.take(number) else {
            // Such as the answer to a call that was cancelled.
            return self.ignore("the completion of the unknown call \(id.prefix(32))", &effects)
        }
        // The server doesn't read them any more.
        self.cancelUploads(of: call, &effects)
        switch completion {
        case .void: self.finish(call, .success(nil), &effects)
        case .result(let result): self.finish(call, .success(result), &effects)
        case .error(let text):
            let message = "The server completed \(Excerpt.of(call.target, limit: 200)) with an error: \(self.redacted(text))"
            let error = HubError(.invocationFailed, message, serverMessage: self.redacted(text, isWhole: true))
            self.finish(call, .failure(error), &effects)
        }
    }

    /// Completes a call that has been removed.
    private mutating func finish(_ call: Call, _ result: Result<HubPayload?, HubError>, _ effects: inout Effects<Self>) {
        switch call.kind {
        case .invocation(let waiter):
            self.callers[waiter.rawValue] = nil
            effects.resume(waiter, result.map { .result($0) })
        case .stream(let route, let consumer):
            var error: HubError?
            if case .failure(let failure) = result { error = failure }
            effects.deliver(.streamEnd(error), on: route)
            effects.routes.retire(route)
            effects.commands.append(.endConsumers([consumer], .ended))
        }
    }

    /// Fails a call whose answer is invalid.
    mutating func failCall(_ id: String, _ error: HubError, now: Instant, _ effects: inout Effects<Self>) {
        guard let number = self.call(id), let call = self.calls.take(number) else { return }
        self.finish(call, .failure(error), &effects)
        self.abandon(number, call, now: now, &effects)
    }

    /// Ends a call whose caller has given up: its task was cancelled, its time limit exceeded, or its sequence released.
    package mutating func cancelCall(_ id: UInt64, now: Instant, _ effects: inout Effects<Self>) {
        guard let call = self.calls.take(id) else { return }
        if case .stream(let route, let consumer) = call.kind {
            effects.routes.retire(route)
            effects.commands.append(.endConsumers([consumer], .ended))
        }
        self.abandon(id, call, now: now, &effects)
    }

    /// Tells the server that the result of a call isn't needed.
    private mutating func abandon(_ id: UInt64, _ call: Call, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connection.established else { return }
        self.send(.cancelInvocation(id: "\(id)"), on: connection, now: now, &effects)
        // A method that reads a stream may not support cancellation, and would wait for further items.
        for upload in call.uploads where self.uploads[upload] != nil {
            self.send(.completion(id: "\(upload)", .error("The call was cancelled.")), on: connection, now: now, &effects)
        }
        self.cancelUploads(of: call, &effects)
    }

    /// Ends the stream whose items the application doesn't read, or the connection whose calls its handlers don't keep up with.
    package mutating func overflowed(_ consumer: ConsumerID, now: Instant, _ effects: inout Effects<Self>) {
        if effects.routes[self.invocations].contains(consumer) || effects.routes[self.awaitedInvocations].contains(consumer) {
            guard let connection = self.connection.connected else { return }
            let message = "The server calls methods faster than their handlers return, while a call waits for its result."
            return self.close(connection, HubError(.bufferOverflow, message), now: now, &effects)
        }
        let stream = self.calls.entries.first { if case .stream(_, consumer) = $0.value.kind { true } else { false } }
        guard let (id, call) = stream else { return }
        self.calls[id] = nil
        let message = "The items of \(call.target) weren't read, while another call waited for the server. Read or cancel each stream."
        self.finish(call, .failure(HubError(.bufferOverflow, message)), &effects)
        self.abandon(id, call, now: now, &effects)
    }

    /// Fails everything that waits for the server.
    mutating func failCalls(_ error: HubError, _ effects: inout Effects<Self>) {
        let calls = self.calls.entries
        (self.calls, self.uploads) = (SequentialTable(), [:])
        for (_, call) in calls { self.finish(call, .failure(error), &effects) }
        self.writingCallers.resumeAll(.failure(error), &effects)
        self.answerCallers.sessionEnded(error.forStorage)
    }

    // MARK: Streams to the server

    /// Returns the connection on which the next item of a stream is sent now.
    ///
    /// - Returns: The connection; `nil` if much output waits. Try again after ``awaitWriting(_:_:)``.
    /// - Throws: ``HubError/Code/cancelled`` if the stream isn't needed any more.
    package mutating func connectionForItem(of upload: UInt64, now: Instant) throws(HubError) -> ConnectionID? {
        guard self.uploads[upload] != nil, self.connection.established != nil else {
            throw HubError(.cancelled, "The call to which the stream belongs has ended.")
        }
        return try self.connectionForSending(now: now)
    }

    mutating func endUpload(_ id: UInt64, _ error: String?, now: Instant, _ effects: inout Effects<Self>) {
        guard let upload = self.uploads.take(id), let connection = self.connection.established else { return }
        if let call = upload.call { self.calls[call]?.uploads.removeAll { $0 == id } }
        self.send(.completion(id: "\(id)", error.map { .error($0) } ?? .void), on: connection, now: now, &effects)
    }

    private mutating func cancelUploads(of call: Call, _ effects: inout Effects<Self>) {
        for id in call.uploads {
            if let upload = self.uploads.take(id) { self.works.cancel(upload.work, &effects) }
        }
    }

    // MARK: Results of handlers

    /// Answers an invocation of the server, unless the connection on which it arrived has ended. It may have been resumed.
    package mutating func respond(
        to callback: HubCallback, _ completion: HubCompletion, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let id = callback.invocation.id else { return }
        guard let connection = self.connection.established, self.arrivedOnPresentConnection(callback) else {
            let name = self.excerpt(callback.invocation.target)
            return self.ignore("the result of a handler of \(name), whose connection has ended", &effects)
        }
        self.send(.completion(id: id, completion), on: connection, now: now, &effects)
    }

    /// Counts and reports values that could not be decoded, and other failures of handlers.
    package mutating func handlerFailed(_ error: HubError, _ effects: inout Effects<Self>) {
        if error.code == .decodingFailed { effects.counters.decodingFailures += 1 }
        self.report(error, &effects)
    }

    package mutating func ignoreInvocation(of target: String, _ effects: inout Effects<Self>) {
        effects.counters.messagesIgnored += 1
        effects.log(.warning, self.missingHandler(of: target))
    }

    /// The message about a call of the server for which there is no handler.
    package func missingHandler(of target: String) -> String {
        "There is no handler for the method \(self.excerpt(target)), which the server called. Names are case-sensitive."
    }
}

import RealtimeCore
package import SignalRWire

// The types of handlers are `@concurrent`: without it, the compiler (6.3) crashes in a generic function that passes a closure whose
// parameters are a pack.
extension HubClient {
    /// Calls a method and waits for its result.
    ///
    /// ```swift
    /// let sum: Int = try await client.invoke("Add", 1, 2)
    /// let report = try await client.invoke("Upload", "log.txt", HubUpload(lines), as: Report.self, within: .seconds(60))
    /// ```
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - arguments: The arguments, in the order of the method's parameters. A ``HubUpload`` is a stream to the server.
    ///   - type: The type of the result. A method without a result has the result `nil` of an optional type.
    ///   - limit: The maximum time to wait; `nil` for ``HubConfiguration/callTimeLimit``.
    /// - Returns: The result.
    /// - Throws: ``HubError/Code/invocationFailed`` if the method failed, ``HubError/Code/notConnected``, the reason if the connection is
    ///   lost or stopped, ``HubError/Code/encodingFailed``, ``HubError/Code/decodingFailed``, ``HubError/Code/timedOut``, and
    ///   ``HubError/Code/cancelled`` immediately when the task is cancelled. In the last two cases, the server is told that the result
    ///   isn't needed.
    public func invoke<each Argument: Encodable & Sendable, Value: Decodable>(
        _ target: String, _ arguments: repeat each Argument, as type: Value.Type = Value.self, within limit: Duration? = nil
    ) async throws(HubError) -> Value {
        try self.decode(type, from: try await self.result(of: target, repeat each arguments, within: limit), of: target)
    }

    /// Calls a method and waits for its end. A result is ignored.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - arguments: The arguments, in the order of the method's parameters. A ``HubUpload`` is a stream to the server.
    ///   - limit: The maximum time to wait; `nil` for ``HubConfiguration/callTimeLimit``.
    /// - Throws: ``HubError/Code/invocationFailed`` if the method failed, ``HubError/Code/notConnected``, the reason if the connection is
    ///   lost or stopped, ``HubError/Code/encodingFailed``, ``HubError/Code/timedOut``, and ``HubError/Code/cancelled`` immediately when
    ///   the task is cancelled. In the last two cases, the server is told that the result isn't needed.
    public func invoke<each Argument: Encodable & Sendable>(
        _ target: String, _ arguments: repeat each Argument, within limit: Duration? = nil
    ) async throws(HubError) {
        _ = try await self.result(of: target, repeat each arguments, within: limit)
    }

    /// Calls a method without waiting for its end. The server reports neither a result nor an error.
    ///
    /// If much output waits for a server that reads slowly, the call waits until the server has caught up. With long polling and Server-Sent
    /// Events, it also waits until the server has answered the request with the message, so calls one after another each wait for an answer.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - arguments: The arguments, in the order of the method's parameters. A ``HubUpload`` is a stream to the server.
    /// - Throws: ``HubError/Code/notConnected``, ``HubError/Code/encodingFailed``; while the call waits, the reason if the connection is
    ///   lost or stopped, and ``HubError/Code/cancelled`` if the task is cancelled.
    public func send<each Argument: Encodable & Sendable>(_ target: String, _ arguments: repeat each Argument) async throws(HubError) {
        guard !Self.hasUpload(repeat (each Argument).self) else {
            let (payload, uploads) = try self.encode(target, repeat each arguments)
            return try await self.send(target, payload, streams: uploads)
        }
        if target.isEmpty { throw .emptyName }
        let message: TransportMessage
        do {
            // Here and not in a function, because passing the arguments on copies them.
            message = try HubMessageWriter.invocation(of: target, self.coder.format) {
                try self.coder.appendArguments(repeat each arguments, to: &$0)
            }
        } catch {
            throw .encoding(error, target)
        }
        try await self.driver.sendWhenPossible(message)
    }

    /// Calls a method that returns a stream.
    ///
    /// ```swift
    /// for try await price in try client.stream("Prices", "ACME", of: Price.self) {
    ///     print(price)
    /// }
    /// ```
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - arguments: The arguments, in the order of the method's parameters. A ``HubUpload`` is a stream to the server.
    ///   - type: The type of the items.
    /// - Returns: The stream, whose items are buffered from now on. Releasing its iterator ends it.
    /// - Throws: ``HubError/Code/notConnected``, ``HubError/Code/encodingFailed``.
    public func stream<each Argument: Encodable & Sendable, Element: Decodable & SendableMetatype>(
        _ target: String, _ arguments: repeat each Argument, of type: Element.Type = Element.self
    ) throws(HubError) -> HubStreamResult<Element> {
        let (payload, uploads) = try self.encode(target, repeat each arguments)
        return try self.stream(target, payload, streams: uploads) { [coder] in try coder.decode(Element.self, from: $0) }
    }

    /// Registers a handler without a result for a method that the server calls.
    ///
    /// ```swift
    /// client.on("ReceiveMessage") { (user: String, message: String) in
    ///     print("\(user): \(message)")
    /// }
    /// ```
    /// Handlers are called in the order of the calls, one at a time unless the server waits for a result, and handlers of the same method in
    /// the order of their registration. They run in a task of the client, or on the actor in which the closure was written, and may take their
    /// time, and call methods of the server. If a handler throws, the error is reported as an update, and the others are called.
    ///
    /// - Parameters:
    ///   - target: The name of the method, case-sensitive unless ``HubConfiguration/ignoresCaseOfMethods`` is set.
    ///   - handler: Receives the arguments. If they can't be decoded as the types of its parameters, or are fewer, it isn't called, and an
    ///     update reports why. Further arguments are ignored.
    /// - Returns: The registration. Releasing it has no effect.
    @discardableResult
    public func on<each Argument: Decodable & Sendable>(
        _ target: String, @_inheritActorContext handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Void
    ) -> HubHandlerToken {
        let coder = self.coder
        return self.on(target) { (invocation: HubInvocation) in
            var arguments = try coder.decodeArguments(invocation.arguments)
            try await handler(repeat try arguments.next((each Argument).self))
            return nil
        }
    }

    /// Registers a handler with a result for a method that the server calls.
    ///
    /// ```swift
    /// client.on("Confirm") { (question: String) in
    ///     await dialog.confirm(question)
    /// }
    /// ```
    /// Each call for which the server waits is handled in a task of its own: it doesn't wait for the handlers of earlier calls, and the handler
    /// may wait, for a person for instance, without delaying other calls. Only one handler of a method may have a result. If it throws, the
    /// server receives the message of a ``HubError``, and the type of any other error.
    ///
    /// - Parameters:
    ///   - target: The name of the method, case-sensitive unless ``HubConfiguration/ignoresCaseOfMethods`` is set.
    ///   - handler: Receives the arguments, and returns the result for the server.
    /// - Returns: The registration. Releasing it has no effect.
    @discardableResult
    public func on<each Argument: Decodable & Sendable, Value: Encodable & Sendable>(
        _ target: String, @_inheritActorContext handler: @escaping @concurrent @Sendable (repeat each Argument) async throws -> Value
    ) -> HubHandlerToken {
        let coder = self.coder
        return self.on(target) { (invocation: HubInvocation) in
            var arguments = try coder.decodeArguments(invocation.arguments)
            let result = try await handler(repeat try arguments.next((each Argument).self))
            return try invocation.encodedResult { try coder.payload(result) }
        }
    }

    private func result<each Argument: Encodable & Sendable>(
        of target: String, _ arguments: repeat each Argument, within limit: Duration?
    ) async throws(HubError) -> HubPayload? {
        guard !Self.hasUpload(repeat (each Argument).self) else {
            let (payload, uploads) = try self.encode(target, repeat each arguments)
            return try await self.invoke(target, payload, streams: uploads, within: limit)
        }
        let call = try await self.reserveCall(of: target, within: limit)
        let message: TransportMessage
        do {
            // As in `send`.
            message = try HubMessageWriter.invocation(of: target, id: "\(call.number)", self.coder.format) {
                try self.coder.appendArguments(repeat each arguments, to: &$0)
            }
        } catch {
            throw .encoding(error, target)
        }
        return try await self.invoke(call, target, message)
    }

    private static func hasUpload<each Argument>(_ types: repeat (each Argument).Type) -> Bool {
        for type in repeat each types {
            if type == HubUpload.self { return true }
        }
        return false
    }

    /// Encodes the arguments of a call.
    ///
    /// - Returns: The arguments that aren't streams, and the streams.
    private func encode<each Argument: Encodable>(
        _ target: String, _ arguments: repeat each Argument
    ) throws(HubError) -> (HubPayload, [HubUpload]) {
        do {
            guard Self.hasUpload(repeat (each Argument).self) else { return (try self.coder.arguments(repeat each arguments), []) }
            var uploads: [HubUpload] = []
            var values: [any Encodable] = []
            for argument in repeat each arguments {
                if let upload = argument as? HubUpload { uploads.append(upload) } else { values.append(argument) }
            }
            return (try self.coder.arguments(of: values), uploads)
        } catch {
            throw .encoding(error, target)
        }
    }
}

extension HubInvocation {
    /// Encodes the result of a handler, if the caller waits for one.
    package func encodedResult(_ encode: () throws -> HubPayload?) throws(HubError) -> HubPayload? {
        guard self.id != nil else { return nil }
        do {
            return try encode()
        } catch {
            let message = "The result of the handler can't be encoded: \(HubValueError.reason(error))."
            throw HubError(.encodingFailed, message, cause: HubValueError.cause(of: error))
        }
    }
}

extension HubError {
    /// The error of a call whose arguments can't be encoded.
    package static func encoding(_ error: any Error, _ target: String) -> HubError {
        HubError(
            .encodingFailed, "The call of \(target) wasn't sent. \(HubValueError.reason(error))", cause: HubValueError.cause(of: error))
    }
}

import PrimusWire
public import RealtimeCore

extension PrimusConnection {
    /// Sends a request with primus-responder, and waits for the response.
    ///
    /// ```swift
    /// let reply: Int = try await primus.request(["add": [1, 2]])
    /// ```
    /// If the client is opening or reconnects, the call waits until it is open. The protocol has no errors: a server that fails doesn't respond,
    /// or responds with a value that says so.
    ///
    /// - Parameters:
    ///   - value: The request.
    ///   - type: The type of the response.
    ///   - limit: The maximum time to wait; `nil`, the default, to wait as long as the connection lasts.
    /// - Returns: The response.
    /// - Throws: ``PrimusError/Code/pluginOff``, ``PrimusError/Code/encodingFailed``, ``PrimusError/Code/decodingFailed``,
    ///   ``PrimusError/Code/notOpen`` if the client is closed, the reason if the connection is lost or the client ended,
    ///   ``PrimusError/Code/timedOut``, and ``PrimusError/Code/cancelled`` immediately when the task is cancelled.
    public func request<Request: Encodable & Sendable, Value: Decodable>(
        _ value: Request, as type: Value.Type = Value.self, within limit: Duration? = nil
    ) async throws(PrimusError) -> Value {
        let calls = PluginCalls(self)
        try calls.check(.responder)
        let payload = try await calls.response(to: value, within: limit)
        do {
            return try payload.decode(type)
        } catch {
            throw .decoding(error, "\(type)")
        }
    }

    /// A sequence of the requests of the server with primus-responder, from now on.
    ///
    /// Each request can be answered by one consumer. When the consumer is slower than the server, the client stops reading; see
    /// ``PrimusConfiguration/messageBuffer``. The sequence continues across reconnects and finishes when the client is released.
    public var requests: EventSequence<PrimusResponderRequest> {
        let calls = PluginCalls(self)
        return calls.sequence(.requests, calls.request) { $0.size }
    }

    /// Calls a closure on an executor with the requests of the server from now on, in order and one at a time.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - callback: Called with each request, which it may answer later. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onRequest(
        on executor: PrimusCallbackExecutor, _ callback: @escaping @Sendable (PrimusResponderRequest) -> Void
    ) -> PrimusObservation {
        let calls = PluginCalls(self)
        return calls.observe(.requests, named: "The callback of the requests", on: executor, calls.request, callback)
    }

    /// Calls a closure on the main actor with the requests of the server from now on, in order and one at a time.
    ///
    /// ```swift
    /// let registration = primus.onRequest { request in
    ///     _ = try? request.respond(["time": Date.now])
    /// }
    /// ```
    /// - Parameter callback: Called with each request, which it may answer later. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onRequest(_ callback: @escaping @MainActor @Sendable (PrimusResponderRequest) -> Void) -> PrimusObservation {
        self.onRequest(on: .main, CallbackExecutor.onMain(callback))
    }
}

import PrimusWire
public import RealtimeCore

extension PrimusServer {
    /// Calls a closure with each event of primus-emitter or primus-emit under a name.
    ///
    /// - Parameters:
    ///   - event: The name of the event; `nil` for all.
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the events and one at a time.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func on(
        _ event: String?, on executor: CallbackExecutor = .tasks, _ handler: @escaping @Sendable (PrimusServerCall) -> Void
    ) -> CallbackObservation {
        let server = self.sparkContext
        return self.observe(
            "on", .events(event), executor,
            { (call: (PrimusSparkInfo, MultiplexAddress?, String, PrimusArguments, Int64?)) in
                let spark = PrimusSpark(call.0, of: server)
                let channel = call.1.map { PrimusSparkChannel(spark: spark, address: $0) }
                handler(
                    PrimusServerCall(
                        spark: spark, event: call.2, channel: channel, arguments: PrimusEventArguments(arguments: call.3),
                        acknowledgement: call.4))
            }
        ) { received in
            guard case .event(let spark, let address, let name, let arguments, let acknowledgement) = received else { return nil }
            return (spark, address, name, arguments, acknowledgement)
        }
    }

    /// Calls a closure with what happens on a channel of primus-multiplex, other than events of primus-emitter.
    ///
    /// - Parameters:
    ///   - name: The name of the channel.
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the events and one at a time.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func onChannel(
        _ name: String, on executor: CallbackExecutor = .tasks, _ handler: @escaping @Sendable (PrimusChannelEvent) -> Void
    ) -> CallbackObservation {
        let server = self.sparkContext
        return self.observe(
            "onChannel", .channel(name), executor,
            { (event: PrimusSparkEvent) in
                func channel(_ spark: PrimusSparkInfo, _ address: MultiplexAddress) -> PrimusSparkChannel {
                    PrimusSparkChannel(spark: PrimusSpark(spark, of: server), address: address)
                }
                switch event {
                case .joined(let spark, let address): handler(.joined(channel(spark, address)))
                case .left(let spark, let address): handler(.left(channel(spark, address)))
                case .channelMessage(let spark, let address, let payload):
                    handler(.message(channel(spark, address), PrimusServerPayload(payload: payload)))
                default: break
                }
            }
        ) { event in
            switch event {
            case .joined, .left, .channelMessage: event
            default: nil
            }
        }
    }

    /// Calls a closure with each message on a stream of substream; with `nil` when the client ends the stream.
    ///
    /// - Parameters:
    ///   - name: The name of the stream.
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the messages and one at a time.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func onSubstream(
        _ name: String, on executor: CallbackExecutor = .tasks,
        _ handler: @escaping @Sendable (PrimusSpark, PrimusServerPayload?) -> Void
    ) -> CallbackObservation {
        let server = self.sparkContext
        return self.observe(
            "onSubstream", .substream(name), executor,
            { (message: (PrimusSparkInfo, PrimusPayload?)) in
                handler(PrimusSpark(message.0, of: server), message.1.map { PrimusServerPayload(payload: $0) })
            }
        ) { event in
            switch event {
            case .substreamMessage(let spark, _, let payload): (spark, payload)
            case .substreamEnded(let spark, _): (spark, nil)
            default: nil
            }
        }
    }

    /// Calls a closure with each request of primus-responder, which it answers with the closure that it receives, once, now or later.
    ///
    /// - Parameters:
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the requests and one at a time. The response must be a value that the parser
    ///     carries; otherwise, the client receives none.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func onRequest(
        on executor: CallbackExecutor = .tasks,
        _ handler:
            @escaping @Sendable (PrimusSpark, PrimusServerPayload, _ respond: @escaping @Sendable (any Encodable & Sendable) -> Void) ->
            Void
    ) -> CallbackObservation {
        let server = self.sparkContext
        return self.observe(
            "onRequest", .requests, executor,
            { (request: (PrimusSparkInfo, String, PrimusPayload)) in
                handler(PrimusSpark(request.0, of: server), PrimusServerPayload(payload: request.2)) { value in
                    guard let payload = try? PrimusPayload(encoding: value, server.coding) else { return }
                    server.driver.step { _ = $0.write(.responder(.response(id: request.1, payload)), to: request.0.id, &$2) }
                }
            }
        ) { event in
            guard case .request(let spark, let number, let payload) = event else { return nil }
            return (spark, number, payload)
        }
    }
}

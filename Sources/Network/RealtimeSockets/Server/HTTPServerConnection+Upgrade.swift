internal import RealtimeCore

/// The upgrade of a connection to a WebSocket.
extension HTTPServerConnection {
    /// Waits for the decision of the handler.
    func decideLater(
        _ offer: ServerHandshake.Offer, _ exchange: HTTPServerExchange, _ begin: @Sendable (UpgradeResponder) -> Void
    ) {
        let responder = UpgradeResponder { [stream = self.stream] answer in
            // Asynchronously, because the handler may decide on any thread, or before `begin` returns.
            if !stream.loop.execute({ self.decided(answer, exchange) }) { answer.abandon() }
        }
        self.state.phase = .deciding(PendingUpgrade(offer: offer, exchange: exchange, responder: responder))
        self.setTimeout(self.limits.upgradeTimeout)
        begin(responder)
    }

    private func decided(_ answer: UpgradeResponder.Answer, _ exchange: HTTPServerExchange) {
        guard case .deciding(let pending) = self.state.phase, pending.exchange === exchange else { return answer.abandon() }
        self.state.phase = .responding(exchange, isLast: false)
        self.setTimeout(nil)
        switch answer {
        case .reject(let response): exchange.respond(response)
        case .accept(let subprotocol, let headers, let acceptor):
            var frames: [UInt8] = []
            swap(&frames, &self.state.pipelined)
            let isOpen = frames.withUnsafeBytes { self.upgrade(pending.offer, subprotocol, headers, acceptor, exchange, $0) }
            // Otherwise, the bytes are the next request.
            if !isOpen { self.state.pipelined = frames }
        }
    }

    /// Responds with the status 503 to an upgrade about which the handler has not decided.
    func rejectUndecided(_ pending: PendingUpgrade, isLast: Bool, _ text: String) {
        self.state.phase = .responding(pending.exchange, isLast: isLast)
        self.setTimeout(nil)
        if isLast { pending.exchange.disableKeepAlive() }
        pending.exchange.respond(.line(503, text))
        pending.responder.cancel()
    }

    /// Hands the connection over to a WebSocket.
    ///
    /// - Parameter frames: The bytes that were received after the request.
    /// - Returns: `false` if the answer is invalid. The client receives a response instead.
    func upgrade(
        _ offer: ServerHandshake.Offer, _ subprotocol: String?, _ headers: HTTPHeaders, _ acceptor: any UpgradeAcceptor,
        _ exchange: HTTPServerExchange, _ frames: UnsafeRawBufferPointer
    ) -> Bool {
        var response: [UInt8] = []
        do throws(TransportError) {
            try HTTPEncoder.append(try ServerHandshake.accept(offer, subprotocol: subprotocol, headers: headers), to: &response)
        } catch {
            acceptor.abandoned()
            exchange.respond(.line(500, "The server's response to the WebSocket request is invalid."))
            return false
        }
        let id = ConnectionID.nextAccepted()
        let messageLimit = min(self.limits.messageBytes, acceptor.messageLimit ?? .max)
        let webSocket = SocketWebSocket(accepted: self.stream, id: id, messageLimit: messageLimit, limits: self.limits.output)
        self.state.phase = .upgraded(webSocket)
        self.cancelTimer()
        self.resumeReading()
        let events = acceptor.connected(webSocket, id: id)
        // Afterwards: a flush in there would write the response without the messages that follow it.
        self.stream.enqueue { $0.append(contentsOf: response) }
        webSocket.start(events, leftover: frames)
        self.stream.flush()
        if self.state.input == .ended { webSocket.ended(self.stream, nil) }
        return true
    }
}

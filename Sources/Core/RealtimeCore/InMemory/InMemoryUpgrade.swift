import RealtimeSystem

/// An upgrade about which the handler of an ``InMemoryListener`` decides later, and the time limit of the decision.
final class InMemoryUpgrade: TimerClient {
    /// The same as the default of a listener on sockets.
    private static let timeout = Duration.seconds(10)

    private let listener: InMemoryListener
    private let time: any TimeSource
    private let decided: @Sendable (UpgradeResponder.Answer) -> Void
    private let responder: UpgradeResponder

    /// - Parameter decided: Called once, unless the upgrade is cancelled before.
    init(_ listener: InMemoryListener, time: any TimeSource, decided: @escaping @Sendable (UpgradeResponder.Answer) -> Void) {
        self.listener = listener
        self.time = time
        self.decided = decided
        self.responder = UpgradeResponder(decided)
    }

    /// Asks the handler.
    func begin(_ ask: @Sendable (UpgradeResponder) -> Void) {
        self.listener.add(self)
        self.time.schedule(self, at: self.time.now.advanced(by: Self.timeout))
        ask(self.responder)
    }

    /// Ends the time limit, because the decision has been made or the client has disconnected.
    func end() {
        self.listener.remove(self)
        self.time.schedule(self, at: nil)
        self.responder.cancel()
    }

    /// Rejects the upgrade with the status 503, unless the decision has been made.
    func reject(_ text: String) {
        guard self.responder.cancel() else { return }
        self.decided(.reject(HTTPResponse(status: 503, headers: ["Content-Type": "text/plain; charset=utf-8"], text: text + "\n")))
    }

    func timerFired() { self.reject("The server did not decide about the WebSocket within \(Self.timeout).") }
}

import RealtimeCore
import TestSupport

@testable import PusherChannels

/// Calls parts of a session without a session, and describes their effects as lines of text.
struct SessionPartHarness {
    var effects = Effects<PusherSession>()
    var work = PendingWork<PusherSession.Purpose>()
    var now = Instant(nanoseconds: 0)
    var isConnected = true
    private let settings: PusherSettings
    private var consumers = ClientConsumers()

    init(_ change: (inout PusherConfiguration) -> Void = { _ in }) {
        var configuration = PusherConfiguration(key: "key", host: "host", useTLS: false)
        change(&configuration)
        self.settings = PusherSettings(configuration)
        self.consumers.add(ConsumerID(rawValue: 1), to: .updates, &self.effects.routes)
    }

    var context: SessionContext {
        SessionContext(
            now: self.now, connection: self.isConnected ? ConnectionID(rawValue: 1) : nil, socketID: self.isConnected ? "1.2" : nil,
            settings: self.settings, consumers: self.consumers)
    }

    mutating func call<Result, Failure: Error>(
        _ call: (SessionContext, inout PendingWork<PusherSession.Purpose>, inout Effects<PusherSession>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try call(self.context, &self.work, &self.effects)
    }

    /// Removes and returns the effects of the last calls: the updates first, and then the commands.
    mutating func take() -> [String] {
        defer { self.effects.removeAll() }
        let harness = SessionHarness()
        let updates = self.effects.deliveries.flatMap { harness.lines(of: $0) }
        return updates + self.effects.commands.flatMap { harness.lines(of: $0) }
    }
}

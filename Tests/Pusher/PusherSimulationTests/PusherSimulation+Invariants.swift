@testable import PusherChannels
import RealtimeCore
import RealtimeCoding
import SimulationSupport

/// The invariants of the Pusher protocol, in addition to those of every protocol.
extension PusherSimulation {
    func check(_ command: Effects<PusherSession>.Command) {
        switch command {
        case .open:
            guard self.simulation.cause == .arrival else { return }
            self.immediateInARow += 1
            self.simulation.require(self.immediateInARow <= 3, "\(self.immediateInARow) immediate reconnects in a row")
        case .endConsumers(let ids, _):
            for id in ids { self.consumers[id] = nil }
        case .finish(let reason):
            self.consumers = [:]
            guard reason != .requested else { return }
            // After a rejection, the user connects again some time later.
            self.simulation.schedule(in: 0...60_000) { [self] in self.user { self.client.start() } }
        case .send(_, let message):
            guard let frame = try? JSONValue(parsing: message.bytes), frame["event"] == "pusher:resume",
                let channel = frame["data"]?["channel_positions"]?.object?.first?.key
            else { return }
            self.resumeCount += 1
            self.resumes.insert(channel)
        case .close, .abandon, .reading, .work, .cancel, .resume, .awaitAnswer, .ignored, .log, .release: break
        }
    }

    func check(_ update: PusherUpdate, for consumers: [ConsumerID]) {
        switch update {
        case .state(let state):
            if case .connected = state {
                self.connects += 1
                self.connectedSince = self.simulation.now
            } else {
                if let since = self.connectedSince, since.advanced(by: .seconds(30)) <= self.simulation.now { self.immediateInARow = 0 }
                self.connectedSince = nil
            }
        case .event(let event): self.check(event, for: consumers)
        case .gap(let gap):
            self.orders[gap.channel, default: EventOrder()].receivedGap(published: self.published, now: self.simulation.now)
            self.resumes.remove(gap.channel)
            self.gapCount += 1
            self.simulation.require(gap.duration >= .zero, "a gap of \(gap.duration)")
        case .error(let error):
            self.simulation.require(!error.message.contains("Existing subscription"), "the same channel was subscribed twice")
            if error.code == .deltaFailed { self.deltaFailures += 1 }
            self.simulation.require(error.code != .invalidFrame, "the client reported a frame of the server as invalid: \(error)")
            self.simulation.require(error.serverCode != 4009, "a signature for another connection was used")
        case .connectingIn, .subscription, .members, .subscriptionCount, .user, .watchlist, .attempt, .frame, .sentFrame: break
        }
    }

    private func check(_ event: PusherEvent, for consumers: [ConsumerID]) {
        if event.name == "client-a" {
            return self.simulation.require(self.usesVersion2, "the client received its own event, which only version 2 sends")
        }
        guard let name = event.channel, let number = event.data.flatMap(Int.init), number <= self.published else {
            return self.simulation.fail("an event that was never published")
        }
        self.simulation.require(
            consumers.allSatisfy { self.consumers[$0] == name }, "an event of \(name) was delivered to a consumer of another channel")
        switch self.orders[name, default: EventOrder()].received(number, now: self.simulation.now) {
        case .inOrder: break
        case .repeated: self.simulation.fail("event \(number) of \(name) was delivered twice or out of order")
        case .missing: self.simulation.fail("events of \(name) before \(number) are missing without notice")
        }
        if self.resumes.remove(name) != nil { self.recoveryCount += 1 }
        self.lastEvent[name] = self.simulation.now
    }
}

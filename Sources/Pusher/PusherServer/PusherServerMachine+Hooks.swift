import PusherWire
import RealtimeCore

/// Questions to whoever runs the server, and what happens with the answers.
extension PusherServerMachine {
    mutating func ask(_ work: Work, _ pending: Pending, _ effects: inout Effects<Self>) -> WorkID {
        let id = WorkID(rawValue: self.nextNumber())
        self.pending[id] = pending
        effects.commands.append(.work(id, work))
        return id
    }

    /// Nobody wants the answer any more.
    mutating func withdraw(_ work: WorkID, _ effects: inout Effects<Self>) {
        self.pending[work] = nil
        effects.commands.append(.cancel(work))
    }

    mutating func workFinished(_ id: WorkID, _ verdict: PusherServerDecision, now: Instant, _ effects: inout Effects<Self>) {
        switch self.pending.removeValue(forKey: id) {
        case .greeting(let connection): self.greetingAnswered(connection, verdict, now: now, &effects)
        case .subscription(let attempt): self.subscriptionAnswered(attempt, verdict, now: now, &effects)
        case .clientEvent(let connection): self.clientEventAnswered(connection, verdict, now: now, &effects)
        case nil: break
        }
    }

    private mutating func greetingAnswered(
        _ id: ConnectionID, _ verdict: PusherServerDecision, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        self.connections[id]!.greeting = nil
        switch verdict {
        case .accept: self.greet(id, now: now, &effects)
        case .refuse(let code, let message):
            self.forget(connection.socketID)
            let code = code.flatMap { UInt16(exactly: $0) }.map { CloseCode(rawValue: $0) }
            self.refuse(id, code ?? PusherCloseCode.unauthorized, message, &effects)
        }
    }

    private mutating func subscriptionAnswered(
        _ attempt: Attempt, _ verdict: PusherServerDecision, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[attempt.connection] else { return }
        self.connections[attempt.connection]!.pending[attempt.channel] = nil
        switch verdict {
        case .accept: self.admit(attempt, now: now, &effects)
        case .refuse(let code, let message):
            self.deliver(.refused(socketID: connection.socketID, channel: attempt.channel, why: message), &effects)
            self.complain(attempt.connection, code, message, channel: attempt.channel, now: now, &effects)
        }
    }

    /// About the first one that waits, unless somebody is being asked already.
    mutating func askAboutClientEvent(of id: ConnectionID, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], connection.clientEventQuestion == nil,
            let event = connection.clientEventsToAsk.first
        else { return }
        self.connections[id]!.clientEventQuestion = self.ask(.clientEvent(event), .clientEvent(id), &effects)
    }

    private mutating func clientEventAnswered(
        _ id: ConnectionID, _ verdict: PusherServerDecision, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.connections[id] != nil else { return }
        self.connections[id]!.clientEventQuestion = nil
        let event = self.connections[id]!.clientEventsToAsk.removeFirst()
        switch verdict {
        case .accept: self.pass(event, from: id, now: now, &effects)
        case .refuse(let code, let message):
            let code = code ?? Int(PusherCloseCode.clientEventRejected.rawValue)
            self.complain(id, code, message, channel: event.channel, now: now, &effects)
        }
        self.askAboutClientEvent(of: id, &effects)
    }
}

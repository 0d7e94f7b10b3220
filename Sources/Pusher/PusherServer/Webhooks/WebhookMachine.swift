import PusherWire
import RealtimeCore
import RealtimeSystem

/// The webhooks of a server as a value: what it reports, and when it sends and repeats requests.
struct WebhookMachine: SessionMachine {
    typealias Event = Never
    typealias WaiterResult = Never
    typealias Request = Never

    /// The webhooks have no waiting callers, so this failure is never reported.
    enum Failure: Error { case cancelled }

    /// A request to send.
    struct Work: Sendable, Hashable {
        var endpoint: Endpoint
        var events: [PusherWebhookEvent]
        var unixMilliseconds: Int64
    }

    enum WorkResult: Sendable {
        case accepted
        case failed(String)
    }

    struct Settings: Sendable {
        var endpoints: [Endpoint]
        var sendsBatches: Bool
        var absenceDelay: Duration
        var retryPeriod: Duration
        /// The maximum number of events that wait to be sent to an endpoint, and of those in requests that wait to be repeated.
        var limit = 10_000
    }

    /// The maximum number of events in a request. Many servers accept about 1 MiB, and all events of a request that is too large are lost.
    private static let batchLimit = 100

    /// The subjects whose presence and absence the machine reports.
    private enum Subject: Hashable, Sendable {
        case channel(ByteString)
        case member(channel: ByteString, user: ByteString)

        var arrival: PusherWebhookEvent {
            switch self {
            case .channel(let channel): .channelOccupied(channel: channel.string)
            case .member(let channel, let user): .memberAdded(channel: channel.string, userID: user.string)
            }
        }

        var departure: PusherWebhookEvent {
            switch self {
            case .channel(let channel): .channelVacated(channel: channel.string)
            case .member(let channel, let user): .memberRemoved(channel: channel.string, userID: user.string)
            }
        }
    }

    private struct Subscription: Hashable, Sendable {
        var socketID: String
        var channel: ByteString
    }

    private struct Occurrence: Sendable {
        var event: PusherWebhookEvent
        var unixMilliseconds: Int64
    }

    private struct Delivery: Sendable {
        var work: Work
        /// When the request was sent first.
        var start: Instant
        var failures = 0
    }

    /// The events for an endpoint.
    private struct Queue: Sendable {
        var waiting: [Occurrence] = []
        /// The request that runs.
        var running: WorkID?
        var retries = Deadlines<UInt64, Delivery>()
        /// The number of events in the requests that wait to be repeated. A batch has many.
        var repeatedEvents = 0
        var hasDropped = false
        /// The number of requests in a row that were not accepted.
        var failures = 0
        /// When the next request may be sent, if too many were not accepted.
        var resumption: Instant?

        /// When the next request is sent, unless that depends on the end of the current one.
        var nextDeadline: Instant? {
            guard self.running == nil else { return nil }
            guard let resumption = self.resumption else { return self.retries.earliest }
            return self.waiting.isEmpty ? self.retries.earliest.map { max($0, resumption) } : resumption
        }

        /// A request was not accepted. An endpoint that accepts none receives a request now and then, however many events there are.
        mutating func failed(now: Instant) {
            self.failures += 1
            guard self.failures >= WebhookMachine.failureLimit else { return }
            self.resumption = now.advanced(by: .seconds(min(60, 1 << min(self.failures - WebhookMachine.failureLimit, 6))))
        }

        mutating func accepted() { (self.hasDropped, self.failures, self.resumption) = (false, 0, nil) }
    }

    /// The number of requests in a row that an endpoint doesn't accept, from which on other requests wait as well.
    private static let failureLimit = 5

    private let settings: Settings
    /// How many subscriptions the channels and the members have.
    private var counts: [Subject: Int] = [:]
    /// The users of subscriptions to presence channels.
    private var users: [Subscription: String] = [:]
    /// The cache channels whose lack of an event was reported. It is reported again when an event was published or the channel was empty.
    private var cacheMisses: Set<ByteString> = []
    /// When the absence of subjects is reported, and when it began in Unix time.
    private var absences = Deadlines<Subject, Int64>()
    private var queues: [Queue]
    /// The requests that run, each with the index of its queue.
    private var requests = PendingWork<(queue: Int, delivery: Delivery)>()

    init(_ settings: Settings) {
        self.settings = settings
        self.queues = settings.endpoints.map { _ in Queue() }
    }

    var nextDeadline: Instant? { self.queues.reduce(self.absences.earliest) { .earliest($0, $1.nextDeadline) } }

    // MARK: Events of the server

    mutating func occurred(_ event: PusherServerEvent, unixMilliseconds: Int64, now: Instant, _ effects: inout Effects<Self>) {
        func report(_ event: PusherWebhookEvent) {
            self.report(Occurrence(event: event, unixMilliseconds: unixMilliseconds), now: now, &effects)
        }
        func arrived(_ subject: Subject) {
            self.counts[subject, default: 0] += 1
            guard self.counts[subject] == 1 else { return }
            if self.absences.contains(subject) { self.absences.remove(subject) } else { report(subject.arrival) }
        }
        func left(_ subject: Subject) {
            guard let count = self.counts[subject] else { return }
            self.counts[subject] = count == 1 ? nil : count - 1
            if count == 1 { self.absences.set(subject, now.advanced(by: max(.zero, self.settings.absenceDelay)), unixMilliseconds) }
        }
        switch event {
        // The channels of single users aren't reported.
        case .subscribed(_, let channel, _) where UserID.user(ofChannel: channel) != nil: break
        case .subscribed(let socketID, let channel, let userID):
            let channel = ByteString(channel)
            arrived(.channel(channel))
            if let userID {
                self.users[Subscription(socketID: socketID, channel: channel)] = userID
                arrived(.member(channel: channel, user: ByteString(userID)))
            }
        case .unsubscribed(let socketID, let channel):
            let channel = ByteString(channel)
            if let user = self.users.removeValue(forKey: Subscription(socketID: socketID, channel: channel)) {
                left(.member(channel: channel, user: ByteString(user)))
            }
            left(.channel(channel))
            if self.counts[.channel(channel)] == nil { self.cacheMisses.remove(channel) }
        case .clientEvent(let socketID, let channel, let name, let data):
            let userID = self.users[Subscription(socketID: socketID, channel: ByteString(channel))]
            report(.clientEvent(channel: channel, event: name, data: data, socketID: socketID, userID: userID))
        case .cacheMiss(_, let channel):
            if self.cacheMisses.insert(ByteString(channel)).inserted { report(.cacheMiss(channel: channel)) }
        case .published(let channel, _, _): self.cacheMisses.remove(ByteString(channel))
        case .subscriptionCount(let channel, let count): report(.subscriptionCount(channel: channel, count: count))
        case .connected, .disconnected, .received, .signedIn, .subscriptionRejected, .error: break
        }
    }

    private mutating func report(_ occurrence: Occurrence, now: Instant, _ effects: inout Effects<Self>) {
        for index in self.queues.indices {
            guard self.queues[index].waiting.count < self.settings.limit else {
                self.logDrop(index, &effects)
                continue
            }
            self.queues[index].waiting.append(occurrence)
            self.sendNext(index, now: now, &effects)
        }
    }

    private mutating func logDrop(_ index: Int, _ effects: inout Effects<Self>) {
        guard !self.queues[index].hasDropped else { return }
        self.queues[index].hasDropped = true
        effects.log(.warning, "Webhooks for \(self.settings.endpoints[index]) are dropped: more than \(self.settings.limit) wait.")
    }

    // MARK: Requests

    /// Sends a request that is due, or the events that wait, unless a request is running.
    private mutating func sendNext(_ index: Int, now: Instant, _ effects: inout Effects<Self>) {
        guard self.queues[index].running == nil, let delivery = self.nextDelivery(index, now: now) else { return }
        self.queues[index].running = self.requests.start(delivery.work, for: (index, delivery), &effects)
    }

    private mutating func nextDelivery(_ index: Int, now: Instant) -> Delivery? {
        if let resumption = self.queues[index].resumption, now < resumption { return nil }
        if let due = self.queues[index].retries.popDue(now) {
            self.queues[index].repeatedEvents -= due.companion.work.events.count
            return due.companion
        }
        let count = min(self.settings.sendsBatches ? Self.batchLimit : 1, self.queues[index].waiting.count)
        guard count > 0 else { return nil }
        let occurrences = self.queues[index].waiting.prefix(count)
        let work = Work(
            endpoint: self.settings.endpoints[index], events: occurrences.map(\.event),
            unixMilliseconds: occurrences.last?.unixMilliseconds ?? 0)
        self.queues[index].waiting.removeFirst(count)
        return Delivery(work: work, start: now)
    }

    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        guard let (index, delivery) = self.requests.take(id) else { return }
        self.queues[index].running = nil
        switch result {
        case .accepted: self.queues[index].accepted()
        case .failed(let reason):
            self.queues[index].failed(now: now)
            self.retry(delivery, id, index, reason, now: now, &effects)
        }
        self.sendNext(index, now: now, &effects)
    }

    private mutating func retry(
        _ delivery: Delivery, _ id: WorkID, _ index: Int, _ reason: String, now: Instant, _ effects: inout Effects<Self>
    ) {
        var delivery = delivery
        let retry = now.advanced(by: .seconds(min(60, 1 << min(delivery.failures, 6))))
        delivery.failures += 1
        guard retry <= delivery.start.advanced(by: self.settings.retryPeriod) else {
            return effects.log(.warning, "A webhook was not accepted after \(delivery.failures) requests: \(reason)")
        }
        let events = self.queues[index].repeatedEvents + delivery.work.events.count
        guard events <= self.settings.limit else { return self.logDrop(index, &effects) }
        self.queues[index].repeatedEvents = events
        effects.log(delivery.failures == 1 ? .warning : .info, "A webhook was not accepted, and is repeated: \(reason)")
        self.queues[index].retries.set(id.rawValue, retry, delivery)
    }

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.absences.popDue(now) {
            let delay = max(.zero, self.settings.absenceDelay).nanoseconds / 1_000_000
            self.report(Occurrence(event: due.key.departure, unixMilliseconds: due.companion + delay), now: now, &effects)
        }
        for index in self.queues.indices { self.sendNext(index, now: now, &effects) }
    }

    /// The server is released.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        self.requests.cancelAll(&effects)
        for index in self.queues.indices { self.queues[index] = Queue() }
        self.absences = Deadlines()
    }

    // MARK: Not used without connections and callers

    func start(now: Instant, _ effects: inout Effects<Self>) {}
    func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {}
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {}
    func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {}
    func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}
    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { .cancelled }
}

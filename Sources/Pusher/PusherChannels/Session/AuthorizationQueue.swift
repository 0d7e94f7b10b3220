import RealtimeCore

/// The authorizations that are running, and the channels that wait to start one.
///
/// At most ``limit`` requests run at the same time, because each may be an HTTP request on its own connection: after a reconnect, a thousand
/// private channels would otherwise cause a thousand connections. An authorizer without a limit of its own starts all of them immediately.
///
/// A request authorizes one channel or, if the endpoint allows it, a batch: all channels that start within a step of the session, up to
/// ``batchLimit``. The session takes the batches with ``takeBatches()`` at the end of the step.
struct AuthorizationQueue: Sendable {
    static let limit = 10
    static let batchLimit = 100

    /// Channels to authorize with one request.
    struct Batch: Sendable {
        struct Member: Sendable {
            var work: WorkID
            var channel: ChannelID
        }

        var id: WorkID
        var members: [Member]
    }

    /// The request of each authorization: its batch, or the authorization itself.
    private var running: [WorkID: WorkID] = [:]
    /// The number of running authorizations of each batch.
    private var batchSizes: [WorkID: Int] = [:]
    /// The batches of the current step.
    private var collected: [Batch] = []
    /// The waiting channels in order, and channels that were removed since.
    private var order = FIFO<ChannelID>()
    private var waiting: Set<ChannelID> = []

    var runningCount: Int { self.running.count }
    var waitingCount: Int { self.waiting.count }
    var hasBatches: Bool { !self.collected.isEmpty }
    private var requestCount: Int { self.batchSizes.reduce(self.running.count) { $0 - $1.value + 1 } }

    /// Whether a channel can join the last batch of the current step.
    private var canJoin: Bool { self.collected.last.map { $0.members.count < Self.batchLimit } ?? false }

    /// Starts an authorization, or enqueues the channel if too many are running.
    ///
    /// - Parameters:
    ///   - channel: The channel.
    ///   - isBatched: Whether the request may authorize other channels as well.
    ///   - isLimited: Whether the limit applies.
    /// - Returns: The ID of the authorization, or `nil` if the channel was enqueued or is enqueued already.
    mutating func start(_ channel: ChannelID, isBatched: Bool = false, isLimited: Bool = true, _ work: inout SessionWork) -> WorkID? {
        guard !isLimited || self.requestCount < Self.limit || (isBatched && self.canJoin) else {
            if self.waiting.insert(channel).inserted { self.order.append(channel) }
            return nil
        }
        let id = work.reserve(for: .authorization(channel))
        self.running[id] = isBatched ? self.join(id, channel, &work) : id
        return id
    }

    /// Adds an authorization to a batch.
    ///
    /// - Returns: The ID of the batch.
    private mutating func join(_ id: WorkID, _ channel: ChannelID, _ work: inout SessionWork) -> WorkID {
        if !self.canJoin { self.collected.append(Batch(id: work.reserve(for: .batch), members: [])) }
        let last = self.collected.count - 1
        self.collected[last].members.append(Batch.Member(work: id, channel: channel))
        self.batchSizes[self.collected[last].id, default: 0] += 1
        return self.collected[last].id
    }

    /// Removes the batches of the current step, without the authorizations that were cancelled within the step.
    mutating func takeBatches() -> [Batch] {
        guard !self.collected.isEmpty else { return [] }
        defer { self.collected = [] }
        return self.collected.compactMap { batch in
            let members = batch.members.filter { self.running[$0.work] != nil }
            return members.isEmpty ? nil : Batch(id: batch.id, members: members)
        }
    }

    /// Removes an authorization that has finished.
    ///
    /// - Returns: Its channel, or `nil` if the authorization is not running.
    mutating func finish(_ id: WorkID, _ work: inout SessionWork) -> ChannelID? {
        guard let request = self.running.take(id), case .authorization(let channel) = work.take(id) else { return nil }
        guard let size = self.batchSizes[request] else { return channel }
        if size > 1 {
            self.batchSizes[request] = size - 1
        } else {
            _ = self.batchSizes.take(request)
            _ = work.take(request)
        }
        return channel
    }

    /// Removes an authorization whose result is no longer needed.
    ///
    /// - Returns: The request to cancel, or `nil` if there is none, or other channels still need it.
    mutating func cancel(_ id: WorkID, _ work: inout SessionWork) -> WorkID? {
        guard let request = self.running[id], self.finish(id, &work) != nil else { return nil }
        let isNeeded = self.batchSizes[request] != nil || self.collected.contains { $0.id == request }
        return isNeeded ? nil : request
    }

    /// Removes the next waiting channel if it can start.
    mutating func dequeue() -> ChannelID? {
        guard !self.waiting.isEmpty, self.requestCount < Self.limit || self.canJoin else { return nil }
        while let channel = self.order.popFirst() {
            if self.waiting.remove(channel) != nil {
                if self.waiting.isEmpty { self.removeAllWaiting() }
                return channel
            }
        }
        return nil
    }

    /// Removes a channel from the queue.
    mutating func remove(_ channel: ChannelID) {
        if self.waiting.remove(channel) != nil, self.waiting.isEmpty { self.removeAllWaiting() }
    }

    /// Also releases the memory, which an idle connection does not need.
    mutating func removeAllWaiting() {
        self.order.removeAll()
        self.waiting = []
    }
}

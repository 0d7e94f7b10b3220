import RealtimeCore

/// The authorizations that are running, and the channels that wait to start one.
///
/// At most ``limit`` authorizations run at the same time, because each may be an HTTP request on its own connection: after a
/// reconnect, a thousand private channels would otherwise cause a thousand connections.
struct AuthorizationQueue: Sendable {
    static let limit = 10

    private var running: [WorkID: ChannelID] = [:]
    /// The waiting channels in order, and channels that were removed since.
    private var order: ArraySlice<ChannelID> = []
    private var waiting: Set<ChannelID> = []
    private var lastWork: UInt64 = 0

    var runningCount: Int { self.running.count }
    var waitingCount: Int { self.waiting.count }

    /// Starts an authorization, or enqueues the channel if too many are running.
    ///
    /// - Returns: The ID of the authorization, or `nil` if the channel was enqueued or is enqueued already.
    mutating func start(_ channel: ChannelID) -> WorkID? {
        guard self.running.count < Self.limit else {
            if self.waiting.insert(channel).inserted { self.order.append(channel) }
            return nil
        }
        self.lastWork += 1
        let work = WorkID(rawValue: self.lastWork)
        self.running[work] = channel
        return work
    }

    /// Removes an authorization that has finished or was cancelled.
    ///
    /// - Returns: Its channel, or `nil` if the authorization is not running.
    mutating func finish(_ work: WorkID) -> ChannelID? { self.running.take(work) }

    /// Removes the next waiting channel if fewer authorizations than the limit are running.
    mutating func dequeue() -> ChannelID? {
        guard self.running.count < Self.limit else { return nil }
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
    mutating func removeAllWaiting() { (self.order, self.waiting) = ([], []) }
}

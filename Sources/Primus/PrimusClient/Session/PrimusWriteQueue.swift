import PrimusWire
package import RealtimeCore

/// The messages that wait for a connection, or for a server that reads slowly.
package struct PrimusWriteQueue: Sendable {
    package struct Entry: Sendable {
        package var content: PrimusContent
        /// The caller that waits until the message is sent.
        package var waiter: WaiterID?
        /// Whether the message isn't sent on another connection, but fails with the current one.
        package var isBound = false
        /// The caller of a plugin that waits for the answer to the message.
        package var pluginCaller: WaiterID?

        package init(content: PrimusContent, waiter: WaiterID? = nil, isBound: Bool = false, pluginCaller: WaiterID? = nil) {
            (self.content, self.waiter, self.isBound, self.pluginCaller) = (content, waiter, isBound, pluginCaller)
        }
    }

    private var entries = FIFO<Entry>()
    private var waiters = WaitingCalls()

    package init() {}

    package var count: Int { self.entries.count }
    package var isEmpty: Bool { self.entries.isEmpty }
    package var waiterCount: Int { self.waiters.count }

    /// The result of adding a message.
    package enum Added {
        case added
        /// The message that was dropped in favor of the new one.
        case dropped(Entry)
        /// The new message isn't added.
        case refused(PrimusError)
    }

    /// Adds a message, if the policy permits it.
    ///
    /// - Parameter exempt: The number of messages at the beginning that the limit doesn't count.
    package mutating func add(_ entry: Entry, _ policy: PrimusQueuePolicy, exempt: Int = 0) -> Added {
        var dropped: Entry?
        if self.entries.count - exempt >= policy.limit {
            switch policy {
            case .dropOldest(let limit) where limit > 0: dropped = self.remove(at: exempt)
            case .dropOldest, .dropNewest:
                return .refused(
                    PrimusError(.dropped, "The message was dropped: \(policy.limit) messages wait for a connection already."))
            case .refuse:
                return .refused(
                    PrimusError(
                        .queueFull,
                        "The message wasn't sent: \(policy.limit) messages wait for a connection already. Wait until the client is open."))
            }
        }
        self.append(entry)
        return dropped.map { .dropped($0) } ?? .added
    }

    /// Adds a message without regard to a limit.
    mutating func append(_ entry: Entry) {
        self.entries.append(entry)
        if let waiter = entry.waiter { self.waiters.insert(waiter) }
    }

    /// Moves the messages of another queue in front of those of this one.
    mutating func prepend(_ other: inout PrimusWriteQueue) {
        if other.isEmpty { return }
        while let entry = self.popFirst() { other.append(entry) }
        self = other.takeAll()
    }

    private mutating func remove(at position: Int) -> Entry? {
        if position == 0 { return self.popFirst() }
        var index = -1
        let entry = self.entries.removeFirst { _ in
            index += 1
            return index == position
        }
        if let waiter = entry?.waiter { self.waiters.remove(waiter) }
        return entry
    }

    /// Removes all messages with their callers.
    package mutating func takeAll() -> PrimusWriteQueue {
        var queue = PrimusWriteQueue()
        swap(&queue, &self)
        return queue
    }

    package mutating func popFirst() -> Entry? {
        guard let entry = self.entries.popFirst() else { return nil }
        if let waiter = entry.waiter { self.waiters.remove(waiter) }
        return entry
    }

    /// Removes the message of a caller that no longer waits.
    ///
    /// - Returns: Its position; `nil` if the caller has none.
    @discardableResult
    package mutating func remove(_ waiter: WaiterID) -> Int? {
        guard self.waiters.remove(waiter) else { return nil }
        var position = -1
        let entry = self.entries.removeFirst { entry in
            position += 1
            return entry.waiter == waiter
        }
        return entry == nil ? nil : position
    }

    /// Fails the callers that wait, whose messages are removed. The others stay.
    mutating func failWaiting(_ error: PrimusError, _ effects: inout Effects<PrimusSession>) {
        guard !self.waiters.isEmpty else { return }
        self.entries.removeAll { $0.waiter != nil }
        if self.entries.isEmpty { self.entries.removeAll() }
        self.waiters.resumeAll(.failure(error), &effects)
    }

    /// Removes the messages that must not be sent on another connection, and fails the callers that wait for them. The others stay.
    mutating func failBound(_ error: PrimusError, _ effects: inout Effects<PrimusSession>) {
        guard self.entries.all.contains(where: \.isBound) else { return }
        for entry in self.entries.all where entry.isBound {
            if let waiter = entry.waiter, self.waiters.remove(waiter) { effects.resume(waiter, .failure(error)) }
        }
        self.entries.removeAll { $0.isBound }
        if self.entries.isEmpty { self.entries.removeAll() }
    }

    /// Removes all messages, and fails the callers that wait.
    mutating func failAll(_ error: PrimusError, _ effects: inout Effects<PrimusSession>) {
        self.entries.removeAll()
        self.waiters.resumeAll(.failure(error), &effects)
    }

    /// Removes all messages without a caller that waits.
    ///
    /// - Returns: Their number.
    package mutating func removeWithoutWaiters() -> Int {
        let count = self.entries.count
        self.entries.removeAll { $0.waiter == nil && $0.pluginCaller == nil }
        if self.entries.isEmpty { self.entries.removeAll() }
        return count - self.entries.count
    }
}

import RealtimeCore

/// The subscriptions that await the server's answers, and those that wait to be sent because the server limits the rate of messages.
///
/// Without such a limit, each subscription is sent immediately. A server with one either rejects what exceeds it or ends the connection.
/// The rejected subscriptions then wait for a pause, after which one of them is sent. When it is confirmed, the others follow at intervals;
/// when it is rejected as well, the next pause is twice as long. The interval is that of the subscriptions which were confirmed within the
/// second before the rejection, with a reserve.
///
/// A server answers in order, and its errors name no channel: an error rejects the oldest subscription that awaits its answer. If that one is
/// confirmed nevertheless, the next one was meant.
///
/// While no subscription awaits an answer and no limit is known, it has no memory of its own.
struct SubscriptionQueue: Sendable {
    private struct Entry: Sendable {
        var message: TransportMessage
        var number: UInt64
        var isSent: Bool
    }

    private struct Position: Sendable {
        var channel: ChannelID
        var number: UInt64
    }

    /// The limit of the server, as far as it is known.
    private struct Pace: Sendable {
        /// The interval as long as nothing is known about the limit.
        static let initialInterval: Int64 = second / 8
        static let maximumInterval: Int64 = 4 * second
        /// A second, with a reserve for the server's clock and delays of the network.
        static let initialPause: Int64 = 1_100_000_000
        static let maximumPause: Int64 = 64 * second

        /// The state of the first subscription after a pause, whose answer the others await.
        enum Trial: Hashable, Sendable { case none, waiting, sent(ChannelID) }

        /// The time between two subscriptions.
        var interval: Int64
        /// When the next subscription may be sent.
        var next: Instant
        /// The length of the next pause.
        var pause = Self.initialPause
        var trial = Trial.none
        var isNew = true
        /// Whether the server has ended a connection without naming a limit.
        var isPresumed = false

        /// Returns the interval with which a second has four fifths of the subscriptions that were confirmed in one.
        static func interval(for confirmations: Int) -> Int64 { second * 5 / 4 / Int64(confirmations) }
    }

    private struct Contents: Sendable {
        private(set) var entries: [ChannelID: Entry] = [:]
        private(set) var waitingCount = 0
        /// The sent subscriptions, oldest first, and some that have been answered.
        private var sent = FIFO<Position>()
        /// The subscriptions that wait, oldest first, and some that don't anymore.
        private var waiting = FIFO<Position>()
        private var lastNumber: UInt64 = 0
        /// The number of confirmations since a time, at most a second ago.
        private var confirmations = 0
        private var countedSince = Instant(nanoseconds: 0)
        /// When the last subscription was confirmed.
        private var lastConfirmation: Instant?
        var pace: Pace?

        init(pace: Pace? = nil) {
            self.pace = pace
        }

        /// Whether a subscription may be sent before those that wait.
        func maySend(now: Instant) -> Bool {
            guard let pace else { return true }
            if case .sent = pace.trial { return false }
            return self.waitingCount == 0 && pace.next <= now
        }

        mutating func insert(_ channel: ChannelID, _ message: TransportMessage, isSent: Bool, now: Instant) {
            self.lastNumber += 1
            self.entries[channel] = Entry(message: message, number: self.lastNumber, isSent: isSent)
            let position = Position(channel: channel, number: self.lastNumber)
            guard isSent else {
                self.waiting.append(position)
                self.waitingCount += 1
                return
            }
            self.sent.append(position)
            guard var pace else { return }
            pace.next = now + pace.interval
            if pace.trial == .waiting { pace.trial = .sent(channel) }
            self.pace = pace
        }

        @discardableResult
        mutating func remove(_ channel: ChannelID) -> Entry? {
            guard let entry = self.entries.take(channel) else { return nil }
            if !entry.isSent { self.waitingCount -= 1 }
            if self.pace?.trial == .sent(channel) { self.pace?.trial = .none }
            while let first = self.sent.first, !self.isCurrent(first, isSent: true) { _ = self.sent.popFirst() }
            return entry
        }

        private func isCurrent(_ position: Position, isSent: Bool) -> Bool {
            self.entries[position.channel].map { $0.number == position.number && $0.isSent == isSent } ?? false
        }

        /// Removes the oldest subscription that waits.
        mutating func takeWaiting() -> (channel: ChannelID, message: TransportMessage)? {
            while let position = self.waiting.popFirst() {
                guard self.isCurrent(position, isSent: false), let entry = self.remove(position.channel) else { continue }
                return (position.channel, entry.message)
            }
            return nil
        }

        /// The oldest subscription that awaits its answer.
        var oldestSent: ChannelID? { self.sent.first?.channel }

        /// Lets a subscription that was sent wait to be sent again.
        mutating func sendAgain(_ channel: ChannelID, now: Instant) {
            guard let entry = self.remove(channel) else { return }
            self.insert(channel, entry.message, isSent: false, now: now)
        }

        mutating func countConfirmation(now: Instant) {
            if self.countedSince + second <= now { (self.countedSince, self.confirmations) = (now, 0) }
            self.confirmations += 1
            self.lastConfirmation = now
        }

        /// Whether the server confirmed a subscription shortly before.
        func wasConfirming(now: Instant) -> Bool { self.lastConfirmation.map { $0 + Pace.maximumInterval + second > now } ?? false }

        /// The interval that follows from the confirmations within the last second, if there were some.
        func observedInterval(now: Instant) -> Int64? {
            let confirmations = self.recentConfirmations(now: now)
            return confirmations > 0 ? Pace.interval(for: confirmations) : nil
        }

        /// The number of confirmations within the last second.
        private func recentConfirmations(now: Instant) -> Int { self.countedSince + second > now ? self.confirmations : 0 }

        /// Begins a pause, or extends the current one.
        ///
        /// - Parameter isTrial: Whether the first subscription after a pause was rejected.
        /// - Returns: Whether a pause has begun.
        mutating func pause(isTrial: Bool, now: Instant) -> Bool {
            guard var pace else {
                self.pace = Pace(interval: self.observedInterval(now: now) ?? Pace.initialInterval, next: now)
                return self.pause(isTrial: false, now: now)
            }
            defer { self.pace = pace }
            pace.isPresumed = false
            guard pace.trial != .waiting else {
                pace.next = now + pace.pause / 2
                return false
            }
            if !isTrial, !pace.isNew {
                pace.interval = self.observedInterval(now: now) ?? min(2 * pace.interval, Pace.maximumInterval)
            }
            (pace.trial, pace.isNew) = (.waiting, false)
            pace.next = now + pace.pause
            pace.pause = min(2 * pace.pause, Pace.maximumPause)
            return true
        }
    }

    @Boxed private var contents: Contents?

    // MARK: Lookup

    /// The position of a subscription that awaits its answer among the others.
    func number(of channel: ChannelID) -> UInt64? {
        self.contents?.entries[channel].flatMap { $0.isSent ? $0.number : nil }
    }

    /// Whether a subscription waits to be sent.
    func isWaiting(_ channel: ChannelID) -> Bool { self.contents?.entries[channel]?.isSent == false }

    /// When the next waiting subscription may be sent.
    var nextDeadline: Instant? {
        guard let contents, contents.waitingCount > 0, let pace = contents.pace else { return nil }
        if case .sent = pace.trial { return nil }
        return pace.next
    }

    // MARK: Sending

    /// Adds a subscription.
    ///
    /// - Returns: Whether to send it now.
    mutating func add(_ channel: ChannelID, _ message: TransportMessage, now: Instant) -> Bool {
        var contents = self.contents.take() ?? Contents()
        defer { self.contents = contents }
        contents.remove(channel)
        let isSent = contents.maySend(now: now)
        contents.insert(channel, message, isSent: isSent, now: now)
        return isSent
    }

    /// Takes the next waiting subscription, if it may be sent now.
    mutating func takeDue(now: Instant) -> (channel: ChannelID, message: TransportMessage)? {
        guard let deadline = self.nextDeadline, deadline <= now, var contents = self.contents.take() else { return nil }
        defer { self.contents = contents }
        guard let due = contents.takeWaiting() else { return nil }
        contents.insert(due.channel, due.message, isSent: true, now: now)
        return due
    }

    // MARK: Answers

    /// The server has confirmed a subscription.
    ///
    /// - Returns: Another one that was rejected in its place, and now waits.
    mutating func confirmed(_ channel: ChannelID, now: Instant) -> ChannelID? {
        guard var contents = self.contents.take() else { return nil }
        defer { self.keep(contents) }
        let wasRejected = contents.remove(channel)?.isSent == false
        contents.countConfirmation(now: now)
        contents.pace?.pause = Pace.initialPause
        guard wasRejected, let other = contents.oldestSent else { return nil }
        contents.sendAgain(other, now: now)
        return other
    }

    /// A subscription has ended: it failed, or the channel was unsubscribed.
    mutating func remove(_ channel: ChannelID) {
        guard self.contents?.entries[channel] != nil, var contents = self.contents.take() else { return }
        contents.remove(channel)
        self.keep(contents)
    }

    /// The server has rejected a message because of its limit.
    ///
    /// - Parameter named: The channel that the server has named, if any.
    /// - Returns: The subscription that now waits, and whether a pause has begun; `nil` if none awaits its answer.
    mutating func rejected(_ named: ChannelID?, now: Instant) -> (channel: ChannelID, pauseBegins: Bool)? {
        guard var contents = self.contents.take() else { return nil }
        defer { self.keep(contents) }
        let isNamed = named.map { contents.entries[$0]?.isSent == true } ?? false
        guard let channel = isNamed ? named : contents.oldestSent else { return nil }
        let isTrial = contents.pace?.trial == .sent(channel)
        contents.sendAgain(channel, now: now)
        return (channel, contents.pause(isTrial: isTrial, now: now))
    }

    // MARK: The connection

    /// The connection has ended. Its subscriptions are sent again on the next one.
    ///
    /// - Parameter isByPeer: Whether the server has ended it, and named no other reason.
    /// - Returns: Whether the server has probably ended it because of a limit: some subscriptions were confirmed, and others weren't.
    mutating func connectionEnded(isByPeer: Bool, now: Instant) -> Bool {
        guard let contents = self.contents.take() else { return false }
        let isLimit = isByPeer && contents.wasConfirming(now: now) && contents.entries.count > contents.waitingCount
        if isLimit {
            let known = contents.pace.map { min(2 * $0.interval, Pace.maximumInterval) }
            let interval = known ?? contents.observedInterval(now: now) ?? Pace.initialInterval
            let isPresumed = contents.pace?.isPresumed ?? true
            self.contents = Contents(pace: Pace(interval: interval, next: now, isNew: false, isPresumed: isPresumed))
        } else if let pace = contents.pace, !pace.isPresumed || !contents.entries.isEmpty {
            self.contents = Contents(pace: Pace(interval: pace.interval, next: now, isNew: false, isPresumed: pace.isPresumed))
        }
        return isLimit
    }

    /// Another server may have another limit.
    mutating func forgetLimit() { self.contents?.pace = nil }

    private mutating func keep(_ contents: Contents) {
        self.contents = contents.entries.isEmpty && contents.pace == nil ? nil : contents
    }
}

private let second: Int64 = 1_000_000_000

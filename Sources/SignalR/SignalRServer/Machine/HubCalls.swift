import RealtimeCore
import RealtimeSystem
import SignalRWire

/// An invocation that hasn't started.
struct PendingCall: Sendable {
    let call: HubCall
    let invocation: HubInvocation
    let isStreaming: Bool
    /// Whether other calls don't wait for this one.
    var isConcurrent: Bool { self.isStreaming || !self.invocation.streamIDs.isEmpty }
    var size: Int { self.invocation.arguments.bytes.count + SignalRServerMachine.itemOverhead }
}

/// A call that has started and hasn't ended.
struct RunningCall: Sendable {
    let call: HubCall
    let invocationID: ByteString?
    let target: String
    let streamIDs: [String]
    let isStreaming: Bool
    let occupiesSlot: Bool

    /// A call of a handler of the connection's beginning.
    init(_ call: HubCall) {
        (self.call, self.invocationID, self.target, self.streamIDs) = (call, nil, "", [])
        (self.isStreaming, self.occupiesSlot) = (false, false)
    }

    init(_ pending: PendingCall) {
        self.call = pending.call
        self.invocationID = pending.invocation.id.map { ByteString($0) }
        (self.target, self.streamIDs) = (pending.invocation.target, pending.invocation.streamIDs)
        (self.isStreaming, self.occupiesSlot) = (pending.isStreaming, !pending.isConcurrent)
    }
}

/// The calls of the application's code for one connection: which wait, and which run.
///
/// They start in the order of their messages. A call occupies one of the connection's slots until it ends, unless it streams.
struct HubCalls: Sendable {
    private var queue = FIFO<PendingCall>()
    /// The size of the invocations that wait.
    private(set) var queuedBytes = 0
    /// The calls that have started, by their numbers.
    private var running: [UInt64: RunningCall] = [:]
    /// The calls that the client can cancel, waiting or running, by the IDs of their invocations.
    private var invocationIDs: [ByteString: UInt64] = [:]
    private var occupiedSlots = 0
    /// The number of streaming calls, waiting or running.
    private(set) var streamingCount = 0
    /// Whether the handler of the connection's beginning has returned. Methods aren't called before.
    private(set) var isReady = false

    /// The number of invocations that wait.
    var queuedCount: Int { self.queue.count }
    var isEmpty: Bool { self.running.isEmpty && self.queue.isEmpty }
    /// The calls that have started, in the order of their numbers.
    var runningCalls: [HubCall] { self.running.values.map(\.call).sorted { $0.number < $1.number } }

    func isInUse(_ invocationID: ByteString) -> Bool { self.invocationIDs[invocationID] != nil }

    func isRunning(_ number: UInt64) -> Bool { self.running[number] != nil }

    mutating func append(_ pending: PendingCall) {
        if let invocationID = pending.invocation.id { self.invocationIDs[ByteString(invocationID)] = pending.call.number }
        if pending.isStreaming { self.streamingCount += 1 }
        self.queuedBytes += pending.size
        self.queue.append(pending)
    }

    /// Removes the next call from those that wait and starts it, if it can start.
    ///
    /// - Parameter slots: The number of calls that run at the same time, apart from those that stream.
    mutating func startNext(slots: Int) -> PendingCall? {
        guard self.isReady, let next = self.queue.first, next.isConcurrent || self.occupiedSlots < slots else { return nil }
        _ = self.queue.popFirst()
        self.queuedBytes -= next.size
        self.start(RunningCall(next))
        return next
    }

    mutating func start(_ call: RunningCall) {
        self.running[call.call.number] = call
        if call.occupiesSlot { self.occupiedSlots += 1 }
    }

    /// The application's code has returned.
    ///
    /// - Returns: The call, or `nil` if it wasn't running.
    mutating func ended(_ number: UInt64) -> RunningCall? {
        guard let call = self.running.removeValue(forKey: number) else { return nil }
        if call.occupiesSlot { self.occupiedSlots -= 1 }
        if call.isStreaming { self.streamingCount -= 1 }
        if let invocationID = call.invocationID { self.invocationIDs[invocationID] = nil }
        return call
    }

    /// The handler of the connection's beginning has returned.
    mutating func becomeReady() { self.isReady = true }

    enum Cancellation: Sendable {
        case running(HubCall)
        /// The call was removed.
        case waiting(PendingCall)
    }

    /// Returns the call that a client cancels, and removes it if it waits; `nil` if there is none.
    mutating func cancel(_ invocationID: ByteString) -> Cancellation? {
        guard let number = self.invocationIDs[invocationID] else { return nil }
        if let running = self.running[number] { return .running(running.call) }
        guard let waiting = self.queue.removeFirst(where: { $0.call.number == number }) else { return nil }
        self.forget(waiting)
        return .waiting(waiting)
    }

    /// Removes calls that wait.
    mutating func removeWaiting(where condition: (PendingCall) -> Bool = { _ in true }) {
        for pending in self.queue.all where condition(pending) { self.forget(pending) }
        self.queue.removeAll(where: condition)
    }

    private mutating func forget(_ waiting: PendingCall) {
        self.queuedBytes -= waiting.size
        if waiting.isStreaming { self.streamingCount -= 1 }
        if let invocationID = waiting.invocation.id { self.invocationIDs[ByteString(invocationID)] = nil }
    }
}

/// Who waits until a slow reader has room again, to be kept under the reader's lock.
package struct WaitingSenders: Sendable {
    /// One wait, known to who waits and to who takes it back.
    package final class ID: Sendable {
        package init() {}
    }

    private var all: [ObjectIdentifier: WakeUp] = [:]

    package init() {}

    package var isEmpty: Bool { self.all.isEmpty }

    package mutating func add(_ id: ID, _ wakeUp: WakeUp) { self.all[ObjectIdentifier(id)] = wakeUp }

    package mutating func take(_ id: ID) -> WakeUp? { self.all.removeValue(forKey: ObjectIdentifier(id)) }

    /// All of them, to be woken outside the lock: each looks again whether there is room.
    package mutating func takeAll() -> [WakeUp] {
        guard !self.all.isEmpty else { return [] }
        defer { self.all = [:] }
        return Array(self.all.values)
    }
}

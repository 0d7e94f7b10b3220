/// The work that a session machine has started and that hasn't finished, each with its purpose.
///
/// The purpose comes back with the result, so that a machine keeps no other record of its work. The result of work that isn't pending any
/// more has no purpose, and is ignored.
package struct PendingWork<Purpose: Sendable>: Sendable {
    private var purposes: [WorkID: Purpose] = [:]
    private var lastID: UInt64 = 0

    package init() {}

    package var count: Int { self.purposes.count }
    package var isEmpty: Bool { self.purposes.isEmpty }

    /// The work that is pending, oldest first.
    package var ids: [WorkID] { self.purposes.keys.sorted() }

    package subscript(id: WorkID) -> Purpose? { self.purposes[id] }

    package func contains(where condition: (Purpose) -> Bool) -> Bool { self.purposes.values.contains(where: condition) }

    /// Emits work for a purpose.
    @discardableResult
    package mutating func start<Machine>(_ work: Machine.Work, for purpose: Purpose, _ effects: inout Effects<Machine>) -> WorkID {
        let id = self.reserve(for: purpose)
        effects.commands.append(.work(id, work))
        return id
    }

    /// Returns the ID of work that is emitted later, or together with other work.
    package mutating func reserve(for purpose: Purpose) -> WorkID {
        self.lastID += 1
        let id = WorkID(rawValue: self.lastID)
        self.purposes[id] = purpose
        return id
    }

    /// Removes work that has finished.
    ///
    /// - Returns: Its purpose, or `nil` if the work isn't pending: it was cancelled.
    package mutating func take(_ id: WorkID) -> Purpose? {
        guard let purpose = self.purposes.removeValue(forKey: id) else { return nil }
        // An empty dictionary keeps its memory.
        if self.purposes.isEmpty { self.purposes = [:] }
        return purpose
    }

    /// Cancels work whose result is no longer needed.
    ///
    /// - Returns: Its purpose, or `nil` if the work isn't pending.
    @discardableResult
    package mutating func cancel<Machine>(_ id: WorkID, _ effects: inout Effects<Machine>) -> Purpose? {
        guard let purpose = self.take(id) else { return nil }
        effects.commands.append(.cancel(id))
        return purpose
    }

    /// Cancels the work whose purpose satisfies a condition, oldest first. It looks at all of it.
    package mutating func cancelAll<Machine>(where condition: (Purpose) -> Bool = { _ in true }, _ effects: inout Effects<Machine>) {
        for id in self.ids where self.purposes[id].map(condition) ?? false { self.cancel(id, &effects) }
    }
}

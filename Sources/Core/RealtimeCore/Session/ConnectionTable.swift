/// The connections of a server's machine by their IDs. A connection is changed in place, without a copy of what it contains.
///
/// It is `@usableFromInline` and its accesses are inlinable, so that they are specialized in the machine's module.
@usableFromInline
package struct ConnectionTable<Connection> {
    @usableFromInline var connections: [ConnectionID: Connection] = [:]

    @inlinable
    package init() {}

    @inlinable package var count: Int { self.connections.count }
    @inlinable package var isEmpty: Bool { self.connections.isEmpty }

    /// The IDs in ascending order, which is the order in which the connections were accepted.
    package var ids: [ConnectionID] { self.connections.keys.sorted() }

    /// The connections, in no particular order.
    @inlinable package var values: Dictionary<ConnectionID, Connection>.Values { self.connections.values }

    /// A copy of a connection; `nil` if there is none with the ID. For reading a few of its properties.
    @inlinable package subscript(id: ConnectionID) -> Connection? { self.connections[id] }

    @inlinable
    package mutating func insert(_ connection: Connection, _ id: ConnectionID) { self.connections[id] = connection }

    /// Removes a connection and returns it; `nil` if there is none with the ID.
    @inlinable
    @discardableResult
    package mutating func remove(_ id: ConnectionID) -> Connection? { self.connections.removeValue(forKey: id) }

    /// Changes a connection in place.
    ///
    /// - Parameters:
    ///   - id: The ID of the connection.
    ///   - change: A closure that changes it.
    /// - Returns: The result of the closure, or `nil` if there is no connection with the ID. The closure isn't called then.
    /// - Throws: The error that the closure throws.
    @inlinable
    @discardableResult
    package mutating func update<Result, Failure: Error>(
        _ id: ConnectionID, _ change: (inout Connection) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard let index = self.connections.index(forKey: id) else { return nil }
        return try change(&self.connections.values[index])
    }

    /// Changes a connection in place with a closure whose result may be `nil`.
    @inlinable
    @discardableResult
    package mutating func update<Result, Failure: Error>(
        _ id: ConnectionID, _ change: (inout Connection) throws(Failure) -> Result?
    ) throws(Failure) -> Result? {
        guard let index = self.connections.index(forKey: id) else { return nil }
        return try change(&self.connections.values[index])
    }
}

extension ConnectionTable: Sendable where Connection: Sendable {}

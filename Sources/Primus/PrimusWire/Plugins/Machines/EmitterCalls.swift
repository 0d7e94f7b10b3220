public import RealtimeCore

/// The events of one side that wait for an acknowledgement.
///
/// Each side of a connection counts its own IDs from 1. The count continues on the next connection: an acknowledgement that belongs to an
/// earlier connection must not be taken for another one.
///
/// - `Call` identifies who waits.
///
/// It is inlinable so that it is specialized in the modules of the client and the server.
@usableFromInline
package struct EmitterCalls<Call: Sendable>: Sendable {
    @usableFromInline var calls = SequentialTable<Call>()
    @usableFromInline var lastID: UInt64 = 0

    @inlinable
    package init() {}

    @inlinable package var count: Int { self.calls.count }
    @inlinable package var isEmpty: Bool { self.calls.isEmpty }

    /// Determines the ID of the next event with an acknowledgement.
    @inlinable
    package mutating func nextID() -> UInt64 {
        self.lastID += 1
        return self.lastID
    }

    /// Begins to wait for an acknowledgement.
    ///
    /// - Parameters:
    ///   - id: The ID of the event, from ``nextID()``.
    ///   - call: Who waits.
    @inlinable
    package mutating func begin(_ id: UInt64, _ call: Call) { self.calls[id] = call }

    /// Ends a wait, because the acknowledgement arrived or the caller has given up.
    ///
    /// - Returns: Who waits; `nil` if the ID is unknown, or its acknowledgement arrived before.
    @inlinable
    package mutating func end(_ id: UInt64) -> Call? { self.calls.take(id) }

    /// Ends a wait with an acknowledgement of the peer.
    ///
    /// - Throws: ``PrimusPluginError/unknown(plugin:_:)`` if no caller waits for the ID, such as after a second acknowledgement, or after the caller
    ///   has given up.
    @inlinable
    package mutating func acknowledged(_ id: Int64) throws(PrimusPluginError) -> Call {
        if let id = UInt64(exactly: id), let call = self.calls.take(id) { return call }
        throw .unknown(plugin: "emitter", "no caller waits for the acknowledgement \(id)")
    }

    /// Ends all waits, for example because the connection was lost.
    ///
    /// - Returns: Who waits, in the order of the IDs.
    @inlinable
    package mutating func endAll() -> [Call] {
        guard !self.calls.isEmpty else { return [] }
        defer { self.calls = SequentialTable() }
        return self.calls.entries.map(\.value)
    }
}

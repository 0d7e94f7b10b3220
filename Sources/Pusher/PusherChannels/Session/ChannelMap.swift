/// Values of channels. A value is found by the slot of its channel, without hashing, and changed in place. Without values, a map allocates
/// no memory.
struct ChannelMap<Value: Sendable>: Sendable {
    private struct Entry: Sendable {
        let id: ChannelID
        /// `nil` only while it is removed.
        var value: Value?
    }

    private var entries: [Entry] = []
    /// The position of each slot's entry plus one, and zero for a slot without an entry.
    private var positions: [UInt32] = []

    var isEmpty: Bool { self.entries.isEmpty }
    /// The values, in no particular order.
    var values: [Value] { self.entries.compactMap(\.value) }

    /// Accesses the value of a channel in place. Assigning `nil` removes it.
    subscript(id: ChannelID) -> Value? {
        @inline(__always) get { self.position(of: id).flatMap { self.entries[$0].value } }
        @inline(__always) _modify {
            guard let position = self.position(of: id) else {
                var value: Value?
                yield &value
                if let value { self.insert(value, for: id) }
                return
            }
            yield &self.entries[position].value
            if self.entries[position].value == nil { self.remove(at: position) }
        }
    }

    /// Accesses the value of a channel in place. A missing one is added first.
    subscript(id: ChannelID, default value: @autoclosure () -> Value) -> Value {
        get { self[id] ?? value() }
        _modify {
            if self.position(of: id) == nil { self.insert(value(), for: id) }
            let position = Int(self.positions[Int(id.slot)]) - 1
            // The entry doesn't share the value meanwhile, so that it isn't copied.
            var changed = self.entries[position].value.take() ?? value()
            defer { self.entries[position].value = changed }
            yield &changed
        }
    }

    @inline(__always)
    private func position(of id: ChannelID) -> Int? {
        guard Int(id.slot) < self.positions.count else { return nil }
        let position = Int(self.positions[Int(id.slot)]) - 1
        return position >= 0 && self.entries[position].id == id ? position : nil
    }

    private mutating func insert(_ value: Value, for id: ChannelID) {
        let slot = Int(id.slot)
        if slot >= self.positions.count { self.positions += [UInt32](repeating: 0, count: slot + 1 - self.positions.count) }
        if self.positions[slot] != 0 {
            // The value of a channel that had the slot before.
            self.entries[Int(self.positions[slot]) - 1] = Entry(id: id, value: value)
        } else {
            self.entries.append(Entry(id: id, value: value))
            self.positions[slot] = UInt32(self.entries.count)
        }
    }

    private mutating func remove(at position: Int) {
        self.positions[Int(self.entries[position].id.slot)] = 0
        let last = self.entries.removeLast()
        if position < self.entries.count {
            self.entries[position] = last
            self.positions[Int(last.id.slot)] = UInt32(position + 1)
        }
        if self.entries.isEmpty { (self.entries, self.positions) = ([], []) }
    }
}

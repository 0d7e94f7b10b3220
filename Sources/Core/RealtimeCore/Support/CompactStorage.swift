/// A dictionary of what there is mostly one of: the first entry lies in place, and only others need memory of their own.
///
/// A client has one connection, often one channel and one listener. With dictionaries for these, an idle connection would be mostly
/// dictionaries of one entry; and comparing with that entry is quicker than hashing.
///
/// `@usableFromInline`, as other generic types here: without it on the type, `@inlinable` members of a type that is not public are
/// not specialised in other modules, and a look-up takes several times as long.
@usableFromInline
package struct SmallDictionary<Key: Hashable, Value> {
    /// Filled when there is no other one, so that a key is in one of the two places only.
    @usableFromInline var first: (key: Key, value: Value)?
    @usableFromInline var others: [Key: Value] = [:]

    @inlinable
    package init() {}

    @inlinable package var isEmpty: Bool { self.first == nil && self.others.isEmpty }

    @inlinable
    package subscript(key: Key) -> Value? {
        get {
            if let first, first.key == key { return first.value }
            return self.others.isEmpty ? nil : self.others[key]
        }
        set {
            if let newValue {
                self.set(key, newValue)
            } else {
                self.removeValue(forKey: key)
            }
        }
    }

    @inlinable
    mutating func set(_ key: Key, _ value: Value) {
        if let first {
            if first.key == key { self.first = (key, value) } else { self.others[key] = value }
        } else if self.others.isEmpty {
            self.first = (key, value)
        } else {
            self.others[key] = value
        }
    }

    @inlinable
    @discardableResult
    package mutating func removeValue(forKey key: Key) -> Value? {
        if let first, first.key == key {
            self.first = nil
            return first.value
        }
        guard let value = self.others.removeValue(forKey: key) else { return nil }
        // What was needed for many is given back.
        if self.others.isEmpty { self.others = [:] }
        return value
    }

    /// In no order.
    package var keys: [Key] { self.entries.map(\.key) }

    /// In no order.
    package var entries: [(key: Key, value: Value)] {
        var entries = self.others.map { (key: $0.key, value: $0.value) }
        if let first { entries.append(first) }
        return entries
    }
}

extension SmallDictionary: Sendable where Key: Sendable, Value: Sendable {}

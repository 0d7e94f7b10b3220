/// A dictionary that usually holds one entry. The first entry is stored inline; only further entries allocate memory.
///
/// A client has one connection, often one channel and one consumer. An idle connection would otherwise consist mostly of dictionaries
/// with one entry, and comparing with the inline key is faster than hashing. It is for the row "idle connection, plain" of
/// `realtime bench idle`, whose goal is 6 KiB.
///
/// `@usableFromInline` on this type and the other generic types of this module: without it, `@inlinable` members of a type that isn't
/// public are not specialized in other modules, and a lookup takes several times as long.
@usableFromInline
package struct SmallDictionary<Key: Hashable, Value> {
    /// Set only while `others` doesn't contain the same key, so that every key is stored once.
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
        // Frees the memory of the last entry, which `removeValue(forKey:)` keeps.
        if self.others.isEmpty { self.others = [:] }
        return value
    }

    package var count: Int { (self.first == nil ? 0 : 1) + self.others.count }

    /// The keys, in no particular order.
    package var keys: [Key] { self.entries.map(\.key) }

    /// The entries, in no particular order.
    package var entries: [(key: Key, value: Value)] {
        var entries = self.others.map { (key: $0.key, value: $0.value) }
        if let first { entries.append(first) }
        return entries
    }
}

extension SmallDictionary: Sendable where Key: Sendable, Value: Sendable {}

extension Dictionary {
    /// Removes a value and returns it. Frees the dictionary's memory with the last value, unlike `removeValue(forKey:)`.
    package mutating func take(_ key: Key) -> Value? {
        let value = self.removeValue(forKey: key)
        if self.isEmpty { self = [:] }
        return value
    }
}

/// A large optional value that is rarely set. It is stored on the heap while it is set, and takes the size of a pointer otherwise.
/// Like ``SmallDictionary``, it is for the memory of idle connections.
@propertyWrapper
@usableFromInline
package enum Boxed<Value> {
    case absent
    indirect case present(Value)

    @inlinable
    package init(wrappedValue: Value?) {
        self = wrappedValue.map { .present($0) } ?? .absent
    }

    @inlinable
    package var wrappedValue: Value? {
        get {
            if case .present(let value) = self { value } else { nil }
        }
        set { self = Self(wrappedValue: newValue) }
    }
}

extension Boxed: Sendable where Value: Sendable {}

/// An immutable value that several owners share instead of copying it.
package final class Shared<Value: Sendable>: Sendable {
    package let value: Value

    package init(_ value: Value) {
        self.value = value
    }
}

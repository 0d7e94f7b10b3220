/// A value that is large and mostly absent. It has a block of memory of its own while it is there, and takes no more than a
/// pointer's room while it is not.
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

extension Dictionary {
    /// Removes a value and returns it. With the last one the memory goes too, which `removeValue(forKey:)` keeps.
    package mutating func take(_ key: Key) -> Value? {
        let value = self.removeValue(forKey: key)
        if self.isEmpty { self = [:] }
        return value
    }
}

/// One copy of a value for all who need it, for as long as one of them does.
package final class Shared<Value: Sendable>: Sendable {
    package let value: Value

    package init(_ value: Value) {
        self.value = value
    }
}

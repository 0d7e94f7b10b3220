/// A change of a state, with the states before and after it.
///
/// Clients have names of their own for this type.
public struct StateChange<State: Hashable & Sendable>: Hashable, Sendable {
    /// The state before the change.
    public let old: State
    /// The state after the change.
    public let new: State

    /// Creates a change, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - old: The state before the change.
    ///   - new: The state after the change.
    public init(old: State, new: State) {
        self.old = old
        self.new = new
    }
}

extension StateChange: CustomStringConvertible {
    /// Both states, such as `connecting -> connected`.
    public var description: String { "\(self.old) -> \(self.new)" }
}

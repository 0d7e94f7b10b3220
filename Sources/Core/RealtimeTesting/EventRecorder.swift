import RealtimeSystem
import RealtimeCore

/// A recorder of values, in order, that a test can check. All members can be used from any thread.
public final class EventRecorder<Element: Sendable>: Sendable {
    private let state = Lock<[Element]>([])

    /// Creates an empty recorder.
    public init() {}

    /// The recorded values.
    public var all: [Element] { self.state.withLock { $0 } }

    /// Appends a value.
    public func record(_ element: Element) { self.state.withLock { $0.append(element) } }

    /// Removes the recorded values and returns them.
    public func take() -> [Element] {
        self.state.withLock { elements in
            defer { elements = [] }
            return elements
        }
    }
}

extension EventRecorder: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("all", self.all)] }
}

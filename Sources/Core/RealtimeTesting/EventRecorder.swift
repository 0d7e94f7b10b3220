import RealtimeSystem
import RealtimeCore

/// Keeps what it is given, in order, for a test to look at. Callable from any thread.
public final class EventRecorder<Element: Sendable>: Sendable {
    private let state = Lock<[Element]>([])

    /// An empty one.
    public init() {}

    /// Everything so far.
    public var all: [Element] { self.state.withLock { $0 } }

    /// Adds one.
    public func record(_ element: Element) { self.state.withLock { $0.append(element) } }

    /// Everything so far; the recorder is empty afterwards.
    public func take() -> [Element] {
        self.state.withLock { elements in
            defer { elements = [] }
            return elements
        }
    }
}

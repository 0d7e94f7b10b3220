package import RealtimeCore

extension EventSequence {
    /// What is there now, without waiting for more: the sequence's end is not needed where everything that was to come has
    /// come. A cancelled task does not wait.
    package func pending() async -> [Element] {
        let task = Task { [self] in
            withUnsafeCurrentTask { $0?.cancel() }
            var elements: [Element] = []
            for await element in self { elements.append(element) }
            return elements
        }
        return await task.value
    }
}

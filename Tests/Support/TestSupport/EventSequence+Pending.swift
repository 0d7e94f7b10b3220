package import RealtimeCore

extension EventSequence {
    /// Returns the buffered events without waiting for more. It iterates in a cancelled task, which doesn't wait.
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

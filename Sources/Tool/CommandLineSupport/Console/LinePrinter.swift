import RealtimeSystem

/// Prints the lines of a command, and of code that must not wait for a slow reader, such as a log sink on the thread of an event loop.
///
/// Such code enqueues its lines. The queue is bounded: when it is full, lines are dropped and counted. It is an actor so that a slow reader
/// blocks one thread only, also while several tasks print.
package actor LinePrinter {
    private struct Queue: Sendable {
        var lines: [Line] = []
        var dropped = 0
    }

    private nonisolated let console: Console
    private nonisolated let limit: Int
    private nonisolated let queue = Lock(Queue())
    private nonisolated let changes: AsyncStream<Void>
    private nonisolated let change: AsyncStream<Void>.Continuation

    /// Creates a printer.
    ///
    /// - Parameters:
    ///   - console: The output.
    ///   - limit: The maximum number of lines that are enqueued.
    package init(_ console: Console, limit: Int = 1024) {
        self.console = console
        self.limit = limit
        (self.changes, self.change) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Enqueues a line without waiting, or drops it if the queue is full. ``printQueue()`` prints it, or the next call that prints.
    package nonisolated func enqueue(_ line: Line) {
        let line = self.console.stamped(line)
        let isFirst = self.queue.withLock { queue in
            guard queue.lines.count < self.limit else {
                queue.dropped += 1
                return false
            }
            queue.lines.append(line)
            return queue.lines.count == 1
        }
        if isFirst { self.change.yield() }
    }

    /// Prints the lines that are enqueued, and then a line.
    package func print(_ line: Line) {
        self.flush()
        self.console.print(line)
    }

    /// Prints the lines that are enqueued, and then a line for human readers.
    package func printNote(_ span: Line.Span) {
        self.flush()
        self.console.printNote(span)
    }

    /// Prints the lines that are enqueued, and how many were dropped.
    package func flush() {
        let queue = self.queue.withLock { queue in
            defer { queue = Queue() }
            return queue
        }
        for line in queue.lines { self.console.print(line) }
        if queue.dropped > 0 {
            let lines = queue.dropped == 1 ? "1 line is" : "\(queue.dropped) lines are"
            self.console.print(.error("\(lines) missing here, because the output is read too slowly."))
        }
    }

    /// Prints the lines as they are enqueued, until the task is cancelled. Only one task may call it.
    package func printQueue() async {
        for await _ in self.changes { self.flush() }
    }

    /// Runs an operation, and prints the lines that are enqueued while it runs.
    package nonisolated func printingQueue<Value>(_ operation: () async -> Value) async -> Value {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.printQueue() }
            defer { group.cancelAll() }
            return await operation()
        }
    }
}

import RealtimeSystem

/// What the process ends with.
package enum ToolStatus: Int32, Sendable {
    case done = 0
    case failed = 1
    case wrongUsage = 2
}

/// A command under way, and what may end it early: a signal, or that nobody reads its output any more.
package struct CommandRun {
    private enum Event: Sendable {
        case finished(ToolFailure?)
        case stopped
        case cancelled
    }

    package let command: any Command
    package let console: Console
    package let signals: Signals

    package init(command: any Command, console: Console, signals: Signals) {
        self.command = command
        self.console = console
        self.signals = signals
    }

    package func callAsFunction() async -> ToolStatus {
        // A task of its own, since it alone is cancelled while those who watch it go on; it is awaited below.
        let work = Task { [command, console] in await Self.outcome(of: command, console) }
        let (failure, wasStopped) = await withTaskGroup(of: Event.self) { group in
            group.addTask { .finished(await work.value) }
            group.addTask { [console] in await console.outputEnded() == nil ? .cancelled : .stopped }
            group.addTask { [signals] in await signals.first() == nil ? .cancelled : .stopped }
            var wasStopped = false
            while let event = await group.next() {
                switch event {
                case .finished(let failure):
                    group.cancelAll()
                    return (failure, wasStopped)
                case .stopped:
                    wasStopped = true
                    work.cancel()
                case .cancelled: continue
                }
            }
            preconditionFailure("the command ended without an outcome")
        }
        return Self.status(self.console, failure, wasStopped: wasStopped)
    }

    /// What a command ends with that has said all it had to say; whoever waits is told why it failed.
    package static func status(_ console: Console, _ failure: ToolFailure?, wasStopped: Bool = false) -> ToolStatus {
        if case .failed(let code) = console.outputEnding {
            console.complain("The output cannot be written (\(String(cString: strerror(code)))).")
            return .failed
        }
        if console.outputEnding == .nobodyReads { return .done }
        guard let failure else { return .done }
        // Whoever stopped it needs no explanation.
        if wasStopped { return .failed }
        if console.isJSON { console.say(.error(failure.sentence)) }
        console.complain(failure.sentence)
        return .failed
    }

    private static func outcome(of command: any Command, _ console: Console) async -> ToolFailure? {
        do throws(ToolFailure) {
            try await command.run(console)
            return nil
        } catch {
            return error
        }
    }
}

import RealtimeSystem

/// One run of a command, which a signal or the loss of its output's reader ends early.
struct CommandRun {
    private enum Event: Sendable {
        case finished(ToolFailure?)
        case interrupted
        case cancelled
    }

    let command: any Command
    let console: Console
    let signals: Signals

    /// Runs the command until it returns, prints its failure if there is one, and returns the exit status.
    func callAsFunction() async -> ToolExitStatus {
        // A separate task, because only the command is cancelled while the watching tasks continue. It is awaited below.
        let work = Task { [command, console] in await Self.failure(of: command, console) }
        let (failure, wasInterrupted) = await withTaskGroup(of: Event.self) { group in
            group.addTask { .finished(await work.value) }
            group.addTask { [console] in await console.waitForOutputFailure() == nil ? .cancelled : .interrupted }
            group.addTask { [signals] in await signals.waitForFirst() == nil ? .cancelled : .interrupted }
            var wasInterrupted = false
            while let event = await group.next() {
                switch event {
                case .finished(let failure):
                    group.cancelAll()
                    return (failure, wasInterrupted)
                case .interrupted:
                    wasInterrupted = true
                    work.cancel()
                case .cancelled: continue
                }
            }
            preconditionFailure("the command's task always finishes")
        }
        return Self.status(self.console, failure, wasInterrupted: wasInterrupted)
    }

    /// Returns the exit status of a command that has finished, and prints why it failed.
    static func status(_ console: Console, _ failure: ToolFailure?, wasInterrupted: Bool = false) -> ToolExitStatus {
        switch console.outputFailure {
        case .system(let code):
            console.printError("Cannot write to standard output: \(String(cString: strerror(code))).")
            return .failure
        case .brokenPipe: return .success
        case nil: break
        }
        guard let failure else { return .success }
        // The user interrupted the command and knows why it ended.
        if wasInterrupted { return .failure }
        if console.isJSON { console.print(.error(failure.message, code: failure.code)) }
        // Where both outputs lead to the same place, the failure appears once.
        if !console.isJSON || !console.mixesErrors { console.printError(failure.message) }
        return .failure
    }

    private static func failure(of command: any Command, _ console: Console) async -> ToolFailure? {
        do throws(ToolFailure) {
            try await command.run(console)
            return nil
        } catch {
            return error
        }
    }
}

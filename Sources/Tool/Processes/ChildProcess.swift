import RealtimeSystem

/// Another program, started and talked to by the tool's benchmarks and by the tests.
///
/// It gets pipes for its input and its output, no blocked signal, and no other descriptor of ours. Its calls wait, and so
/// block their thread. One thread may read while another writes; two must not read the same pipe.
package final class ChildProcess: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    /// Where its standard error goes.
    package enum Errors: Sendable {
        /// To ours.
        case shared
        case discarded
        /// To ``readErrors()``.
        case kept
    }

    package let id: Int32
    private let input: PipeEnd
    private let output: PipeEnd
    private let errors: PipeEnd?

    /// This very program.
    package static var ownPath: String {
        #if os(Linux)
        "/proc/self/exe"
        #else
        CommandLine.arguments[0]
        #endif
    }

    /// - Parameters:
    ///   - words: the program, looked for in `PATH` when it has no slash, and its arguments.
    ///   - errors: where its standard error goes.
    ///   - writesToTerminal: its output is a terminal's, as when a person started it.
    package init(_ words: [String], errors: Errors = .shared, writesToTerminal: Bool = false) throws(Failure) {
        let (input, output) = (try PipeEnd.pair(), try writesToTerminal ? PipeEnd.terminal() : PipeEnd.pair())
        let kept = errors == .kept ? try PipeEnd.pair() : nil
        defer { for end in [input.theirs, output.theirs, kept?.theirs ?? -1] where end >= 0 { closeDescriptor(end) } }
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        #else
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input.theirs, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, output.theirs, STDOUT_FILENO)
        if let kept { posix_spawn_file_actions_adddup2(&actions, kept.theirs, STDERR_FILENO) }
        if errors == .discarded { posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) }
        // Whoever waits for the end of a pipe would wait for a child too that got a copy of it by chance.
        var flags = POSIX_SPAWN_SETSIGMASK
        #if canImport(Darwin)
        flags |= POSIX_SPAWN_CLOEXEC_DEFAULT
        if errors == .shared { posix_spawn_file_actions_addinherit_np(&actions, STDERR_FILENO) }
        #elseif canImport(Glibc)
        // Not in older libraries, nor in what Swift sees of the newer ones.
        typealias CloseFrom = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        if let function = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") {
            _ = unsafeBitCast(function, to: CloseFrom.self)(&actions, STDERR_FILENO + 1)
        }
        #endif
        // The threads that run tasks block every signal, a child inherits that, and one that no signal reaches outlives us.
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(flags))
        let arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var id: pid_t = 0
        let status = posix_spawnp(&id, words[0], &actions, &attributes, arguments, environ)
        guard status == 0 else {
            throw Failure(description: "The program \(words[0]) could not be started (\(String(cString: strerror(status)))).")
        }
        (self.id, self.input, self.output, self.errors) = (id, input.ours, output.ours, kept?.ours)
    }

    /// False when it reads no longer.
    @discardableResult
    package func write(_ line: String) -> Bool { self.input.write(Array((line + "\n").utf8)) }

    /// The next line of its output; `nil` at the end.
    package func readLine() -> String? { self.output.readLine() }

    /// What is left of its output, when it has ended.
    package func readOutput() -> String { self.output.readRest() }

    /// What is left of its errors, when it has ended. Only for one that keeps them.
    package func readErrors() -> String { self.errors?.readRest() ?? "" }

    /// What it reads ends here.
    package func endInput() { self.input.close() }

    /// Does nothing harmful only as long as nobody has waited for its end: its number may be another's then.
    package func signal(_ signal: Int32) { kill(self.id, signal) }

    /// Waits until it has ended. Once.
    /// - Returns: its exit status, or below zero the signal that ended it.
    @discardableResult
    package func waitForEnd() -> Int32 {
        var status: Int32 = 0
        while waitpid(self.id, &status, 0) == -1 {
            guard errno == EINTR else { return -1 }
        }
        let signal = status & 0x7F
        return signal == 0 ? (status >> 8) & 0xFF : -signal
    }

    /// Ends its input, and waits for its end.
    package func end() {
        self.input.close()
        self.output.close()
        self.waitForEnd()
    }
}

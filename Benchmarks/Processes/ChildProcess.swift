import RealtimeSystem

/// A child process with pipes for its input and output, used by the benchmarks and the tests.
///
/// The child inherits no blocked signals, doesn't ignore SIGHUP, and inherits no descriptors except its standard ones. All calls block their thread. One thread may
/// read while another writes; two threads must not read the same pipe.
package final class ChildProcess: Sendable {
    /// A process could not be started.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// The destination of the child's standard error.
    package enum Errors: Sendable {
        /// The parent's standard error.
        case inherited
        /// `/dev/null`.
        case discarded
        /// A pipe, read with ``readErrors()``.
        case captured
    }

    /// The process ID. Do not use it after ``waitForEnd()``: the system may have reused it.
    package let id: Int32
    private let input: PipeEnd
    private let output: PipeEnd
    private let errors: PipeEnd?

    /// The path of the current executable.
    package static var ownPath: String {
        #if os(Linux)
        // The link itself would name Valgrind's executable while this program runs under Valgrind.
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = readlink("/proc/self/exe", &path, path.count)
        guard length > 0 else { return "/proc/self/exe" }
        return String(decoding: path[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        #else
        CommandLine.arguments[0]
        #endif
    }

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - command: The program, searched for in `PATH` unless it contains a slash, and its arguments.
    ///   - errors: The destination of its standard error.
    ///   - writesToTerminal: Whether its standard output is a terminal.
    /// - Throws: `Failure` when the program cannot be started.
    package init(_ command: [String], errors: Errors = .inherited, writesToTerminal: Bool = false) throws(Failure) {
        let (input, output) = (try PipeEnd.pair(), try writesToTerminal ? PipeEnd.terminal() : PipeEnd.pair())
        let captured = errors == .captured ? try PipeEnd.pair() : nil
        defer { for end in [input.child, output.child, captured?.child ?? -1] where end >= 0 { closeDescriptor(end) } }
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        #else
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input.child, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, output.child, STDOUT_FILENO)
        if let captured { posix_spawn_file_actions_adddup2(&actions, captured.child, STDERR_FILENO) }
        if errors == .discarded { posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) }
        // A pipe ends only when every copy of its descriptor is closed, so the child must not inherit another child's pipes.
        var flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        #if canImport(Darwin)
        flags |= POSIX_SPAWN_CLOEXEC_DEFAULT
        if errors == .inherited { posix_spawn_file_actions_addinherit_np(&actions, STDERR_FILENO) }
        #elseif canImport(Glibc)
        // Missing in older versions of glibc, and not imported into Swift from newer ones.
        typealias CloseFrom = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        if let function = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") {
            _ = unsafeBitCast(function, to: CloseFrom.self)(&actions, STDERR_FILENO + 1)
        }
        #endif
        // The executor's threads block all signals. A child that inherits this mask cannot be ended by a signal.
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        // Tests may run under `nohup`.
        var defaults = sigset_t()
        sigemptyset(&defaults)
        sigaddset(&defaults, SIGHUP)
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(flags))
        let arguments = command.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var id: pid_t = 0
        let status = posix_spawnp(&id, command[0], &actions, &attributes, arguments, environ)
        guard status == 0 else {
            throw Failure(description: "Cannot start \(command[0]): \(String(cString: strerror(status))).")
        }
        (self.id, self.input, self.output, self.errors) = (id, input.parent, output.parent, captured?.parent)
    }

    /// Writes a line to the child's standard input.
    ///
    /// - Returns: Whether the line was written; `false` when the child no longer reads.
    @discardableResult
    package func write(_ line: String) -> Bool { self.input.write(Array((line + "\n").utf8)) }

    /// Reads the next line of the child's output. Returns `nil` at its end.
    package func readLine() -> String? { self.output.readLine() }

    /// Reads the child's output to its end.
    package func readOutput() -> String { self.output.readToEnd() }

    /// Reads the child's standard error to its end. Returns an empty string unless it is captured.
    package func readErrors() -> String { self.errors?.readToEnd() ?? "" }

    /// Closes the child's standard input.
    package func endInput() { self.input.close() }

    /// Sends a signal. Do not call it after ``waitForEnd()``: the system may have reused the process ID.
    package func signal(_ signal: Int32) { kill(self.id, signal) }

    /// Waits until the child has exited. Call it once.
    ///
    /// - Returns: The exit status, or the negative number of the signal that ended the child.
    @discardableResult
    package func waitForEnd() -> Int32 {
        var status: Int32 = 0
        while waitpid(self.id, &status, 0) == -1 {
            guard errno == EINTR else { return -1 }
        }
        let signal = status & 0x7F
        return signal == 0 ? (status >> 8) & 0xFF : -signal
    }

    /// Closes the child's input and output, and waits until it has exited.
    package func end() {
        self.input.close()
        self.output.close()
        self.waitForEnd()
    }
}

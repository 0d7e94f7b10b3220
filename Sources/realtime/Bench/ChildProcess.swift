#if canImport(Darwin)
internal import Darwin
#elseif canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A program that is talked to in lines, and that ends with its input.
///
/// Its calls wait, and so block their thread: a benchmark makes them before and after what it measures.
final class ChildProcess: Sendable {
    private let process: pid_t
    private let input: Int32
    private let output: Int32

    /// This very program.
    static var ownPath: String {
        #if os(Linux)
        "/proc/self/exe"
        #else
        CommandLine.arguments[0]
        #endif
    }

    /// - Parameters:
    ///   - words: the program, looked for in `PATH` when it has no slash, and its arguments.
    ///   - quiet: its errors are not shown.
    init(_ words: [String], quiet: Bool = false) throws(ToolFailure) {
        let (input, output) = (try Self.makePipe(), try Self.makePipe())
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        #else
        var actions = posix_spawn_file_actions_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input.read, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, output.write, STDOUT_FILENO)
        if quiet { posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) }
        let arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process: pid_t = 0
        let status = posix_spawnp(&process, words[0], &actions, nil, arguments, environ)
        close(input.read)
        close(output.write)
        guard status == 0 else {
            close(input.write)
            close(output.read)
            throw ToolFailure("The program \(words[0]) could not be started (\(String(cString: strerror(status)))).")
        }
        (self.process, self.input, self.output) = (process, input.write, output.read)
    }

    private static func makePipe() throws(ToolFailure) -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw ToolFailure("The system gave no pipe (\(String(cString: strerror(errno)))).") }
        // Not for other children: the input would not end as long as one of them held a copy.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    func write(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        var start = 0
        while start < bytes.count {
            let count = bytes.withUnsafeBytes { send($0, from: start) }
            guard count > 0 else { return }
            start += count
        }
    }

    private func send(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        let rest = UnsafeRawBufferPointer(rebasing: bytes[start...])
        #if canImport(Darwin)
        return Darwin.write(self.input, rest.baseAddress, rest.count)
        #elseif canImport(Glibc)
        return Glibc.write(self.input, rest.baseAddress, rest.count)
        #elseif canImport(Musl)
        return Musl.write(self.input, rest.baseAddress, rest.count)
        #endif
    }

    /// The next line; `nil` at the end of its output.
    func readLine() -> String? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(self.output, &byte, 1) == 1 {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
    }

    /// Ends its input, and waits for its end.
    func end() {
        close(self.input)
        close(self.output)
        var status: Int32 = 0
        while waitpid(self.process, &status, 0) == -1, errno == EINTR {}
    }
}

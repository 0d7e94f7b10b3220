import RealtimeCore
import RealtimeSystem

/// A file descriptor that is written to from any thread, one complete line at a time and unbuffered.
final class Output: Sendable {
    /// Why nothing more can be written.
    enum Failure: Sendable, Equatable {
        /// The reader has closed its end, as in `realtime … | head -1`.
        case brokenPipe
        /// A system call failed with this `errno`.
        case system(Int32)
    }

    static let standard = Output(STDOUT_FILENO)
    static let error = Output(STDERR_FILENO)

    private struct State: Sendable {
        var failure: Failure?
        var waiting: WakeUp?
    }

    private let descriptor: Int32
    private let state = Lock(State())
    /// Held while a line is written, so that lines do not interleave. Separate from `state`, because a slow reader may block it.
    private let writing = Lock(())

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    var isTerminal: Bool { isatty(self.descriptor) == 1 }

    /// Returns whether both descriptors refer to the same terminal, file or pipe.
    func leadsToSamePlace(as other: Output) -> Bool {
        var (first, second) = (stat(), stat())
        guard fstat(self.descriptor, &first) == 0, fstat(other.descriptor, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// The first failure of a write, or `nil`.
    var failure: Failure? { self.state.withLock { $0.failure } }

    /// Writes all bytes, blocking the thread while the reader is slow. Does nothing after a failure.
    func write(_ bytes: [UInt8]) {
        guard self.failure == nil else { return }
        guard let failure = self.writing.withLock({ _ in self.writeAll(bytes) }) else { return }
        let waiting = self.state.withLock { state -> WakeUp? in
            state.failure = state.failure ?? failure
            return state.waiting.take()
        }
        waiting?.resume()
    }

    func write(_ text: String) { self.write(Array(text.utf8)) }

    /// Waits until a write fails. Only one task may wait at a time.
    ///
    /// - Returns: The failure, or `nil` when the task is cancelled first.
    func waitForFailure() async -> Failure? {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.failure == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } onCancel: {
            self.state.withLock { $0.waiting.take() }
        }
        return self.failure
    }

    private func writeAll(_ bytes: [UInt8]) -> Failure? {
        bytes.withUnsafeBytes { buffer in
            var remaining = buffer[...]
            while !remaining.isEmpty {
                let count = writeBytes(self.descriptor, UnsafeRawBufferPointer(rebasing: remaining))
                if count >= 0 {
                    remaining = remaining.dropFirst(count)
                    continue
                }
                switch errno {
                case EINTR: continue
                case EAGAIN:
                    // Another process that shares the terminal can make it non-blocking.
                    var ready = pollfd(fd: self.descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = poll(&ready, 1, -1)
                case EPIPE: return .brokenPipe
                case let code: return .system(code)
                }
            }
            return nil
        }
    }

    /// Makes writing to a closed pipe fail with EPIPE instead of ending the process.
    static func ignoreBrokenPipes() { signal(SIGPIPE, SIG_IGN) }

    /// Whether there are descriptors for a command, whose event loop and first connection need four, and for the pool of threads that runs tasks,
    /// which ends the process with a signal if it can't open a file.
    static var canOpenDescriptors: Bool {
        let descriptors = (0..<8).map { _ in dup(STDERR_FILENO) }
        for descriptor in descriptors where descriptor >= 0 { close(descriptor) }
        return !descriptors.contains(-1)
    }

    /// Opens `/dev/null` for each standard descriptor that is closed (`realtime … >&-`), in the direction that makes using it fail.
    ///
    /// Otherwise the next socket would get the free number, and lines of output would be sent to a peer.
    static func reserveStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // `open` returns the lowest free number, which is this descriptor.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}

/// The system's `write`, which the methods of `Output` shadow.
private func writeBytes(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}

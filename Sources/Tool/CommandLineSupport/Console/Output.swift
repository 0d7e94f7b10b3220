internal import RealtimeSystem
internal import RealtimeCore

/// A descriptor that whole lines go to, each as soon as it is there, from any thread.
package final class Output: Sendable {
    package enum Ending: Sendable, Equatable {
        /// Nobody reads any more: `realtime … | head -1`.
        case nobodyReads
        /// The system refused, with this `errno`.
        case failed(Int32)
    }

    package static let standard = Output(STDOUT_FILENO)
    package static let error = Output(STDERR_FILENO)

    private struct State: Sendable {
        package var ending: Ending?
        package var waiting: WakeUp?
    }

    private let descriptor: Int32
    private let state = Lock(State())
    /// Held while a line is written, so that lines do not mix; apart from `state`, since a slow reader may hold it long.
    private let writing = Lock(())

    package init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    package var isTerminal: Bool { isatty(self.descriptor) == 1 }

    /// Waits for a slow reader. Does nothing after the output's end.
    package func write(_ bytes: [UInt8]) {
        guard self.state.withLock({ $0.ending == nil }) else { return }
        guard let ending = self.writing.withLock({ _ in self.writeAll(bytes) }) else { return }
        let waiting = self.state.withLock { state -> WakeUp? in
            state.ending = state.ending ?? ending
            return state.waiting.take()
        }
        waiting?.resume()
    }

    package func write(_ text: String) { self.write(Array(text.utf8)) }

    /// Waits for the output's end; `nil` when the task was cancelled before it. One task at a time.
    package func ended() async -> Ending? {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.ending == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } withdraw: {
            self.state.withLock { $0.waiting.take() }
        }
        return self.ending
    }

    package var ending: Ending? { self.state.withLock { $0.ending } }

    private func writeAll(_ bytes: [UInt8]) -> Ending? {
        bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = self.writeSome(part)
                if count >= 0 {
                    rest = rest.dropFirst(count)
                    continue
                }
                switch errno {
                case EINTR: continue
                case EAGAIN:
                    // Whoever shares the terminal with us made it non-blocking.
                    var ready = pollfd(fd: self.descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = poll(&ready, 1, -1)
                case EPIPE: return .nobodyReads
                case let code: return .failed(code)
                }
            }
            return nil
        }
    }

    private func writeSome(_ bytes: UnsafeRawBufferPointer) -> Int {
        #if canImport(Darwin)
        return Darwin.write(self.descriptor, bytes.baseAddress, bytes.count)
        #elseif canImport(Glibc)
        return Glibc.write(self.descriptor, bytes.baseAddress, bytes.count)
        #elseif canImport(Musl)
        return Musl.write(self.descriptor, bytes.baseAddress, bytes.count)
        #endif
    }

    /// A reader that goes makes `write` fail with EPIPE instead of ending the process.
    package static func ignoreBrokenPipes() { signal(SIGPIPE, SIG_IGN) }

    /// Puts something in the place of a standard descriptor that is closed (`realtime … >&-`), on which using it fails.
    /// Otherwise the next socket would get its number, and lines of output would go to a stranger.
    package static func holdStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest free number is the one that was found closed.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}

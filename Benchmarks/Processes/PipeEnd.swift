import RealtimeSystem

/// The parent's end of a child's input or output.
final class PipeEnd: Sendable {
    /// Negative once it is closed.
    private let descriptor: Lock<Int32>

    private init(_ descriptor: Int32) { self.descriptor = Lock(descriptor) }

    deinit { self.close() }

    /// Creates two connected descriptors that are closed on `exec`: a child's input would not end while another child held a copy.
    ///
    /// They are sockets rather than pipes, so that writing after the child has exited is an error instead of SIGPIPE.
    static func pair() throws(ChildProcess.Failure) -> (parent: PipeEnd, child: Int32) {
        var ends: [Int32] = [0, 0]
        #if os(Linux)
        let status = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends)
        #else
        let status = socketpair(AF_UNIX, SOCK_STREAM, 0, &ends)
        if status == 0 {
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            var on: Int32 = 1
            setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
        }
        #endif
        guard status == 0 else {
            throw ChildProcess.Failure(description: "Cannot create a pipe: \(String(cString: strerror(errno))).")
        }
        return (PipeEnd(ends[0]), ends[1])
    }

    /// Creates a pseudoterminal in raw mode. The child writes to the terminal; the parent reads what it shows.
    static func terminal() throws(ChildProcess.Failure) -> (parent: PipeEnd, child: Int32) {
        var (parent, child) = (Int32(-1), Int32(-1))
        guard openpty(&parent, &child, nil, nil, nil) == 0 else {
            throw ChildProcess.Failure(description: "Cannot create a terminal: \(String(cString: strerror(errno))).")
        }
        for end in [parent, child] { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var settings = termios()
        tcgetattr(child, &settings)
        cfmakeraw(&settings)
        tcsetattr(child, TCSANOW, &settings)
        return (PipeEnd(parent), child)
    }

    func close() {
        self.descriptor.withLock { descriptor in
            if descriptor >= 0 { closeDescriptor(descriptor) }
            descriptor = -1
        }
    }

    /// Writes all bytes, and returns whether that succeeded.
    func write(_ bytes: [UInt8]) -> Bool {
        self.descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return false }
            var start = 0
            while start < bytes.count {
                let count = bytes.withUnsafeBytes { sendSilently(descriptor, UnsafeRawBufferPointer(rebasing: $0[start...])) }
                guard count > 0 else { return false }
                start += count
            }
            return true
        }
    }

    /// Reads a line. Returns `nil` at the end.
    ///
    /// The lock is not held while reading, which may block for long. The reading thread is also the one that closes the descriptor.
    func readLine() -> String? {
        let descriptor = self.descriptor.withLock { $0 }
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(descriptor, &byte, 1) == 1 {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
    }

    func readToEnd() -> String {
        let descriptor = self.descriptor.withLock { $0 }
        var all: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while case let count = read(descriptor, &chunk, chunk.count), count > 0 { all += chunk[..<count] }
        return String(decoding: all, as: UTF8.self)
    }
}

/// The system's `close`, which the methods of `PipeEnd` and `ChildProcess` shadow.
func closeDescriptor(_ descriptor: Int32) { _ = close(descriptor) }

/// Sends without raising SIGPIPE.
private func sendSilently(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    #if canImport(Darwin)
    send(descriptor, bytes.baseAddress, bytes.count, 0)
    #else
    send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    #endif
}

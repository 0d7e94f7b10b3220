internal import RealtimeSystem
internal import RealtimeCore

/// Our end of what a child reads or writes.
final class PipeEnd: Sendable {
    /// Below zero once it is closed.
    private let descriptor: Lock<Int32>

    private init(_ descriptor: Int32) { self.descriptor = Lock(descriptor) }

    deinit { self.close() }

    /// Two connected descriptors that no child inherits: what a child reads would not end as long as another one held a copy.
    ///
    /// Sockets and not pipes: writing to one that nobody reads any more is an error then, and no signal that ends us.
    static func pair() throws(ChildProcess.Failure) -> (ours: PipeEnd, theirs: Int32) {
        var ends: [Int32] = [0, 0]
        #if os(Linux)
        let made = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends)
        #else
        let made = socketpair(AF_UNIX, SOCK_STREAM, 0, &ends)
        if made == 0 {
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            var on: Int32 = 1
            setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
        }
        #endif
        guard made == 0 else {
            throw ChildProcess.Failure(description: "The system gave no pipe (\(String(cString: strerror(errno)))).")
        }
        return (PipeEnd(ends[0]), ends[1])
    }

    /// A terminal that shows bytes as they are: ours is what is behind its screen, theirs what a program writes to.
    static func terminal() throws(ChildProcess.Failure) -> (ours: PipeEnd, theirs: Int32) {
        var (ours, theirs) = (Int32(-1), Int32(-1))
        guard openpty(&ours, &theirs, nil, nil, nil) == 0 else {
            throw ChildProcess.Failure(description: "The system gave no terminal (\(String(cString: strerror(errno)))).")
        }
        for end in [ours, theirs] { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var settings = termios()
        tcgetattr(theirs, &settings)
        cfmakeraw(&settings)
        tcsetattr(theirs, TCSANOW, &settings)
        return (PipeEnd(ours), theirs)
    }

    func close() {
        self.descriptor.withLock { descriptor in
            if descriptor >= 0 { closeDescriptor(descriptor) }
            descriptor = -1
        }
    }

    /// False when nobody reads it.
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

    /// `nil` at the end. Not under the lock: it may wait for long, and whoever reads is the one who closes.
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

    func readRest() -> String {
        let descriptor = self.descriptor.withLock { $0 }
        var all: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while case let count = read(descriptor, &chunk, chunk.count), count > 0 { all += chunk[..<count] }
        return String(decoding: all, as: UTF8.self)
    }
}

/// What the methods' own names hide.
func closeDescriptor(_ descriptor: Int32) { _ = close(descriptor) }

private func sendSilently(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    #if canImport(Darwin)
    send(descriptor, bytes.baseAddress, bytes.count, 0)
    #else
    send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    #endif
}

package import RealtimeCore
internal import RealtimeSystem
#if os(Linux)
internal import CRealtimeSystem
#endif

/// The result of an attempt to move bytes, on a plain socket or with TLS. No attempt blocks.
package enum IOResult: Sendable, Equatable {
    /// The number of bytes moved. 0 for a completed handshake or shutdown.
    case done(Int)
    /// Nothing was moved. Retry when the descriptor is readable.
    case wantRead
    /// Nothing was moved. Retry when the descriptor is writable.
    case wantWrite
    /// The peer has shut down its side of the connection (with TLS, by `close_notify`). All bytes before it were received.
    case closed
    /// The connection failed. With TLS and without a `close_notify` the code is `.closed`: bytes may be missing.
    case failed(TransportError)
}

/// System calls on sockets, with the same behavior on every platform.
enum SystemSocket {
    /// Reads bytes that the next read returns again.
    static let peekFlags = Int32(MSG_PEEK)

    #if canImport(Darwin)
    static let stream = SOCK_STREAM
    static let sendFlags: Int32 = 0
    #else
    #if canImport(Glibc)
    static let stream = Int32(SOCK_STREAM.rawValue)
    private static let openFlags = Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    #else
    static let stream = SOCK_STREAM
    private static let openFlags = SOCK_NONBLOCK | SOCK_CLOEXEC
    #endif
    static let sendFlags = Int32(MSG_NOSIGNAL)
    #endif

    static func close(_ descriptor: Int32) {
        // Never retried after EINTR: Linux has released the descriptor by then.
        #if canImport(Darwin)
        _ = Darwin.close(descriptor)
        #elseif canImport(Glibc)
        _ = Glibc.close(descriptor)
        #else
        _ = Musl.close(descriptor)
        #endif
    }

    /// Refuses further connections to a socket that listens, also while another process has a descriptor of it.
    static func endListening(_ descriptor: Int32) {
        // Systems of Apple report an error, and the socket listens until its last descriptor is closed.
        _ = shutdown(descriptor, Int32(SHUT_RD))
    }

    /// Creates a non-blocking TCP socket that child processes do not inherit and that raises no SIGPIPE.
    static func makeSocket(_ family: Int32) -> Result<Int32, SystemError> {
        #if canImport(Darwin)
        let descriptor = socket(family, self.stream, 0)
        guard descriptor >= 0 else { return .failure(SystemError(errno)) }
        self.prepare(descriptor)
        #else
        let descriptor = socket(family, self.stream | self.openFlags, 0)
        guard descriptor >= 0 else { return .failure(SystemError(errno)) }
        #endif
        return .success(descriptor)
    }

    /// Accepts a connection as a socket like one of ``makeSocket(_:)``.
    static func accept(_ listener: Int32) -> Result<Int32, SystemError> {
        #if os(Linux)
        let descriptor = realtime_accept(listener)
        guard descriptor >= 0 else { return .failure(SystemError(errno)) }
        #else
        let descriptor = Darwin.accept(listener, nil, nil)
        guard descriptor >= 0 else { return .failure(SystemError(errno)) }
        self.prepare(descriptor)
        #endif
        return .success(descriptor)
    }

    #if canImport(Darwin)
    private static func prepare(_ descriptor: Int32) {
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        self.set(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1)
    }
    #endif

    static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Disables Nagle's algorithm, so that small frames are sent without delay.
    static func setNoDelay(_ descriptor: Int32) {
        self.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }

    /// Returns the error number of an asynchronous connect, or 0.
    static func pendingError(_ descriptor: Int32) -> Int32 {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &value, &length) == 0 ? value : errno
    }

    @inline(__always)
    static func receive(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer, flags: Int32 = 0) -> IOResult {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, flags)
            if count > 0 { return .done(count) }
            if count == 0 { return .closed }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wantRead
            default: return .failed(.lost(errno))
            }
        }
    }

    @inline(__always)
    static func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult {
        while true {
            #if canImport(Darwin)
            let count = Darwin.send(descriptor, bytes.baseAddress, bytes.count, self.sendFlags)
            #elseif canImport(Glibc)
            let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, self.sendFlags)
            #else
            let count = Musl.send(descriptor, bytes.baseAddress, bytes.count, self.sendFlags)
            #endif
            if count >= 0 { return .done(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wantWrite
            default: return .failed(.lost(errno))
            }
        }
    }

    /// Shuts down writing (sends FIN). Reading continues.
    static func shutDownWriting(_ descriptor: Int32) {
        #if canImport(Glibc)
        shutdown(descriptor, Int32(SHUT_WR))
        #else
        shutdown(descriptor, SHUT_WR)
        #endif
    }
}

/// An `errno` value.
struct SystemError: Error, Hashable {
    var number: Int32

    init(_ number: Int32) {
        self.number = number
    }

    static var last: SystemError { SystemError(errno) }

    /// The system's description of the error.
    var message: String { TransportError.systemMessage(self.number) }

    /// Whether the process or system is out of descriptors or memory. That is temporary and not caused by the connection.
    var isShortage: Bool { [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(self.number) }
}

extension TransportError {
    /// Returns the system's message for an error number.
    static func systemMessage(_ number: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { text in
            text[0] = 0
            #if canImport(Glibc)
            // Swift imports the POSIX variant, which fills the buffer, and not the GNU variant.
            _ = strerror_r(number, text.baseAddress!, text.count)
            #else
            strerror_r(number, text.baseAddress!, text.count)
            #endif
            return String(cString: text.baseAddress!)
        }
    }

    /// Creates the error of a failed system call.
    ///
    /// - Parameters:
    ///   - number: The error number.
    ///   - operation: What failed, such as "create a socket".
    static func system(_ number: Int32, _ operation: String) -> TransportError {
        let advice = SystemError(number).isShortage ? " Close unused connections, or increase the limit of open files (ulimit -n)." : ""
        return TransportError(.system, "Cannot \(operation): \(self.systemMessage(number)).\(advice)")
    }

    /// Creates the error of an established connection that was lost.
    static func lost(_ number: Int32) -> TransportError {
        switch number {
        case ECONNRESET, EPIPE, ECONNABORTED:
            TransportError(.reset, "The peer reset the connection: \(self.systemMessage(number)).")
        case ETIMEDOUT:
            TransportError(.timedOut, "The connection was lost: the peer's system does not respond.")
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN:
            TransportError(.unreachable, "The connection was lost: \(self.systemMessage(number)). Check the network.")
        default:
            TransportError(.system, "The connection was lost: \(self.systemMessage(number)).")
        }
    }
}

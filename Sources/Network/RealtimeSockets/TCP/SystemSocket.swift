internal import RealtimeSystem
internal import RealtimeCore
#if os(Linux)
internal import CRealtimeSystem
#endif

/// The system calls on sockets, each with what its system lacks made up for.
enum SystemSocket {
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
        // Not again after EINTR: Linux has given the number back by then.
        #if canImport(Darwin)
        _ = Darwin.close(descriptor)
        #elseif canImport(Glibc)
        _ = Glibc.close(descriptor)
        #else
        _ = Musl.close(descriptor)
        #endif
    }

    /// A TCP socket that never blocks, is not inherited and raises no signal; or the error number.
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

    /// Small frames go out at once.
    static func setNoDelay(_ descriptor: Int32) {
        self.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }

    /// The error that a connect left behind, 0 for none.
    static func pendingError(_ descriptor: Int32) -> Int32 {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &value, &length) == 0 ? value : errno
    }

    @inline(__always)
    static func receive(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
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

    /// Sends FIN; reading goes on.
    static func finish(_ descriptor: Int32) {
        #if canImport(Glibc)
        shutdown(descriptor, Int32(SHUT_WR))
        #else
        shutdown(descriptor, SHUT_WR)
        #endif
    }
}

/// An error number.
struct SystemError: Error, Hashable {
    var number: Int32

    init(_ number: Int32) {
        self.number = number
    }

    static var last: SystemError { SystemError(errno) }

    /// No descriptor or memory is left: a state that passes, and is no fault of the connection.
    var isShortage: Bool { [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(self.number) }
}

extension TransportError {
    /// The system's own words for an error number.
    static func words(_ number: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { text in
            text[0] = 0
            #if canImport(Glibc)
            // The GNU one returns the text, the POSIX one fills the buffer: Swift sees the latter.
            _ = strerror_r(number, text.baseAddress!, text.count)
            #else
            strerror_r(number, text.baseAddress!, text.count)
            #endif
            return String(cString: text.baseAddress!)
        }
    }

    static func system(_ number: Int32, _ what: String) -> TransportError {
        let advice = SystemError(number).isShortage ? " Close what is not needed, or raise the limit of open files (ulimit -n)." : ""
        return TransportError(.system, "The system refused to \(what): \(self.words(number)).\(advice)")
    }

    /// An established connection that broke.
    static func lost(_ number: Int32) -> TransportError {
        switch number {
        case ECONNRESET, EPIPE, ECONNABORTED:
            TransportError(.reset, "The peer cut the connection: \(self.words(number)).")
        case ETIMEDOUT:
            TransportError(.timedOut, "The connection broke: the peer's system no longer answers.")
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN:
            TransportError(.unreachable, "The connection broke: \(self.words(number)). Check the network.")
        default:
            TransportError(.system, "The connection broke: \(self.words(number)).")
        }
    }
}

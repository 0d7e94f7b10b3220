import RealtimeSystem

/// OpenSSL's access to a socket.
///
/// OpenSSL's own implementation calls `write`, which raises SIGPIPE if the peer has closed the connection. That would terminate a
/// process that does not ignore the signal.
enum SocketBIO {
    static func makeMethod(_ functions: OpenSSLFunctions) -> OpaquePointer? {
        let type = functions.BIO_get_new_index() | OpenSSLConstant.BIO.sourceSink
        guard let method = functions.BIO_meth_new(type, "socket without SIGPIPE"),
            functions.BIO_meth_set_read(method, { SocketBIO.read($0, $1, $2) }) == 1,
            functions.BIO_meth_set_write(method, { SocketBIO.write($0, $1, $2) }) == 1,
            functions.BIO_meth_set_ctrl(method, { bio, command, _, _ in SocketBIO.control(bio, command) }) == 1
        else { return nil }
        return method
    }

    private static func session(_ bio: OpaquePointer?, _ functions: OpenSSLFunctions) -> TLSSession? {
        functions.BIO_get_data(bio).map { Unmanaged<TLSSession>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func read(_ bio: OpaquePointer?, _ buffer: UnsafeMutableRawPointer?, _ count: Int32) -> Int32 {
        guard let functions = OpenSSL.current?.functions, let session = Self.session(bio, functions), let buffer, count > 0 else {
            return -1
        }
        functions.BIO_clear_flags(bio, OpenSSLConstant.BIO.allRetryFlags)
        while true {
            let received = recv(session.descriptor, buffer, Int(count), 0)
            if received > 0 { return Int32(received) }
            if received == 0 {
                session.socketEnded = true
                return 0
            }
            let error = errno
            if error == EINTR { continue }
            if error == EAGAIN || error == EWOULDBLOCK {
                functions.BIO_set_flags(bio, OpenSSLConstant.BIO.shouldRead | OpenSSLConstant.BIO.shouldRetry)
            } else {
                session.socketError = error
            }
            return -1
        }
    }

    private static func write(_ bio: OpaquePointer?, _ bytes: UnsafeRawPointer?, _ count: Int32) -> Int32 {
        guard let functions = OpenSSL.current?.functions, let session = Self.session(bio, functions), let bytes, count > 0 else {
            return -1
        }
        functions.BIO_clear_flags(bio, OpenSSLConstant.BIO.allRetryFlags)
        while true {
            let sent = send(session.descriptor, bytes, Int(count), SystemSocket.sendFlags)
            if sent >= 0 { return Int32(sent) }
            let error = errno
            if error == EINTR { continue }
            if error == EAGAIN || error == EWOULDBLOCK {
                functions.BIO_set_flags(bio, OpenSSLConstant.BIO.shouldWrite | OpenSSLConstant.BIO.shouldRetry)
            } else {
                session.socketError = error
            }
            return -1
        }
    }

    private static func control(_ bio: OpaquePointer?, _ command: Int32) -> Int {
        switch command {
        case OpenSSLConstant.BIO.controlFlush: 1
        default: 0
        }
    }

    /// Disables SIGPIPE for the socket on Darwin, where `send` has no flag for it.
    static func prepare(_ descriptor: Int32) {
        #if canImport(Darwin)
        SystemSocket.set(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1)
        #endif
    }
}

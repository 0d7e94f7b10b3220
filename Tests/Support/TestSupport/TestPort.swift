import RealtimeSystem

/// Ports of 127.0.0.1 that no other socket of this machine takes while a test uses them.
package enum TestPort {
    private static let last = Lock(10_000 + Int(getpid() % 200) * 100)

    /// Returns a port for servers that can't choose a free one by themselves, or that are stopped and started again on the same one.
    ///
    /// The port is outside of the range from which the system chooses, and on Linux it is reserved until the process ends: a socket is bound
    /// to it that never listens. While a server doesn't listen at the port, connections to it are refused. Servers must set `SO_REUSEADDR`,
    /// as most do.
    package static func next() -> Int {
        while true {
            let port = self.last.withLock { port in
                port = port < 32_000 ? port + 1 : 10_000
                return port
            }
            if self.reserve(port) { return port }
        }
    }

    /// Returns a port that refuses connections until the process ends: a socket is bound to it that doesn't listen.
    package static func refusing() -> Int {
        guard let (_, port) = bound(to: 0) else { preconditionFailure("the system has no free port: error \(errno)") }
        return port
    }

    private static func reserve(_ port: Int) -> Bool {
        // Without `SO_REUSEADDR`, the port must be free of any socket, including those that another process has reserved.
        guard let (descriptor, _) = bound(to: port) else { return false }
        #if os(Linux)
        // The reservation, which ends with the process, leaves the port to sockets that have the option as well.
        var on: Int32 = 1
        return setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size)) == 0
        #else
        close(descriptor)
        return true
        #endif
    }
}

/// Returns a socket that is bound to a port, or to any free one if it is 0; `nil` if another socket uses it.
private func bound(to port: Int) -> (descriptor: Int32, port: Int)? {
    #if canImport(Glibc)
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #else
    let descriptor = socket(AF_INET, SOCK_STREAM, 0)
    #endif
    guard descriptor >= 0 else { return nil }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &address) { address in
        address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            bind(descriptor, address, size) == 0 ? getsockname(descriptor, address, &size) : -1
        }
    }
    guard status == 0 else {
        close(descriptor)
        return nil
    }
    return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
}

import CommandLineSupport
import RealtimeSystem

/// A blocking socket: the baseline of the round trips.
struct RawSocket: ~Copyable {
    private let descriptor: Int32
    private var buffer = [UInt8](repeating: 0, count: 4096)

    init(port: Int) throws(ToolFailure) {
        #if canImport(Glibc)
        let stream = Int32(SOCK_STREAM.rawValue)
        #else
        let stream = SOCK_STREAM
        #endif
        self.descriptor = socket(AF_INET, stream, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(self.descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw ToolFailure("A blocking socket failed to connect to the load generator.") }
        var one: Int32 = 1
        setsockopt(self.descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close(self.descriptor) }

    func write(_ bytes: [UInt8]) { _ = send(self.descriptor, bytes, bytes.count, 0) }

    /// Reads and discards what has arrived.
    mutating func readSome() { _ = recv(self.descriptor, &self.buffer, self.buffer.count, 0) }

    /// Reads and discards a number of bytes.
    mutating func read(_ count: Int) {
        var remaining = count
        while remaining > 0 {
            let received = recv(self.descriptor, &self.buffer, min(remaining, self.buffer.count), 0)
            guard received > 0 else { return }
            remaining -= received
        }
    }
}

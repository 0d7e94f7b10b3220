import RealtimeSystem

/// An IP address and a port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    package enum Family: Hashable, Sendable { case v4, v6 }

    package let family: Family
    /// The 4 or 16 bytes of the address in network order.
    private let high: UInt64
    private let low: UInt64
    private let scope: UInt32
    package var port: Int

    /// Creates an address from its numeric form, or `nil` if the text is not an IP address.
    package init?(_ text: String, port: Int) {
        let result = SystemResolver.lookUp(text, port, isNumeric: true)
        guard case .success(let addresses) = result, let first = addresses.first else { return nil }
        self = first
    }

    /// Creates an address from the system's structure, or `nil` for another address family.
    init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            let v4 = UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
            self.family = .v4
            self.high = 0
            self.low = UInt64(UInt32(bigEndian: v4.sin_addr.s_addr))
            self.scope = 0
            self.port = Int(UInt16(bigEndian: v4.sin_port))
        case AF_INET6:
            var v6 = UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in6.self)
            self.family = .v6
            (self.high, self.low) = withUnsafeBytes(of: &v6.sin6_addr) {
                let (high, low) = ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                return (UInt64(bigEndian: high), UInt64(bigEndian: low))
            }
            self.scope = v6.sin6_scope_id
            self.port = Int(UInt16(bigEndian: v6.sin6_port))
        default:
            return nil
        }
    }

    /// The address of a socket's peer, or `nil` if it has none.
    init?(peerOf descriptor: Int32) {
        self.init(descriptor, getpeername)
    }

    /// The address to which a socket is bound, or `nil` if there is none.
    init?(localOf descriptor: Int32) {
        self.init(descriptor, getsockname)
    }

    private init?(_ descriptor: Int32, _ query: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let address = withUnsafeMutableBytes(of: &storage) { bytes -> SocketAddress? in
            let pointer = bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self)
            return query(descriptor, pointer, &length) == 0 ? SocketAddress(pointer) : nil
        }
        guard let address else { return nil }
        self = address
    }

    /// Calls `body` with the system's structure for the address, and its size.
    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        switch self.family {
        case .v4:
            var v4 = sockaddr_in()
            #if canImport(Darwin)
            v4.sin_len = UInt8(MemoryLayout<sockaddr_in>.size)
            #endif
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = UInt16(truncatingIfNeeded: self.port).bigEndian
            v4.sin_addr.s_addr = UInt32(truncatingIfNeeded: self.low).bigEndian
            return withUnsafeBytes(of: &v4) {
                body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
            }
        case .v6:
            var v6 = sockaddr_in6()
            #if canImport(Darwin)
            v6.sin6_len = UInt8(MemoryLayout<sockaddr_in6>.size)
            #endif
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = UInt16(truncatingIfNeeded: self.port).bigEndian
            v6.sin6_scope_id = self.scope
            withUnsafeMutableBytes(of: &v6.sin6_addr) {
                $0.storeBytes(of: self.high.bigEndian, as: UInt64.self)
                $0.storeBytes(of: self.low.bigEndian, toByteOffset: 8, as: UInt64.self)
            }
            return withUnsafeBytes(of: &v6) {
                body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
            }
        }
    }

    var systemFamily: Int32 { self.family == .v4 ? AF_INET : AF_INET6 }

    /// The IP address in its numeric form.
    package var host: String {
        self.withPointer { address, length in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { text in
                text[0] = 0
                getnameinfo(address, length, text.baseAddress!, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
                return String(cString: text.baseAddress!)
            }
        }
    }

    /// The address and port in the form used in URLs.
    package var description: String {
        self.family == .v4 ? "\(self.host):\(self.port)" : "[\(self.host)]:\(self.port)"
    }
}

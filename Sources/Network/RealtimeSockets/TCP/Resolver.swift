import RealtimeSystem
package import RealtimeCore

/// A type that finds the addresses of a host.
package protocol HostResolver: Sendable {
    /// Looks up the addresses of a host.
    ///
    /// - Parameters:
    ///   - host: The host name or IP address.
    ///   - port: The port of the resulting addresses.
    ///   - completion: A closure that is called once, on any thread, before or after this method returns. It must ignore a result
    ///     that arrives too late.
    func resolve(_ host: String, port: Int, _ completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void)
}

/// The system's resolver.
///
/// Its lookups block and cannot be cancelled, so each one runs on its own thread. Concurrent lookups of the same host share a
/// thread.
package final class SystemResolver: HostResolver {
    package static let shared = SystemResolver()

    private struct Query: Hashable, Sendable {
        var host: String
        var port: Int
    }

    private typealias Completion = @Sendable (Result<[SocketAddress], TransportError>) -> Void

    private let pending = Lock<[Query: [Completion]]>([:])

    package func resolve(_ host: String, port: Int, _ completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void) {
        if let address = SocketAddress(host, port: port) { return completion(.success([address])) }
        let query = Query(host: host, port: port)
        let isFirst = self.pending.withLock { pending -> Bool in
            pending[query, default: []].append(completion)
            return pending[query]?.count == 1
        }
        guard isFirst else { return }
        let thread = PosixThread("realtime-dns") {
            self.complete(query, Self.lookUp(host, port, isNumeric: false))
        }
        guard let thread else { return self.complete(query, .failure(.system(EAGAIN, "start a thread to look up \(host)"))) }
        thread.detach()
    }

    private func complete(_ query: Query, _ result: Result<[SocketAddress], TransportError>) {
        let completions = self.pending.withLock { $0.removeValue(forKey: query) }
        for completion in completions ?? [] { completion(result) }
    }

    /// Looks up a host, and blocks until the result is available.
    ///
    /// - Parameters:
    ///   - host: The host name or IP address.
    ///   - port: The port of the resulting addresses.
    ///   - isNumeric: Whether to accept IP addresses only, which does not block.
    static func lookUp(_ host: String, _ port: Int, isNumeric: Bool) -> Result<[SocketAddress], TransportError> {
        // The C library would look up only the part before a zero byte.
        guard !host.utf8.contains(0), !host.isEmpty else { return .failure(.noAddress(host)) }
        var hints = addrinfo()
        hints.ai_socktype = SystemSocket.stream
        hints.ai_flags = AI_NUMERICSERV | (isNumeric ? AI_NUMERICHOST : 0)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &list)
        let number = errno
        defer { if let list { freeaddrinfo(list) } }
        guard code == 0 else { return .failure(.lookUp(host, code, number)) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            let address = entry.pointee.ai_addr.flatMap { SocketAddress($0) }
            if let address, !addresses.contains(address) { addresses.append(address) }
            next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .failure(.noAddress(host)) : .success(addresses)
    }
}

extension TransportError {
    static func noAddress(_ host: String) -> TransportError {
        TransportError(
            .nameNotFound,
            host.isEmpty ? "Invalid URL: missing host." : "The host \(host) was not found. Check the name and the network.")
    }

    fileprivate static func lookUp(_ host: String, _ code: Int32, _ number: Int32) -> TransportError {
        switch code {
        case EAI_AGAIN:
            TransportError(.nameNotFound, "The host \(host) could not be looked up: no name server responded. Check the network and retry.")
        case EAI_SYSTEM:
            .system(number, "look up \(host)")
        case EAI_MEMORY:
            .system(ENOMEM, "look up \(host)")
        default:
            .noAddress(host)
        }
    }
}

import RealtimeSystem
package import RealtimeCore

/// Finds the addresses of a host.
package protocol HostResolver: Sendable {
    /// Calls `answer` once, from any thread, now or later. An answer nobody waits for any more does no harm.
    func resolve(_ host: String, port: Int, _ answer: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void)
}

/// The system's own look-up. It blocks, and nobody can end it early, so each host that is looked for has a thread of
/// its own for as long as that takes; those who ask for the same one meanwhile share it.
package final class SystemResolver: HostResolver {
    package static let shared = SystemResolver()

    private struct Question: Hashable, Sendable {
        var host: String
        var port: Int
    }

    private typealias Answer = @Sendable (Result<[SocketAddress], TransportError>) -> Void

    private let waiting = Lock<[Question: [Answer]]>([:])

    package func resolve(_ host: String, port: Int, _ answer: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void) {
        if let address = SocketAddress(host, port: port) { return answer(.success([address])) }
        let question = Question(host: host, port: port)
        let isFirst = self.waiting.withLock { waiting -> Bool in
            waiting[question, default: []].append(answer)
            return waiting[question]?.count == 1
        }
        guard isFirst else { return }
        let thread = PosixThread("realtime-dns") {
            self.answer(question, Self.lookUp(host, port, isNumeric: false))
        }
        guard let thread else { return self.answer(question, .failure(.system(EAGAIN, "start a thread to look up \(host)"))) }
        thread.detach()
    }

    private func answer(_ question: Question, _ result: Result<[SocketAddress], TransportError>) {
        let answers = self.waiting.withLock { $0.removeValue(forKey: question) }
        for answer in answers ?? [] { answer(result) }
    }

    static func lookUp(_ host: String, _ port: Int, isNumeric: Bool) -> Result<[SocketAddress], TransportError> {
        // The C library would look for the part before it.
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
        TransportError(.nameNotFound, "The host \(host.isEmpty ? "name is empty" : "\(host) has no address"): check how it is spelled.")
    }

    fileprivate static func lookUp(_ host: String, _ code: Int32, _ number: Int32) -> TransportError {
        switch code {
        case EAI_AGAIN:
            TransportError(.nameNotFound, "No name server answered when \(host) was looked up: check the network, and try again.")
        case EAI_SYSTEM:
            .system(number, "look up \(host)")
        case EAI_MEMORY:
            .system(ENOMEM, "look up \(host)")
        default:
            .noAddress(host)
        }
    }
}

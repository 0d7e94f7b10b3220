import RealtimeCore
package import RealtimeSockets
import RealtimeSystem

/// An HTTP or SOCKS5 proxy on a port of this machine. It opens every tunnel that a client with the right credentials asks for.
package final class TestProxy: Sendable {
    package enum Kind: String, CaseIterable, Sendable {
        case http, socks5
    }

    private struct State: Sendable {
        var targets: [String] = []
        var streams: [ObjectIdentifier: SocketStream] = [:]
        var isRefusing = false
    }

    package let kind: Kind
    package let port: Int
    let credentials: ProxyConfiguration.Credentials?
    private let loop: EventLoop
    private let listener: TCPListener
    private let owner = Owner()
    private let state = Lock(State())

    /// Starts a proxy.
    ///
    /// - Parameters:
    ///   - kind: The protocol.
    ///   - credentials: The user name and the password that clients need, or `nil`.
    package init(_ kind: Kind, credentials: ProxyConfiguration.Credentials? = nil) throws {
        self.kind = kind
        self.credentials = credentials
        self.loop = try EventLoop("test-proxy")
        let owner = self.owner
        self.listener = try TCPListener(loops: [self.loop]) { _ in owner.proxy.withLock { $0 }.map { ProxyClient($0) } }
        self.port = self.listener.address.port
        owner.proxy.withLock { $0 = self }
    }

    /// Refers to the proxy of a listener that is created before it, until the proxy is stopped.
    private final class Owner: Sendable {
        let proxy = Lock<TestProxy?>(nil)
    }

    /// Closes the port and all connections.
    package func stop() async {
        await self.listener.stop()
        self.loop.shutdown()
        self.owner.proxy.withLock { $0 = nil }
    }

    /// The configuration of a client.
    package var configuration: ProxyConfiguration { self.configuration(with: self.credentials) }

    package func configuration(with credentials: ProxyConfiguration.Credentials?) -> ProxyConfiguration {
        switch self.kind {
        case .http: .http(host: "127.0.0.1", port: self.port, credentials: credentials)
        case .socks5: .socks5(host: "127.0.0.1", port: self.port, credentials: credentials)
        }
    }

    /// The URL of the proxy, with the credentials.
    package var url: String {
        let userInfo = self.credentials.map { "\($0.username):\($0.password)@" } ?? ""
        return "\(self.kind.rawValue)://\(userInfo)127.0.0.1:\(self.port)"
    }

    /// The hosts and ports that clients asked for, in order.
    package var targets: [String] { self.state.withLock { $0.targets } }

    /// Whether the proxy refuses further tunnels.
    package var isRefusing: Bool {
        get { self.state.withLock { $0.isRefusing } }
        set { self.state.withLock { $0.isRefusing = newValue } }
    }

    /// Ends all tunnels.
    package func dropTunnels() {
        for stream in self.state.withLock({ Array($0.streams.values) }) { stream.finishWriting() }
    }

    /// Whether to open a tunnel.
    fileprivate func accepts(_ target: String) -> Bool {
        self.state.withLock { state in
            state.targets.append(target)
            return !state.isRefusing
        }
    }

    fileprivate func note(_ stream: SocketStream, isOpen: Bool) {
        self.state.withLock { $0.streams[ObjectIdentifier(stream)] = isOpen ? stream : nil }
    }

    /// Connects to a server, to whose port every host name leads.
    fileprivate func connect(_ port: Int, _ client: SocketStream, _ events: ProxyClient) -> SocketStream {
        let server = SocketStream(loop: self.loop, events: ProxiedServer(client, events))
        server.connect(to: "127.0.0.1", port: port)
        return server
    }
}

/// The connection of a client.
private final class ProxyClient: StreamEvents {
    private enum Stage: Sendable {
        case greeting, authentication, request
        case tunnel(SocketStream)
        case ended
    }

    private struct State: Sendable {
        var stage = Stage.greeting
        var bytes: [UInt8] = []
    }

    private let proxy: TestProxy
    private let state = Lock(State())

    init(_ proxy: TestProxy) {
        self.proxy = proxy
    }

    func opened(_ stream: SocketStream) { self.proxy.note(stream, isOpen: true) }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        self.state.withLock { state in
            state.bytes += bytes
            while self.proceed(stream, &state) {}
        }
        stream.flush()
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.proxy.note(stream, isOpen: false)
        let server = self.state.withLock { state -> SocketStream? in
            guard case .tunnel(let server) = state.stage else { return nil }
            return server
        }
        if error == nil { server?.finishWriting() } else { server?.close() }
        if server == nil { stream.close() }
    }

    /// Handles the next message of the client.
    ///
    /// - Returns: Whether there may be another one.
    private func proceed(_ stream: SocketStream, _ state: inout State) -> Bool {
        if case .tunnel(let server) = state.stage {
            let bytes = state.bytes
            state.bytes = []
            server.enqueue { $0 += bytes }
            server.flush()
            return false
        }
        return self.proxy.kind == .http ? self.proceedHTTP(stream, &state) : self.proceedSOCKS(stream, &state)
    }

    // MARK: HTTP

    private func proceedHTTP(_ stream: SocketStream, _ state: inout State) -> Bool {
        guard case .greeting = state.stage else { return false }
        let lines = String(decoding: state.bytes, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
        guard state.bytes.suffix(4).elementsEqual("\r\n\r\n".utf8), let words = lines.first?.split(separator: " ") else { return false }
        state.bytes = []
        guard words.count == 3, words[0] == "CONNECT" else { return self.refuse(stream, &state, "405 Method Not Allowed") }
        guard lines.contains("Host: \(words[1])") else { return self.refuse(stream, &state, "400 Bad Request") }
        if let credentials = self.proxy.credentials {
            let field = lines.first { $0.hasPrefix("Proxy-Authorization: Basic ") }
            guard field?.split(separator: " ").last.map(String.init) == Self.base64("\(credentials.username):\(credentials.password)")
            else { return self.refuse(stream, &state, "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"test\"") }
        }
        let target = String(words[1])
        guard self.proxy.accepts(target), let port = target.split(separator: ":").last.flatMap({ Int($0) }) else {
            return self.refuse(stream, &state, "403 Forbidden")
        }
        state.stage = .tunnel(self.proxy.connect(port, stream, self))
        return false
    }

    private func refuse(_ stream: SocketStream, _ state: inout State, _ status: String) -> Bool {
        state.stage = .ended
        stream.enqueue { $0 += "HTTP/1.1 \(status)\r\nContent-Length: 2\r\n\r\nno".utf8 }
        stream.finishWriting()
        return false
    }

    /// An encoder of its own, so that the one of the package isn't tested with itself.
    private static func base64(_ text: String) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        let bits = text.utf8.flatMap { byte in (0..<8).map { byte >> (7 - $0) & 1 } }
        let encoded = stride(from: 0, to: bits.count, by: 6).map { start in
            digits[(0..<6).reduce(0) { $0 * 2 + Int(start + $1 < bits.count ? bits[start + $1] : 0) }]
        }
        return String(encoded) + String(repeating: "=", count: (4 - encoded.count % 4) % 4)
    }

    // MARK: SOCKS

    private func proceedSOCKS(_ stream: SocketStream, _ state: inout State) -> Bool {
        let bytes = state.bytes
        switch state.stage {
        case .greeting:
            guard bytes.count >= 2, bytes.count >= 2 + Int(bytes[1]) else { return false }
            let method: UInt8 = self.proxy.credentials == nil ? 0 : 2
            state.bytes = Array(bytes[(2 + Int(bytes[1]))...])
            guard bytes[0] == 5, bytes[2..<(2 + Int(bytes[1]))].contains(method) else { return self.refuse(stream, &state, [5, 0xFF]) }
            stream.enqueue { $0 += [5, method] }
            state.stage = method == 0 ? .request : .authentication
        case .authentication:
            guard bytes.count >= 2, case let start = 3 + Int(bytes[1]), bytes.count >= start,
                case let end = start + Int(bytes[start - 1]), bytes.count >= end
            else { return false }
            state.bytes = Array(bytes[end...])
            let (username, password) = (bytes[2..<(start - 1)], bytes[start..<end])
            guard bytes[0] == 1, let credentials = self.proxy.credentials, username.elementsEqual(credentials.username.utf8),
                password.elementsEqual(credentials.password.utf8)
            else { return self.refuse(stream, &state, [1, 1]) }
            stream.enqueue { $0 += [1, 0] }
            state.stage = .request
        case .request:
            guard bytes.count >= 5 else { return false }
            let length = bytes[3] == 1 ? 4 : bytes[3] == 4 ? 16 : 1 + Int(bytes[4])
            guard bytes.count >= 4 + length + 2 else { return false }
            state.bytes = Array(bytes[(4 + length + 2)...])
            let port = Int(bytes[4 + length]) << 8 | Int(bytes[5 + length])
            let host =
                switch bytes[3] {
                case 1: bytes[4..<8].map { "\($0)" }.joined(separator: ".")
                case 3: String(decoding: bytes[5..<(4 + length)], as: UTF8.self)
                default: "IPv6"
                }
            guard self.proxy.accepts("\(host):\(port)") else { return self.refuse(stream, &state, [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]) }
            state.stage = .tunnel(self.proxy.connect(port, stream, self))
            return false
        case .tunnel, .ended: return false
        }
        return !state.bytes.isEmpty
    }

    private func refuse(_ stream: SocketStream, _ state: inout State, _ reply: [UInt8]) -> Bool {
        state.stage = .ended
        stream.enqueue { $0 += reply }
        stream.finishWriting()
        return false
    }

    /// The server of the tunnel has accepted the connection, or refused it.
    func connected(_ stream: SocketStream, isOpen: Bool) {
        let reply: [UInt8] =
            switch self.proxy.kind {
            case .http: Array("HTTP/1.1 \(isOpen ? "200 Connection established" : "502 Bad Gateway")\r\n\r\n".utf8)
            case .socks5: [5, isOpen ? 0 : 5, 0, 1, 0, 0, 0, 0, 0, 0]
            }
        stream.enqueue { $0 += reply }
        if isOpen { stream.flush() } else { stream.finishWriting() }
    }
}

/// The connection to a server.
private final class ProxiedServer: StreamEvents {
    private let client: SocketStream
    private let events: ProxyClient
    private let isOpen = Lock(false)

    init(_ client: SocketStream, _ events: ProxyClient) {
        self.client = client
        self.events = events
    }

    func opened(_ stream: SocketStream) {
        self.isOpen.withLock { $0 = true }
        self.events.connected(self.client, isOpen: true)
        stream.flush()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        self.client.enqueue { $0 += bytes }
        self.client.flush()
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        guard self.isOpen.withLock({ $0 }) else { return self.events.connected(self.client, isOpen: false) }
        if error == nil { self.client.finishWriting() } else { self.client.close() }
    }
}

import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// The handshakes without sockets.
@Suite struct ProxyHandshakeTests {
    private static let credentials = ProxyConfiguration.Credentials(username: "anna", password: "hunter2")

    /// The result of a handshake.
    private struct Outcome: Equatable {
        /// The bytes of the client, in the order in which the proxy asked for them.
        var sent: [UInt8] = []
        var isOpen = false
        /// The bytes of the tunnel.
        var rest: [UInt8] = []
        var error: TransportError?
    }

    private static func tunnel(
        _ kind: ProxyServer.Kind, _ host: String = "server.test", authenticates: Bool = false
    ) -> ProxyTunnel {
        let proxy = ProxyServer(kind: kind, host: "proxy.test", port: 3128, credentials: authenticates ? self.credentials : nil)
        return ProxyTunnel(proxy: proxy, host: host, port: 443)
    }

    /// Runs a handshake whose responses arrive in pieces.
    private static func run(_ tunnel: ProxyTunnel, _ pieces: [[UInt8]]) -> Outcome {
        var outcome = Outcome()
        do throws(TransportError) {
            var handshake = try ProxyHandshake(tunnel, output: &outcome.sent)
            for piece in pieces {
                guard !outcome.isOpen else {
                    outcome.rest += piece
                    continue
                }
                let result = piece.withUnsafeBytes { bytes -> Result<[UInt8], TransportError> in
                    var input = bytes
                    do throws(TransportError) {
                        outcome.isOpen = try handshake.receive(&input, output: &outcome.sent)
                        return .success(Array(input))
                    } catch {
                        return .failure(error)
                    }
                }
                let rest = try result.get()
                expect(outcome.isOpen || rest.isEmpty)
                outcome.rest += rest
            }
        } catch {
            outcome.error = error
        }
        return outcome
    }

    /// Runs a handshake with every way to split the responses in two, and byte by byte, and expects the same result.
    private static func run(_ tunnel: ProxyTunnel, splitting responses: [UInt8]) -> Outcome {
        let whole = Self.run(tunnel, [responses])
        for pieces in everySplit(responses) {
            let outcome = Self.run(tunnel, pieces)
            expectEqual(outcome, whole, "\(pieces.map(\.count))")
        }
        return whole
    }

    // MARK: HTTP

    @Test(
        arguments: [
            ("server.test", false, "CONNECT server.test:443 HTTP/1.1\r\nHost: server.test:443\r\n\r\n"),
            ("::1", false, "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n"),
            // The zone has a meaning on this machine only.
            ("fe80::1%eth0", false, "CONNECT [fe80::1]:443 HTTP/1.1\r\nHost: [fe80::1]:443\r\n\r\n"),
            (
                "10.0.0.1", true,
                "CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: 10.0.0.1:443\r\nProxy-Authorization: Basic YW5uYTpodW50ZXIy\r\n\r\n"
            ),
        ])
    func `the request to an HTTP proxy names the server and contains the credentials`(host: String, authenticates: Bool, text: String) {
        let outcome = Self.run(Self.tunnel(.http, host, authenticates: authenticates), [])
        expect(String(decoding: outcome.sent, as: UTF8.self) == text && !outcome.isOpen && outcome.error == nil)
    }

    @Test(
        arguments: [
            "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200 OK\r\nVia: proxy\r\n\r\n", "HTTP/1.1 204\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            // These fields have no meaning here.
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        ], ["", "hello", "\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n"])
    func `what follows the response of an HTTP proxy belongs to the tunnel`(response: String, rest: String) {
        let outcome = Self.run(Self.tunnel(.http), splitting: Array((response + rest).utf8))
        expect(outcome.isOpen && outcome.rest == Array(rest.utf8) && outcome.error == nil)
    }

    @Test(
        arguments: [
            (
                "407 Proxy Authentication Required", false,
                "The proxy http://proxy.test:3128 requires a user name and a password (407 Proxy Authentication Required). Set the "
            ),
            ("407", true, "The proxy http://proxy.test:3128 rejected the user name or the password (407). Check the credentials"),
            ("407 No\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: basic realm=\"x\"", true, "rejected the user name"),
            ("407 No\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM", true, "doesn't offer Basic authentication (407 No)"),
            ("403 Forbidden", false, "doesn't allow the connection to server.test:443 (403 Forbidden). Check its address and its rules."),
            ("405 Method Not Allowed", false, "doesn't allow the connection to server.test:443 (405 Method Not Allowed)"),
            ("302 Found\r\nLocation: http://portal.test/", false, "doesn't allow the connection to server.test:443 (302 Found)"),
            ("101 Switching Protocols\r\nUpgrade: websocket", false, "doesn't allow the connection"),
            ("502 Bad Gateway", false, "couldn't connect to server.test:443 (502 Bad Gateway). Check the host, the port and"),
            ("503 \(String(repeating: "x", count: 500))", false, "(503 \(String(repeating: "x", count: 100))…)"),
        ])
    func `another status of an HTTP proxy is an error that names it`(status: String, authenticates: Bool, message: String) {
        let response = Array("HTTP/1.1 \(status)\r\nContent-Length: 9\r\n\r\n<html>no".utf8)
        let error = Self.run(Self.tunnel(.http, authenticates: authenticates), splitting: response).error
        expect(error?.code == .proxyRejected && error?.status == Int(status.prefix(3)))
        expectEqual(error?.message.contains(message), true, "\(error?.message ?? "")")
        expectEqual(error?.message.contains("hunter2"), false)
    }

    @Test(arguments: [
        "407 Basic YW5uYTpodW50ZXIy", "403 YW5uYTpodW50ZXIy", "502 no anna:hunter2", "401 hunter2",
        "407 \(String(repeating: "x", count: 90))YW5uYTpodW50ZXIy", "407 No\r\nProxy-Authenticate: hunter2",
    ])
    func `credentials that an HTTP proxy repeats are omitted from errors`(status: String) {
        let response = Array("HTTP/1.1 \(status)\r\n\r\n".utf8)
        let error = Self.run(Self.tunnel(.http, authenticates: true), splitting: response).error
        expectEqual(error?.code, .proxyRejected)
        for part in ["hunter2", "YW5u", "Hunt"] { expectEqual(error?.message.contains(part), false, "\(error?.message ?? "")") }
    }

    /// A client could request another token for its server because of the status 401.
    @Test(arguments: [(true, 407, "rejected the user name or the password (401 No)"), (false, nil, "doesn't allow the connection")])
    func `the status 401 of an HTTP proxy does not look like that of the server`(authenticates: Bool, status: Int?, message: String) {
        let error = Self.run(Self.tunnel(.http, authenticates: authenticates), [Array("HTTP/1.1 401 No\r\n\r\n".utf8)]).error
        expect(error?.code == .proxyRejected && error?.status == status && error?.message.contains(message) == true)
    }

    @Test(
        arguments: [
            ("SSH-2.0-OpenSSH_9.2\r\n", .protocolViolation), ("\u{5}\0", nil), ("\u{5}\0\r\n", .protocolViolation),
            ("HTTP/2 200 OK\r\n\r\n", .protocolViolation), ("HTTP/1.1 20 OK\r\n", .protocolViolation),
            ("HTTP/1.1 200 OK\nA: b\n\n", .protocolViolation), ("HTTP/1.1 200 OK\r\nA\r\n", .protocolViolation),
            ("\r\nHTTP/1.1 200 OK\r\n\r\n", .protocolViolation),
            ("HTTP/1.1 200 \(String(repeating: "x", count: 9_000))", .tooLarge),
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "a: b\r\n", count: 129), .tooLarge),
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "a: \(String(repeating: "b", count: 7_000))\r\n", count: 5), .tooLarge),
            (String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 17), .protocolViolation),
        ] as [(String, TransportError.Code?)])
    func `an invalid response of an HTTP proxy is an error`(response: String, code: TransportError.Code?) {
        let bytes = Array(response.utf8)
        for pieces in [[bytes], bytes.map { [$0] }] {
            let error = Self.run(Self.tunnel(.http), pieces).error
            expectEqual(error?.code, code)
            expect(error?.message.hasPrefix("Invalid response of the proxy http://proxy.test:3128: ") != false)
        }
    }

    // MARK: SOCKS

    private static let established: [UInt8] = [5, 0, 0, 1, 127, 0, 0, 1, 4, 210]

    @Test(
        arguments: [
            ("server.test", [3, 11] + Array("server.test".utf8)), ("10.0.0.1", [1, 10, 0, 0, 1]),
            ("::1", [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            (String(repeating: "x", count: 255), [3, 255] + [UInt8](repeating: 0x78, count: 255)),
        ] as [(String, [UInt8])])
    func `a SOCKS proxy receives a name or an address`(host: String, address: [UInt8]) {
        let outcome = Self.run(Self.tunnel(.socks5, host), splitting: [5, 0] + Self.established + [1, 2, 3])
        expectEqual(outcome.sent, [5, 1, 0, 5, 1, 0] + address + [1, 187])
        expect(outcome.isOpen && outcome.rest == [1, 2, 3] && outcome.error == nil)
    }

    @Test(arguments: ["", String(repeating: "x", count: 256)])
    func `a name that a SOCKS proxy can't receive is an error`(host: String) {
        let outcome = Self.run(Self.tunnel(.socks5, host), [])
        expect(outcome.error?.code == .invalidURL && outcome.sent.isEmpty)
    }

    @Test func `a SOCKS proxy chooses whether the client authenticates`() {
        let tunnel = Self.tunnel(.socks5, "10.0.0.1", authenticates: true)
        let request: [UInt8] = [5, 1, 0, 1, 10, 0, 0, 1, 1, 187]
        let authenticated = Self.run(tunnel, splitting: [5, 2, 1, 0] + Self.established)
        expect(authenticated.isOpen)
        expectEqual(authenticated.sent, [5, 2, 0, 2] + [1, 4] + Array("anna".utf8) + [7] + Array("hunter2".utf8) + request)
        let anonymous = Self.run(tunnel, splitting: [5, 0] + Self.established)
        expect(anonymous.isOpen && anonymous.sent == [5, 2, 0, 2] + request)
    }

    @Test(
        arguments: [
            [5, 0, 0, 3, 0, 1, 2], [5, 0, 0, 3, 4, 97, 98, 99, 100, 1, 2], [5, 0, 0, 3, 255] + [UInt8](repeating: 1, count: 257),
            [5, 0, 0, 4] + [UInt8](repeating: 2, count: 18), [5, 0, 0xFF, 1, 0, 0, 0, 0, 0, 0],
        ] as [[UInt8]])
    func `the reply of a SOCKS proxy can contain any address`(reply: [UInt8]) {
        let outcome = Self.run(Self.tunnel(.socks5), splitting: [5, 0] + reply + [22, 3])
        expect(outcome.isOpen && outcome.rest == [22, 3])
    }

    @Test(
        arguments: [
            (1, "couldn't connect to server.test:443 (general failure, SOCKS reply 1). Check the host, the port and the proxy's network."),
            (2, "doesn't allow the connection to server.test:443 (not allowed by its rules, SOCKS reply 2)"),
            (3, "(network unreachable, SOCKS reply 3)"), (4, "(host unreachable, SOCKS reply 4)"),
            (5, "(connection refused, SOCKS reply 5)"), (6, "(TTL expired, SOCKS reply 6)"), (7, "(command not supported, SOCKS reply 7)"),
            (8, "(address type not supported, SOCKS reply 8)"), (9, "(SOCKS reply 9)"), (255, "(SOCKS reply 255)"),
        ] as [(UInt8, String)])
    func `a refusal of a SOCKS proxy is an error that names the reply`(code: UInt8, message: String) {
        // Some proxies close the connection after the code.
        let error = Self.run(Self.tunnel(.socks5), splitting: [5, 0, 5, code]).error
        expect(error?.code == .proxyRejected && error?.status == nil)
        expectEqual(error?.message.contains(message), true, "\(error?.message ?? "")")
    }

    @Test(
        arguments: [
            (false, [5, 0xFF], .proxyRejected, "requires a user name and a password (it accepts none of the methods offered)"),
            (true, [5, 0xFF], .proxyRejected, "rejected the user name or the password (it accepts none of the methods offered)"),
            (true, [5, 2, 1, 1], .proxyRejected, "rejected the user name or the password (status 1). Check the credentials"),
            (false, [5, 2], .protocolViolation, "It selects the method 2"), (true, [5, 1], .protocolViolation, "It selects the method 1"),
            (false, [4, 90], .protocolViolation, "The version is 4 instead of 5."),
            (false, Array("HTTP/1.1 400".utf8), .protocolViolation, "The version is 72 instead of 5. Check that it is a SOCKS5 proxy."),
            (true, [5, 2, 5], .protocolViolation, "The version of the authentication is 5 instead of 1."),
            (false, [5, 0, 1], .protocolViolation, "The version is 1 instead of 5."),
            (false, [5, 0, 5, 0, 0, 2], .protocolViolation, "The type of the address is 2"),
        ] as [(Bool, [UInt8], TransportError.Code, String)])
    func `an invalid message of a SOCKS proxy is an error`(
        authenticates: Bool, responses: [UInt8], code: TransportError.Code, message: String
    ) {
        let error = Self.run(Self.tunnel(.socks5, authenticates: authenticates), splitting: responses).error
        expect(error?.code == code && error?.message.contains("socks5://proxy.test:3128") == true)
        expectEqual(error?.message.contains(message), true, "\(error?.message ?? "")")
        expectEqual(error?.message.contains("hunter2"), false)
    }
}
